package fluence

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestGangsFollowTheirPodGroups(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pod := r.pod("g-0", objects.InGroup(g.Name))
		noGroup := "waits for PodGroup ns/g, which does not exist: create it, or set the label fluence.group-size on the pods to have it created"
		r.wantHeld(pod, noGroup)
		r.podGroupAPI.put(aPodGroup(g.Name, 2, "pg"))
		r.pass(0)
		r.wantHeld(pod, "waits for 1 more pod: has 1 of minMember 2")
		r.podGroupAPI.put(aPodGroup(g.Name, 1, "pg"))
		r.pass(0)
		r.wantPasses(pod)
		r.podGroupAPI.drop(g)
		r.pass(0)
		r.wantHeld(pod, noGroup)
	})
}

func TestAPodGroupThatIsOverAsksForNoMorePods(t *testing.T) {
	for _, phase := range []scheduling.PodGroupPhase{scheduling.PodGroupFinished, scheduling.PodGroupFailed} {
		t.Run(string(phase), func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				pg := aPodGroup(g.Name, 2, "pg")
				r.podGroupAPI.put(pg)
				r.pass(0)
				if got := r.pl.groups.WaitingGroups(); len(got) != 1 || got[0].Reason != reason.Gathering {
					t.Errorf("waiting = %+v, want the group without pods", got)
				}
				pg = pg.DeepCopy()
				pg.Status.Phase = phase
				r.podGroupAPI.put(pg)
				r.pass(time.Minute)
				if got := r.pl.groups.WaitingGroups(); len(got) != 0 {
					t.Errorf("waiting = %+v, want none", got)
				}
			})
		})
	}
}
