package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A target is an argument NAME or KIND/NAME. kind is in lower case, and "" if it was not
// given. It has no API group, except that nativeKind and ownKind stay as they are.
type target struct{ kind, name string }

// shortNames are the short names that kubectl accepts for kinds.
var shortNames = map[string]string{
	"cj": "cronjob", "deploy": "deployment", "fj": fluxJobKind, "lws": "leaderworkerset", "fpg": ownKind, "pg": "podgroup", "pgs": "podgroup",
	"po": "pod", "rs": "replicaset", "sts": "statefulset",
}

// parseTarget reads NAME or KIND/NAME, with the kind as kubectl accepts and prints it.
func parseTarget(text string) (target, error) {
	kind, name, said := strings.Cut(text, "/")
	if !said {
		kind, name = "", text
	}
	if name == "" || said && kind == "" {
		return target{}, fmt.Errorf("%q: name a group or a pod, as NAME or KIND/NAME; kubectl fluence groups lists the groups", text)
	}
	kind, apiGroup, _ := strings.Cut(strings.ToLower(kind), ".")
	if full := strings.TrimSuffix(kind, "s") + "." + apiGroup; full == nativeKind || full == ownKind {
		return target{full, name}, nil
	}
	if long, ok := shortNames[kind]; ok {
		return target{long, name}, nil
	}
	return target{strings.TrimSuffix(kind, "s"), name}, nil
}

// names reports whether the target names an object of this kind and name.
func (n target) names(kind, name string) bool {
	return n.name == name && (n.kind == "" || n.kind == strings.ToLower(kind))
}

// namesPodGroup reports whether the target names the PodGroup in the key of a group.
func (n target) namesPodGroup(name string) bool {
	if bare, native := group.NativeName(types.NamespacedName{Name: name}); native {
		return n.names("PodGroup", bare) || n.names(nativeKind, bare)
	}
	return n.names("PodGroup", name) || n.names(ownKind, name)
}

// A candidate is an object that the argument may name.
type candidate struct {
	// fullName is the unambiguous KIND/NAME of the object.
	fullName string
	*whyAnswer
}

// find returns the answer about the object that a user names, and for a LeaderWorkerSet the
// answers about its units. It fails if there is no such object, or more than one.
func (r *reader) find(ctx context.Context, n target) ([]*whyAnswer, error) {
	ns, err := r.readNamespace(ctx, n.kind == "pod")
	if err != nil {
		return nil, err
	}
	jobs, err := r.readJobsBeside(ctx, "if it waits in a queue, the answer lacks why")
	if err != nil {
		return nil, err
	}
	found := ns.candidates(n)
	if len(found) == 0 {
		found = ns.candidates(workloadOf(jobs, n))
	}
	for _, f := range found {
		f.UselessKeys = ns.uselessKeys(f.podGroup, f.members)
		ns.addQueued(f.whyAnswer, jobs)
	}
	switch len(found) {
	case 0:
		return nil, ns.errNotFound(n, r.namespace)
	case 1:
		return []*whyAnswer{found[0].whyAnswer}, nil
	}
	if units := unitsOf(found, n); len(units) == len(found) {
		return units, nil
	}
	var as []string
	for _, f := range found {
		as = append(as, printableName(f.fullName))
	}
	return nil, fmt.Errorf("%q is ambiguous: use %s", n, strings.Join(as, " or "))
}

// askAgainEvery is the pause between two reads of a command that waits for a reason.
const askAgainEvery = 500 * time.Millisecond

// findInTime finds the object that a user names. While its pods wait and nothing says why, it asks again, for
// the given time.
func (o *options) findInTime(ctx context.Context, r *reader, n target, wait time.Duration) ([]*whyAnswer, error) {
	enough := time.NewTimer(wait)
	defer enough.Stop()
	again := time.NewTicker(askAgainEvery)
	defer again.Stop()
	for {
		notes := len(r.notes)
		r.now, r.jobs = metav1.NewTime(o.now()), nil
		answers, err := r.find(ctx, n)
		if err != nil || wait == 0 || !slices.ContainsFunc(answers, func(s *whyAnswer) bool { return s.Waits && s.WaitingFor == "" }) {
			return answers, err
		}
		select {
		case <-enough.C:
			return answers, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-again.C:
		}
		r.notes = r.notes[:notes]
	}
}

// makersOfOwners are kinds whose objects make no pods, but objects whose pods are groups. They say what they make.
var makersOfOwners = map[string]string{
	"cronjob":    "a CronJob makes Jobs",
	"rayjob":     "a RayJob makes a RayCluster",
	"rayservice": "a RayService makes a RayCluster",
	"trainjob":   "a TrainJob makes a JobSet",
}

