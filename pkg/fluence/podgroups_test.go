package fluence

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// The scheduler keeps little of a PodGroup, whatever a user writes into it.
func TestLittleOfAPodGroupIsKept(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pg := aPodGroup(g.Name, 2, "pg")
		pg.Labels, pg.Finalizers = map[string]string{"a": "b"}, []string{"a/b"}
		pg.Annotations = map[string]string{"a": "b", group.MatchPolicyAnnotation: "low"}
		pg.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "c"}}
		pg.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		pg.Spec.MinResources = corev1.ResourceList{"cpu": resource.MustParse("1")}
		r.podGroupAPI.put(pg)
		r.pass(0)
		kept := r.pl.podGroups.Get(g)
		if n := len(kept.Labels) + len(kept.Finalizers) + len(kept.OwnerReferences) + len(kept.ManagedFields) + len(kept.Spec.MinResources); n > 0 || len(kept.Annotations) != 1 || kept.Spec.MinMember != 2 {
			t.Errorf("the scheduler keeps %+v", kept)
		}
	})
}

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

// The condition of a group that ended while it waited does not say any more that it waits. Where a group was is kept.
func TestTheConditionOfAGroupThatEnded(t *testing.T) {
	cases := map[string]struct {
		before metav1.Condition
		phase  scheduling.PodGroupPhase
		want   []string
	}{
		"it failed while it waited":     {metav1.Condition{Status: metav1.ConditionFalse, Reason: reason.NoRoom, Message: "room for 1"}, scheduling.PodGroupFailed, []string{"Failed the group had no nodes when it ended; its reason was NoRoom: room for 1"}},
		"it was done while it waited":   {metav1.Condition{Status: metav1.ConditionFalse, Reason: reason.Suspended, Message: "Job/w is suspended"}, scheduling.PodGroupFinished, []string{"Finished the group had no nodes when it ended; its reason was Suspended: Job/w is suspended"}},
		"that was written by another":   {metav1.Condition{Status: metav1.ConditionFalse, Reason: reason.Failed, Message: "no nodes"}, scheduling.PodGroupFailed, nil},
		"it had nodes":                  {metav1.Condition{Status: metav1.ConditionTrue, Reason: reason.Placed, Message: "2 pods on 1 node (n: 2)"}, scheduling.PodGroupFinished, nil},
		"no scheduler has looked at it": {phase: scheduling.PodGroupFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				pg := aPodGroup(g.Name, 2, "pg")
				pg.Status.Phase = tc.phase
				pg.Status.Conditions = []metav1.Condition{{Type: conditionFinished, Status: metav1.ConditionTrue, Reason: "DeadlineExceeded"}}
				if tc.before.Status != "" {
					tc.before.Type = report.ConditionScheduled
					pg.Status.Conditions = append(pg.Status.Conditions, tc.before)
				}
				r.podGroupAPI.put(pg)
				r.pass(time.Minute)
				r.wantWrites(tc.want, nil)
			})
		})
	}
}
