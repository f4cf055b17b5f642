package simulate

import (
	"fmt"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// A Victim is a group, or a pod alone, that would be evicted as a whole.
type Victim struct {
	// Kind is PodGroup for a group of Fluence, podgroup.scheduling.k8s.io for a native one, or Pod.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Priority is the highest priority of its pods.
	Priority int32 `json:"priority"`
	// How is how its pods would end: Suspended or Deleted.
	How How `json:"how"`
	// Owner is the object that would be suspended, as KIND/NAME. It is empty if pods would be deleted.
	Owner string `json:"owner,omitempty"`
	// ComesBack is true if its pods are made again, as far as that is known.
	ComesBack bool `json:"comesBack"`
	// Protected is the number of its pods whose PodDisruptionBudgets allow no more disruptions.
	Protected int `json:"protected,omitempty"`
	// Pods are its pods on nodes.
	Pods []Placement `json:"pods"`
}

// A How is how the pods of a victim end.
type How string

const (
	// Suspended says that their owner is suspended, and resumed when they have gone.
	Suspended How = "suspended"
	// Deleted says that each of them is deleted.
	Deleted How = "deleted"
)

// victimOf returns a victim of a plan as it is shown.
func victimOf(v preemption.Victim) Victim {
	shown := Victim{
		Kind: string(v.Kind), Namespace: v.Namespace, Name: v.Name, Priority: v.Priority, How: Deleted,
		ComesBack: v.ComesBack, Protected: v.Protected, Pods: []Placement{},
	}
	if v.Kind == preemption.NativeGroup {
		shown.Kind = group.NativeKind
	}
	if v.Suspend != (group.Owner{}) {
		shown.How, shown.Owner = Suspended, v.Suspend.Kind+"/"+v.Suspend.Name
	}
	for _, pod := range v.Pods {
		shown.Pods = append(shown.Pods, Placement{Pod: pod.Name, Node: pod.Node})
	}
	return shown
}

// addVictims sets the victims of a decision. The message of the scheduler says what it has evicted, and is replaced
// because nobody was.
func (d *Decision) addVictims(victims []preemption.Victim) {
	groups, lone, pods := 0, 0, 0
	for _, v := range victims {
		d.Evicts = append(d.Evicts, victimOf(v))
		pods += len(v.Pods)
		if v.Kind == preemption.Pod {
			lone++
		} else {
			groups++
		}
	}
	what := ""
	switch {
	case groups == 0:
		what = reason.Plural(lone, "pod")
	case lone == 0:
		what = fmt.Sprintf("%s with %s", reason.Plural(groups, "group"), reason.Plural(pods, "pod"))
	default:
		what = fmt.Sprintf("%s with %s, and of %s", reason.Plural(groups, "group"), reason.Plural(pods-lone, "pod"), reason.Plural(lone, "single pod"))
	}
	d.Reason, d.Message = reason.Preempting, "would start after the eviction of "+what
}