// errNotFound is the error about a target that names nothing in a namespace. It says which objects of this
// namespace the target has made, if there are some.
func (ns *namespace) errNotFound(n target, in string) error {
	if made := ns.madeBy(n); len(made) > 0 {
		names := strings.Join(made[:min(len(made), maxMade)], ", ")
		if more := len(made) - maxMade; more > 0 {
			names += fmt.Sprintf(" and %d older", more)
		}
		return fmt.Errorf("%q is not a group: it has made %s; name a group that you mean, such as %s", n, names, made[0])
	}
	if makes, ok := makersOfOwners[n.kind]; ok {
		return fmt.Errorf("%q: namespace %s has no group that was made for this name: %s, and the pods of each are a group; kubectl fluence groups lists the groups", n, in, makes)
	}
	if n.kind != "" && n.kind != "podgroup" && n.kind != nativeKind && n.kind != ownKind && n.kind != "pod" {
		return fmt.Errorf("%q: namespace %s has no object of kind %q with this name that creates pods of a group; if %q is a namespace, use: kubectl fluence why -n %s %s", n, in, n.kind, n.kind, n.kind, n.name)
	}
	return fmt.Errorf("%q: namespace %s has no PodGroup and no pod of this name, and no object of this name that creates pods of a group; kubectl fluence groups lists the groups", n, in)
}

// maxMade is how many of the objects that an object has made are named.
const maxMade = 3

// madeBy returns the objects that the target controls and that may have groups of their own, as KIND/NAME, the newest first.
func (ns *namespace) madeBy(n target) []string {
	made := slices.DeleteFunc(slices.Clone(ns.owners), func(o runtime.Object) bool {
		ref := metav1.GetControllerOfNoCopy(o.(metav1.Object))
		return ref == nil || !n.names(ref.Kind, ref.Name) || group.KindOf(group.OwnerOf(*ref)).FormsGroup
	})
	slices.SortFunc(made, func(a, b runtime.Object) int {
		x, y := a.(metav1.Object), b.(metav1.Object)
		at, bt := x.GetCreationTimestamp(), y.GetCreationTimestamp()
		return cmp.Or(bt.Compare(at.Time), cmp.Compare(y.GetName(), x.GetName()))
	})
	var names []string
	for _, o := range made {
		k, _ := group.WatchedKindOf(o)
		names = append(names, printableName(strings.ToLower(k.Kind)+"/"+o.(metav1.Object).GetName()))
	}
	return names
}

// unitsOf returns the answers about units of the LeaderWorkerSet that a target names, by their names.
func unitsOf(found []candidate, n target) []*whyAnswer {
	var units []*whyAnswer
	for _, f := range found {
		if f.isUnitOf(n) {
			units = append(units, f.whyAnswer)
		}
	}
	slices.SortFunc(units, func(a, b *whyAnswer) int {
		// The names end in numbers.
		return cmp.Or(cmp.Compare(len(a.Unit), len(b.Unit)), cmp.Compare(a.Unit, b.Unit))
	})
	return units
}

// isUnitOf reports whether the answer is about a unit of the LeaderWorkerSet that a target names.
func (s *whyAnswer) isUnitOf(n target) bool {
	return s.Pod == nil && s.Unit != "" && s.Owner == leaderWorkerSet+"/"+n.name
}

// String returns the target as a user types it.
func (n target) String() string {
	if n.kind == "" {
		return n.name
	}
	return n.kind + "/" + n.name
}

// candidates returns the objects that a target may name, each group once.
func (ns *namespace) candidates(n target) []candidate {
	var found []candidate
	for i := range ns.groups {
		pg := &ns.groups[i]
		if n.namesPodGroup(pg.Name) || ns.isOwnedBy(pg, n) {
			fullName := shownName(pg.Name)
			if fullName == pg.Name {
				fullName = ownKind + "/" + pg.Name
			}
			found = append(found, candidate{fullName, ns.answerForGroup(pg)})
		}
	}
	for _, pod := range ns.pods {
		if n.names("Pod", pod.Name) {
			found = append(found, candidate{"pod/" + pod.Name, ns.answerForPod(pod)})
		}
	}
	if i := slices.IndexFunc(found, func(f candidate) bool { return f.Pod != nil && f.podGroup != nil }); i >= 0 {
		// A pod whose group has the pod's name matches twice. Only the pod's entry stays.
		same := func(f candidate) bool { return f.Pod == nil && f.podGroup == found[i].podGroup }
		if k := slices.IndexFunc(found, same); k >= 0 {
			found = slices.Delete(found, k, k+1)
		}
	}
	if ns.groupsUnreadable {
		return found
	}
	return append(found, ns.withoutPodGroup(n)...)
}

