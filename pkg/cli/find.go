package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/rehearsal"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A naming is what a user calls something: by its name, and by its kind in small letters
// unless that is empty.
type naming struct{ kind, name string }

// shortNames are those that kubectl takes for kinds.
var shortNames = map[string]string{
	"cj": "cronjob", "deploy": "deployment", "fpg": "podgroup", "pg": "podgroup", "pgs": "podgroup",
	"po": "pod", "rs": "replicaset", "sts": "statefulset",
}

// parseNaming reads NAME or KIND/NAME, the kind as kubectl takes and prints it.
func parseNaming(text string) (naming, error) {
	kind, name, said := strings.Cut(text, "/")
	if !said {
		kind, name = "", text
	}
	if name == "" || said && kind == "" {
		return naming{}, fmt.Errorf("%q: name a group or a pod, as NAME or KIND/NAME; kubectl fluence groups lists the groups", text)
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".") // without the API group
	if long, ok := shortNames[kind]; ok {
		return naming{long, name}, nil
	}
	return naming{strings.TrimSuffix(kind, "s"), name}, nil
}

// is says whether something is called so.
func (n naming) is(kind, name string) bool {
	return n.name == name && (n.kind == "" || n.kind == strings.ToLower(kind))
}

// A namespace is what was read of one.
type namespace struct {
	pods    []*corev1.Pod
	groups  []scheduling.PodGroup
	owners  []runtime.Object
	above   group.Owners
	members map[types.NamespacedName][]*corev1.Pod
	// blind is that groups could not be read.
	blind bool
}

// A finding is something of the name that was asked for.
type finding struct {
	// as is what to call it to be understood.
	as string
	*standing
}

// find finds what a user names.
func (r *reader) find(ctx context.Context, n naming) (*standing, error) {
	ns := &namespace{}
	var err error
	if ns.pods, err = r.readPods(ctx, r.namespace); err != nil {
		return nil, err
	}
	if ns.groups, err = r.readPodGroups(ctx, r.namespace); err != nil {
		if n.kind != "pod" {
			return nil, err
		}
		ns.blind = true
		r.missing = append(r.missing, err.Error())
	}
	if ns.owners, err = r.readOwners(ctx, ns.pods); err != nil {
		return nil, err
	}
	ns.above = rehearsal.OwnersOf(ns.owners)
	ns.members = membersOf(ns.pods, ns.above)
	found := ns.all(n)
	switch len(found) {
	case 0:
		if n.kind != "" && n.kind != "podgroup" && n.kind != "pod" {
			return nil, fmt.Errorf("%q: no %s of this name makes pods of a group in namespace %s; if %s is to be a namespace, name it by -n", n, n.kind, r.namespace, n.kind)
		}
		return nil, fmt.Errorf("%q: nothing of this name in namespace %s is a PodGroup, a pod, or makes pods of a group; kubectl fluence groups lists the groups", n, r.namespace)
	case 1:
		return found[0].standing, nil
	}
	var as []string
	for _, f := range found {
		as = append(as, f.as)
	}
	return nil, fmt.Errorf("%q: there are %s: say which", n, strings.Join(as, " and "))
}

// String writes it as it is typed.
func (n naming) String() string {
	if n.kind == "" {
		return n.name
	}
	return n.kind + "/" + n.name
}

// all lists what is called so, each group once.
func (ns *namespace) all(n naming) []finding {
	var found []finding
	for i := range ns.groups {
		pg := &ns.groups[i]
		if n.is("PodGroup", pg.Name) || ns.isOf(pg, n) {
			found = append(found, finding{"podgroup/" + pg.Name, ns.ofGroup(pg)})
		}
	}
	for _, pod := range ns.pods {
		if n.is("Pod", pod.Name) {
			found = append(found, finding{"pod/" + pod.Name, ns.ofPod(pod)})
		}
	}
	if i := slices.IndexFunc(found, func(f finding) bool { return f.Pod != nil && f.podGroup != nil }); i >= 0 {
		// A group that is called as its pod is, is not another.
		same := func(f finding) bool { return f.Pod == nil && f.podGroup == found[i].podGroup }
		if k := slices.IndexFunc(found, same); k >= 0 {
			found = slices.Delete(found, k, k+1)
		}
	}
	if ns.blind {
		return found
	}
	return append(found, ns.groupless(n)...)
}

// isOf says that a PodGroup, or pods in it, are of what is called so.
func (ns *namespace) isOf(pg *scheduling.PodGroup, n naming) bool {
	return slices.ContainsFunc(pg.OwnerReferences, func(ref metav1.OwnerReference) bool { return n.is(ref.Kind, ref.Name) }) ||
		slices.ContainsFunc(ns.members[types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}], func(pod *corev1.Pod) bool {
			_, made := ns.madeBy(pod, n)
			return made
		})
}

// ofGroup is how it stands with a PodGroup.
func (ns *namespace) ofGroup(pg *scheduling.PodGroup) *standing {
	own := ns.members[types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}]
	s := &standing{Kind: "PodGroup", row: rowOf(pg, own), podGroup: pg, members: own}
	if s.WaitingFor == "" && slices.ContainsFunc(ns.owners, func(o runtime.Object) bool {
		return suspended(o) && slices.ContainsFunc(pg.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.(metav1.Object).GetUID() })
	}) {
		s.WaitingFor, s.Message = waitingSuspended, untilResumed
	}
	s.Waits = s.WaitingFor != "" || slices.ContainsFunc(own, waits)
	return s
}

// ofPod is how it stands with a pod: with its group, if there is one.
func (ns *namespace) ofPod(pod *corev1.Pod) *standing {
	p := &podStanding{Name: pod.Name, Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase), Ended: endOf(pod)}
	for _, c := range pod.Status.Conditions {
		if waits(pod) && c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			p.Reason, p.Message = c.Reason, c.Message
		}
	}
	if gated(pod) {
		p.Reason, p.Message = corev1.PodReasonSchedulingGated, gates([]*corev1.Pod{pod})
	}
	id := group.Of(pod, ns.above)
	if pg := ns.group(id); pg != nil {
		s := ns.ofGroup(pg)
		s.Pod, s.Waits = p, waits(pod)
		return s
	}
	wants := wanted(id)
	if ns.blind {
		wants = ""
	}
	return &standing{
		Kind: "Pod", Waits: waits(pod), members: []*corev1.Pod{pod}, Pod: p, wants: wants,
		row: row{Namespace: pod.Namespace, Name: pod.Name, Phase: p.Phase, Created: pod.CreationTimestamp, WaitingFor: p.Reason, Message: p.Message},
	}
}

// endOf says of a pod that is not to run any more what becomes of it.
func endOf(pod *corev1.Pod) string {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return "has succeeded"
	case pod.Status.Phase == corev1.PodFailed:
		return "has failed"
	case pod.DeletionTimestamp != nil:
		return "is being deleted"
	}
	return ""
}

// group is the PodGroup of an identity, or nil.
func (ns *namespace) group(id group.Identity) *scheduling.PodGroup {
	for i := range ns.groups {
		if pg := &ns.groups[i]; id.Named && pg.Name == id.Key.Name && pg.Namespace == id.Key.Namespace {
			return pg
		}
	}
	return nil
}

// waits says that a pod has no node and is to have one.
func waits(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// errNameOne is of why without a name, or with several.
var errNameOne = errors.New("name one group or one pod, as NAME or KIND/NAME; kubectl fluence groups lists the groups")
