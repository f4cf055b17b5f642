package inventory

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// Flow 21 of the lessons of earlier systems: a restart would be slow with a call for
// each node and each pod. The graph of 1,000 nodes with ten pods each is filled in one
// call for each batch. BenchmarkRestart in test/perf measures how long that takes.
func TestARestartedEngineIsFilledInFewCalls(t *testing.T) {
	const nodes, pods, atATime = 1_000, 10, 256
	run(t, embedded, nil, func(w *world) {
		for i := range nodes {
			name := fmt.Sprintf("n%04d", i)
			w.nodes.add(node(name, "16"))
			for k := range pods {
				uid := fmt.Sprintf("%s-%d", name, k)
				w.pods.add(pod(uid, types.UID(uid), name, "1"))
			}
		}
		w.begin()
		w.within(time.Minute, "the graph is filled", w.loaded)
		calls := map[matchtest.Method]int{}
		for _, c := range w.fake.Calls() {
			calls[c.Method]++
		}
		want := map[matchtest.Method]int{
			matchtest.Reset: 1, matchtest.Ready: 1,
			matchtest.PutNode: (nodes + atATime - 1) / atATime,
			matchtest.Update:  (nodes*pods + atATime - 1) / atATime,
		}
		for method, most := range want {
			if calls[method] == 0 || calls[method] > most {
				t.Errorf("%d calls of %s, want at most %d", calls[method], method, most)
			}
		}
	})
}