// isOwnedBy reports whether n names an owner of the PodGroup or an owner of one of its pods.
func (ns *namespace) isOwnedBy(pg *scheduling.PodGroup, n target) bool {
	own := ns.members[types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}]
	return slices.ContainsFunc(pg.OwnerReferences, func(ref metav1.OwnerReference) bool { return n.names(ref.Kind, ref.Name) }) ||
		n.names(leaderWorkerSet, leaderWorkerSetOf(pg, own)) ||
		slices.ContainsFunc(own, func(pod *corev1.Pod) bool {
			_, made := ns.ownerNamed(pod, n)
			return made
		})
}

// answerForGroup returns the answer about a PodGroup.
func (ns *namespace) answerForGroup(pg *scheduling.PodGroup) *whyAnswer {
	own := ns.members[types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}]
	s := &whyAnswer{Kind: "PodGroup", groupSummary: ns.summary(pg), podGroup: pg, members: own}
	if s.WaitingFor == "" && s.Status != statusIdle && s.Status != statusTerminating && ns.isSuspended(pg) {
		s.WaitingFor, s.Message = reason.Suspended, untilResumed
	}
	s.Waits = s.Status != statusTerminating && (s.WaitingFor != "" || slices.ContainsFunc(own, waits))
	sentence, ended := eviction.Evicted(slices.Concat(pg.Status.Conditions, ns.nativeConditions(pg)))
	s.addEviction(ns.now, sentence, ended)
	return s
}

// nativeConditions returns the conditions of Kubernetes of a native PodGroup. It returns none for one of Fluence.
func (ns *namespace) nativeConditions(pg *scheduling.PodGroup) []metav1.Condition {
	for i := range ns.native {
		if native := &ns.native[i]; group.NativeKey(native.Namespace, native.Name) == keyOf(pg) {
			return native.Status.Conditions
		}
	}
	return nil
}

// answerForPod returns the answer about a pod's group or, if it has none, about the pod.
func (ns *namespace) answerForPod(pod *corev1.Pod) *whyAnswer {
	p := &podAnswer{Name: pod.Name, Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase), Ended: whyEnded(pod)}
	p.Reason, p.Message, p.Decided = whyPodWaits(pod)
	id := group.IdentityOf(pod, ns.ownersOf)
	if pg := ns.group(id); pg != nil {
		s := ns.answerForGroup(pg)
		s.Pod, s.Waits = p, s.Status != statusTerminating && waits(pod)
		return s
	}
	wants := wantedGroup(id)
	if ns.groupsUnreadable {
		wants = ""
	}
	s := &whyAnswer{Kind: "Pod", Waits: waits(pod), members: []*corev1.Pod{pod}, Pod: p, wantedGroup: wants, groupSummary: ns.lone(pod)}
	s.addEviction(ns.now, eviction.EvictedPod(pod), metav1.Time{})
	return s
}

// whyPodWaits returns why a pod waits, as its condition PodScheduled or its gates say, and when the scheduler
// decided so, if that is known. All results are empty if nothing says it, or if it does not wait.
func whyPodWaits(pod *corev1.Pod) (why, message string, decided metav1.Time) {
	if gated(pod) {
		return corev1.PodReasonSchedulingGated, whyGated([]*corev1.Pod{pod}), metav1.Time{}
	}
	for _, c := range pod.Status.Conditions {
		if waits(pod) && c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return reasonIn(c), c.Message, metav1.NewTime(writtenBy(pod, report.FieldManager))
		}
	}
	return "", "", metav1.Time{}
}

// reasonIn returns the reason of a pod's condition. Kubernetes has one word, Unschedulable, for what a
// PodGroup would name NoRoom or NeverFits. The message says which of the two it is.
func reasonIn(c corev1.PodCondition) string {
	switch {
	case c.Reason != corev1.PodReasonUnschedulable:
	case strings.Contains(c.Message, "does not fit even when other pods end"), strings.Contains(c.Message, "no node is large enough"):
		return reason.NeverFits
	case strings.Contains(c.Message, "; room for "):
		return reason.NoRoom
	}
	return c.Reason
}

// whyEnded says in words why a pod will not run any more. It returns "" if the pod can still run.
func whyEnded(pod *corev1.Pod) string {
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

// group returns the PodGroup of an identity, or nil.
func (ns *namespace) group(id group.Identity) *scheduling.PodGroup {
	if !id.InPodGroup {
		return nil
	}
	return ns.byKey[id.Key]
}

// waits reports whether a pod still needs a node.
func waits(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// errNameOne is the error of the command why if it does not get exactly one name.
var errNameOne = errors.New("name one group or one pod, as NAME or KIND/NAME; kubectl fluence groups lists the groups")
