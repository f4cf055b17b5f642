package fluence

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A job gets other room only if refusals last. If a node is to blame, that is soon.
func TestRefusalsOfRoomMustLast(t *testing.T) {
	job := types.NamespacedName{Namespace: ns, Name: "a"}
	type at struct {
		after time.Duration
		nodes []string
	}
	cases := map[string]struct {
		refusals []at
		lasts    bool
		want     []string
	}{
		"one alone":                       {[]at{{0, []string{"n1"}}}, false, nil},
		"two at once":                     {[]at{{0, []string{"n1"}}, {nodePatience / 2, []string{"n1"}}}, false, nil},
		"a node for long enough":          {[]at{{0, []string{"n2"}}, {nodePatience, []string{"n1"}}}, true, []string{"n1", "n2"}},
		"nobody is to blame":              {[]at{{0, nil}, {roomPatience / 2, nil}, {roomPatience - 1, nil}}, false, nil},
		"nobody is to blame for too long": {[]at{{0, nil}, {roomPatience, nil}}, true, nil},
		"one is long ago":                 {[]at{{0, []string{"n1"}}, {2 * roomRefusalsEnd, []string{"n1"}}}, false, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var r roomRefusals
			begin := time.Now()
			for i, refusal := range tc.refusals {
				all, lasts := r.refuse(job, 1, refusal.nodes, "", begin.Add(refusal.after))
				if last := i == len(tc.refusals)-1; lasts != (last && tc.lasts) || lasts && !slices.Equal(all, tc.want) {
					t.Errorf("refusal %d: %v, lasts %v, want %v, %v", i, all, lasts, tc.want, tc.lasts)
				}
			}
		})
	}
	t.Run("it has started meanwhile", func(t *testing.T) {
		var r roomRefusals
		r.refuse(job, 1, nil, "", time.Now())
		r.drop(job)
		if _, lasts := r.refuse(job, 1, nil, "", time.Now().Add(roomPatience)); lasts {
			t.Error("the refusal before the start counts")
		}
	})
	t.Run("it has another room", func(t *testing.T) {
		var r roomRefusals
		r.refuse(job, 1, []string{"n1"}, "", time.Now())
		if all, lasts := r.refuse(job, 2, []string{"n2"}, "", time.Now().Add(nodePatience)); lasts {
			t.Errorf("the refusal of the room before counts: %v", all)
		}
	})
}

// Nodes that are reserved for groups before a job, and room that these are promised, are none of the job's.
func TestJobsLeaveWhatGroupsBeforeThemHave(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, _ time.Time) {
		promised := r.pl.promises.get(types.NamespacedName{Namespace: ns, Name: "big"})
		if promised == nil {
			t.Fatalf("nothing is promised: %q", r.why("big"))
		}
		for name, tc := range map[string]struct {
			priority int32
			ignores  bool
		}{
			"a job of a higher priority": {1, true}, "a job of a lower priority": {-1, false},
		} {
			c := claimsBefore(&r.pl.groupPlacer, gang.Rank{Priority: tc.priority, Since: time.Now()})
			if got := slices.Contains(c.Ignored, promised.job.ID); got != tc.ignores {
				t.Errorf("%s overlooks the promise: %v, want %v", name, got, tc.ignores)
			}
		}
		on := map[string]struct{}{"n0": {}}
		if of, from := r.pl.promises.firstOn(on); of != promised.job.ID || !from.Equal(promised.at()) {
			t.Errorf("the first promise on n0 is %d from %s, want that to big", of, from)
		}
		if of, _ := r.pl.promises.firstOn(map[string]struct{}{"nowhere": {}}); of != 0 {
			t.Errorf("the first promise on another node is %d, want none", of)
		}
	})
}

// Pods that take over the room of their job take nothing from the jobs after it: what these are promised does not move later.
func TestATakeoverMovesNoPromise(t *testing.T) {
	engine := realEngine(t)
	inRigOf(t, engine, func(r *rig) { r.serveQueues() }, func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.pass(settleTime)
		r.schedule()
		r.pass(6 * time.Second)
		a := r.submit("a", 1, "10m", func(p *corev1.Pod) { p.Spec.Priority = new(int32(5)) })
		big := r.submit("big", 2, "1h")
		promised := big.says()
		if !strings.HasPrefix(promised, "Promised: promised 2 nodes from ") {
			t.Fatalf("the job says %q, want it promised both nodes", promised)
		}
		// The matcher would promise it a later time. That counts only for a job that has lost what it was promised.
		r.matcherFake.OnMatch(func(q match.Request) (*match.Allocation, error) {
			found, err := engine.Match(r.ctx, q)
			if q.Op == match.AllocateOrElseReserve && err == nil && found.Reserved {
				found.Start, found.End = found.Start.Add(time.Hour), found.End.Add(time.Hour)
			}
			return found, err
		})
		a.release()
		r.pass(10 * time.Second)
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n0"}) {
			t.Fatalf("the pod is on %v, want the node of the allocation", got)
		}
		if got := big.says(); got != promised {
			t.Errorf("the other job says %q, want %q", got, promised)
		}
	})
}
