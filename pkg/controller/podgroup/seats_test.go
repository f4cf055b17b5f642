package podgroup

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A group whose expected pods did not come is incomplete at once, and its policy decides.
func TestExpectedPodsThatDidNotCome(t *testing.T) {
	const why = "no room is held any more for 3 pods of template worker"
	because := func(r string) func(*scheduling.PodGroup) {
		return func(pg *scheduling.PodGroup) {
			meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{Type: scheduling.ConditionSeatsHeld, Status: metav1.ConditionFalse, Reason: r, Message: why})
		}
	}
	restart := annotated(group.IncompletePolicyAnnotation, group.IncompleteRestart)
	cases := map[string]struct {
		edits  []func(*scheduling.PodGroup)
		pod    []func(*corev1.Pod)
		want   string
		evicts int
	}{
		"nothing is said":              {nil, nil, "", 0},
		"seats were only moved":        {[]func(*scheduling.PodGroup){because(reason.SeatsTaken)}, nil, "", 0},
		"they are missing":             {[]func(*scheduling.PodGroup){because(reason.ExpectedMissing)}, nil, "True ExpectedMissing " + why + "; policy wait", 0},
		"the policy is to start again": {[]func(*scheduling.PodGroup){because(reason.ExpectedMissing)}, []func(*corev1.Pod){restart}, "True Restarting " + why + "; policy restart", 2},
		"no pod is on a node":          {[]func(*scheduling.PodGroup){because(reason.ExpectedMissing)}, []func(*corev1.Pod){func(p *corev1.Pod) { p.Spec.NodeName = "" }}, "", 0},
		"they are there again":         {[]func(*scheduling.PodGroup){incomplete}, nil, "False Complete", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observation{podGroup: podGroup(2, append(tc.edits, ours)...), pods: each(pods(2, append([]func(*corev1.Pod){bound}, tc.pod...)...)), now: now}
			v := DefaultConfig().decideOnIncomplete(o, sizeDecision{minMember: 2, size: 5, valid: true}, shortfall{})
			got := ""
			if v.condition != nil {
				got = string(v.condition.Status) + " " + v.condition.Reason + " " + v.condition.Message
			}
			if !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" || len(v.evict) != tc.evicts {
				t.Errorf("decideOnIncomplete() = %q, evicts %d; want %q, %d", got, len(v.evict), tc.want, tc.evicts)
			}
		})
	}
}

// While the owner cannot be read, the PodGroup keeps its templates, and so its seats.
func TestTemplatesStayWhileTheOwnerCannotBeRead(t *testing.T) {
	owner := topOwnerRefFrom(metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: "1"})
	made := podGroup(2, ours)
	made.Spec.Templates = []scheduling.PodsOfTemplate{{Name: "a", Coming: 2, Expected: 4}}
	made.OwnerReferences = []metav1.OwnerReference{owner.ref}
	for state, want := range map[ownerState]bool{unreadable: true, readable: false} {
		o := observation{now: now, podGroup: made, pods: each(pods(2)), topOwners: []topOwner{{topOwnerRef: owner, state: state}}}
		o.key.Namespace, o.key.Name = "ns", owner.owner.PodGroupName()
		s := DefaultConfig().wantedFields(o, sizeDecision{minMember: 2})
		if kept := s == nil || len(s.templates) == 1; kept != want {
			t.Errorf("state %v: the templates are kept: %v, want %v", state, kept, want)
		}
	}
}

// The condition Valid says that an owner has more templates than a PodGroup may have.
func TestTooManyTemplates(t *testing.T) {
	owner := topOwnerRefFrom(metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: "1"})
	of := func(n int) observation {
		o := observation{now: now, topOwners: []topOwner{{topOwnerRef: owner, state: readable, size: group.Size{Size: 400, Min: 200}, templates: make([]group.Template, n)}}}
		o.key.Namespace, o.key.Name = "ns", owner.owner.PodGroupName()
		return o
	}
	if got := of(group.MaxTemplates).wantedTemplates(); len(got) != group.MaxTemplates {
		t.Errorf("%d templates of %d are wanted", len(got), group.MaxTemplates)
	}
	if got := of(group.MaxTemplates + 1).wantedTemplates(); got != nil {
		t.Errorf("%d templates are wanted, more than %d", len(got), group.MaxTemplates)
	}
	if w := DefaultConfig().wantedSize(of(group.MaxTemplates + 1)); !strings.Contains(w.message, "more than 128 templates") {
		t.Errorf("the size is described as %q, want that there are too many templates", w.message)
	}
}
