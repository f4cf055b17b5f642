package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/stack"
)

// programWrites returns the number of writes of Fluence's programs in the namespace
// of the Jobs since the load began, by account, verb and resource.
func (l *load) programWrites() map[string]int {
	l.Helper()
	writes := map[string]int{}
	for ev, err := range l.AuditEvents() {
		if err != nil {
			l.Fatal(err)
		}
		account, ours := strings.CutPrefix(ev.User.Username, "system:serviceaccount:"+stack.Namespace+":")
		reads := slices.Contains([]string{"get", "list", "watch"}, ev.Verb)
		if ref := ev.ObjectRef; ours && !reads && ref != nil && ref.Namespace == l.ns && ev.Received.After(l.start) {
			writes[strings.TrimSuffix(account+" "+ev.Verb+" "+ref.Resource+"/"+ref.Subresource, "/")]++
		}
	}
	return writes
}

// writesOfAJob returns how often Fluence's programs write for a Job that starts without being refused.
// 19 writes for 8 pods are 2.38 a pod.
func writesOfAJob() map[string]float64 {
	return map[string]float64{
		"fluence-controller create podgroups":       1,
		"fluence-controller patch podgroups/status": 1, // Running
		"fluence-controller create events":          0,
		"fluence-scheduler create pods/binding":     loadSize,
		"fluence-scheduler create events":           loadSize, // Scheduled of each pod
		"fluence-scheduler patch podgroups/status":  1,        // Placed
		"fluence-scheduler patch pods/status":       0,
	}
}

const (
	// slack is how many more writes of a kind a Job may cost on average. Some are refused
	// for a moment, or their pods take long to come or to run, on a machine that is busy.
	slack = 0.75
	// mostWritesOfAPod is the largest number of writes for each pod, of all kinds together. The goal on a
	// machine that does nothing else is 2.5.
	mostWritesOfAPod = 2.9
	// judgedJobs is the largest number of Jobs whose writes are judged. With more of them it depends
	// on the machine how many pods run so late that their groups are written once in between.
	judgedJobs = 100
)

// fewWrites waits until all groups run and all events were sent. It
// fails if Fluence's programs wrote more often than writesOfAJob and mostWritesOfAPod say, with up to
// judgedJobs Jobs. It does not judge if groups were throttled, because then they were refused.
func (l *load) fewWrites() {
	l.Helper()
	var writes map[string]int
	l.within(l.patience(), "every group runs, and every event was sent", time.Second, func(ctx context.Context) (bool, string) {
		groups, err := l.PodGroups(ctx, l.ns)
		running := 0
		for _, pg := range groups {
			if pg.Status.Phase == scheduling.PodGroupRunning {
				running++
			}
		}
		writes = l.programWrites()
		sent := writes["fluence-scheduler create events"]
		return err == nil && running == l.jobs && sent >= l.size(), fmt.Sprintf("%d of %d run, the scheduler sent %d events, error %v", running, l.jobs, sent, err)
	})
	sum, judged := 0, l.jobs <= judgedJobs
	if n := l.throttled(); n > 0 {
		judged = false
		l.Logf("%d groups were throttled, because the machine is too slow for the scheduler: their writes are not judged", n)
	}
	for _, what := range slices.Sorted(maps.Keys(writes)) {
		sum += writes[what]
		each := float64(writes[what]) / float64(l.jobs)
		if most, known := writesOfAJob()[what]; judged && (!known || each > most+slack) {
			l.Errorf("%s: %.2f for each Job, want %.0f", what, each, most)
		} else {
			l.Logf("%s: %.2f for each Job", what, each)
		}
	}
	each := float64(sum) / float64(l.size())
	l.Logf("%.2f writes for each pod", each)
	if judged && each > mostWritesOfAPod {
		l.Errorf("%.2f writes for each pod, want at most %.2f", each, mostWritesOfAPod)
	}
}

// throttled returns how many groups were refused because their namespace had used up its share.
func (l *load) throttled() int {
	l.Helper()
	events, err := l.Client().EventsV1().Events(l.ns).List(l.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason.Throttled})
	if err != nil {
		l.Fatal(err)
	}
	return len(events.Items)
}
