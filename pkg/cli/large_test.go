package cli

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// large has 1,000 nodes in 2 zones with 20 racks each. A group runs on 600 pods here and there, and others wait.
func large() []runtime.Object {
	runs := job("simulation")
	all := []runtime.Object{runs, podGroup(runs, 600, 600, "Running", scheduled(metav1.ConditionTrue, "Placed", "600 pods on 600 nodes"))}
	for i := range 1000 {
		name := fmt.Sprintf("node-%04d", i)
		rack := i / 25
		n := node(name, string(rune('a'+rack/20)), fmt.Sprintf("r%02d", rack))
		if i%300 == 7 {
			cordoned(n)
		}
		all = append(all, n)
		if i%5 < 3 {
			all = append(all, pod(fmt.Sprintf("simulation-%d", i), name, fmt.Sprint(2+i%5+rack%3), ofJob(runs)))
		}
	}
	for i := range 30 {
		j := job(fmt.Sprintf("waits-%02d", i))
		all = append(all, j, podGroup(j, 500, 0, "Pending", scheduled(metav1.ConditionFalse, "NoRoom", "needs 500 pods with cpu 8; room for 396")))
	}
	return all
}

func TestALargeClusterFitsOnAScreen(t *testing.T) {
	objects := large()
	for name, tc := range map[string]struct {
		args          string
		lines, column int
	}{
		"the graph":             {"graph" + levels, maxLines + 1, 200},
		"the graph by racks":    {"graph --depth zone" + levels, 3, 200},
		"the cluster":           {"cluster" + levels, 24, 80},
		"the graph of one rack": {"graph r07" + levels, 12, 200},
		"the graph, no levels":  {"graph", maxLines + 1, 250},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, code := call{args: tc.args, objects: objects}.run(t)
			lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			widest := 0
			for _, l := range lines {
				widest = max(widest, len([]rune(l)))
			}
			if code != ExitYes || len(lines) > tc.lines || len(lines) < 2 || widest > tc.column {
				t.Errorf("exit code %d, %d lines of up to %d characters, want at most %d of %d:\n%s%s", code, len(lines), widest, tc.lines, tc.column, out, errOut)
			}
			if testing.Verbose() {
				t.Log(out, errOut)
			}
		})
	}
}
