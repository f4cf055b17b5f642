package preemption

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A Foreign says which pods of other schedulers may be evicted.
type Foreign string

// The values of Foreign.
const (
	// ForeignNever means none.
	ForeignNever Foreign = "Never"
	// ForeignBare means those that no object controls: nobody makes them again at once.
	ForeignBare Foreign = "Bare"
	// ForeignAll means all.
	ForeignAll Foreign = "All"
)

// A PodGroup is what is known of a PodGroup, of Fluence or native.
type PodGroup struct {
	UID types.UID
	// Evicted is true if the PodGroup is marked as being evicted already.
	Evicted bool
	// Waits is true if pods of it wait for nodes. Priority is the highest priority of these.
	Waits    bool
	Priority int32
}

// A Cluster answers questions about the objects around pods. Its functions return at once, and are called with
// a lock of the Index held: they must not call it.
type Cluster struct {
	// PodGroup returns the PodGroup with the key of a group. For a native PodGroup the key is that of
	// group.NativeKey. It returns false if there is none.
	PodGroup func(key types.NamespacedName) (PodGroup, bool)
	// Kept reports whether the annotation group.EvictAnnotation keeps the pods of a namespace.
	Kept func(namespace string) bool
	// Owner returns what is known of an object that controls pods or other owners. It returns false if nothing is.
	Owner func(namespace string, o group.Owner) (Owner, bool)
	// Budgets returns all PodDisruptionBudgets.
	Budgets func() []*policyv1.PodDisruptionBudget
	// JobsOf returns the matcher's job of each pod, in the order of the pods. It is called for at most
	// maxJobsAtOnce pods at once, so that a lock that it takes is not held for long.
	JobsOf func(pods []*corev1.Pod) []match.JobID
}

// maxJobsAtOnce is for how many pods Cluster.JobsOf is called at once.
const maxJobsAtOnce = 256

// A Query says for whom candidates are wanted, and who may be one.
type Query struct {
	For Preemptor
	// Own reports whether a scheduler is one of this process. Pods of all others are foreign.
	Own     func(schedulerName string) bool
	Foreign Foreign
	// MinRuntime is for how long a pod stays that was bound, and for how long a group stays after the first of its pods
	// was. Pods that come later do not keep the group for longer.
	MinRuntime time.Duration
	Now        time.Time
	// Usable reports whether the preemptor may use a node if there is room.
	Usable func(node string) bool
	// Max is the largest number of candidates. It is match.MaxUnits if it is 0.
	Max int
	// Log gets the namespaces whose PodDisruptionBudgets are not regarded. Nil drops them.
	Log func(message string, keysAndValues ...any)
}

// Candidates returns who may be evicted for a group, in the order of preference: those that are evicted rather
// than others come first. left is how many more there are beyond the limit.
func (x *Index) Candidates(q Query, c Cluster) (victims []Victim, left int) {
	s := &search{Query: q, c: c, keeps: map[string]bool{}}
	x.find(s)
	s.protect()
	order := s.order()
	if q.Max == 0 {
		q.Max = match.MaxUnits
	}
	if left = len(order) - q.Max; left > 0 {
		order = order[:q.Max]
	}
	return s.victims(order), max(0, left)
}

// A place is what decides the order of candidates, in a form that is quick to compare.
type place struct {
	priority int32
	// slow is 1 if the candidate may take long to end. lost is 1 if it does not come back.
	slow, lost int32
	pods       int
	begun      int64
	of         *candidate
}

// order returns the candidates in the order of preference.
func (s *search) order() []place {
	order := make([]place, len(s.found))
	for i := range s.found {
		v := &s.found[i]
		order[i] = place{priority: v.priority, pods: len(v.pods), begun: v.started.UnixNano(), of: v}
		if !v.comesBack {
			order[i].lost = 1
		}
		if v.slow {
			order[i].slow = 1
		}
	}
	slices.SortFunc(order, func(a, b place) int {
		switch {
		case a.priority != b.priority:
			return cmp.Compare(a.priority, b.priority)
		case a.slow != b.slow:
			return cmp.Compare(a.slow, b.slow)
		case a.lost != b.lost:
			return cmp.Compare(a.lost, b.lost)
		case a.pods != b.pods:
			return cmp.Compare(a.pods, b.pods)
		case a.begun != b.begun:
			return cmp.Compare(b.begun, a.begun)
		}
		return a.of.compareName(b.of)
	})
	return order
}

// A search collects candidates.
type search struct {
	Query
	c Cluster
	// keeps caches Cluster.Kept.
	keeps  map[string]bool
	number uint64
	// countPods counts, once it is needed, the pods on nodes below each object at the top.
	countPods func() map[types.UID]int
	// occupants holds the pods of the candidates.
	occupants []*occupant
	found     []candidate
}

// A candidate is a victim whose slots are not looked up yet.
type candidate struct {
	kind      Kind
	key       types.NamespacedName
	uid       types.UID
	pods      []*occupant
	priority  int32
	started   time.Time
	protected int
	comesBack bool
	slow      bool
	suspend   group.Owner
}

// find collects the candidates.
func (x *Index) find(s *search) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lookAgain()
	x.searches++
	s.number = x.searches
	s.countPods = sync.OnceValue(func() map[types.UID]int {
		pods := map[types.UID]int{}
		for _, of := range x.controllers {
			pods[s.lineOf(of).top.UID] += of.pods
		}
		return pods
	})
	s.found, s.occupants = make([]candidate, 0, len(x.units)), make([]*occupant, 0, len(x.pods))
	for _, u := range x.units {
		s.addUnit(u)
	}
}

// maxMarked is for how long a scheduler that has marked a pod is about to delete it. It may have failed to: then the
// mark means nothing. The pods of a group do not end without each other, so their own marks say nothing of the group.
const maxMarked = 30 * time.Second

// addUnit adds the candidates among pods with the same group: the members as a whole if it has a PodGroup, and each
// of the other pods alone.
func (s *search) addUnit(u *unit) {
	kept, known := s.keeps[u.key.Namespace]
	if !known {
		kept = s.c.Kept(u.key.Namespace)
		s.keeps[u.key.Namespace] = kept
	}
	if kept {
		return
	}
	alone := u.pods
	if u.inPodGroup {
		if pg, exists := s.c.PodGroup(u.key); exists {
			u.sort()
			var members []*occupant
			members, alone = s.membersOf(u)
			if !pg.Evicted && !s.isPreemptor(u.key) {
				s.addGroup(u.key, pg, members)
			}
		}
	}
	for i, o := range alone {
		if o.priority < s.For.Priority && o.pod.UID != s.For.UID && s.Now.Sub(o.marked) > maxMarked {
			s.add(candidate{
				kind: Pod, key: types.NamespacedName{Namespace: o.pod.Namespace, Name: o.pod.Name}, uid: o.pod.UID,
				pods: alone[i : i+1], priority: o.priority,
			})
		}
	}
}

// addGroup adds the members of a PodGroup as a candidate.
func (s *search) addGroup(key types.NamespacedName, pg PodGroup, members []*occupant) {
	kind := Group
	if name, native := group.NativeName(key); native {
		key.Name, kind = name, NativeGroup
	}
	priority := members[0].priority
	if pg.Waits {
		priority = max(priority, pg.Priority)
	}
	s.add(candidate{kind: kind, key: key, uid: pg.UID, pods: members, priority: priority})
}

// membersOf returns the pods of a unit that make up its group, and the others. Pods of other schedulers are no
// members of a group of Fluence, even if they have its label: otherwise one of them would keep the group on its
// nodes. A group that only other schedulers have placed consists of all its pods.
func (s *search) membersOf(u *unit) (members, others []*occupant) {
	own := 0
	for _, o := range u.pods {
		if s.Own(o.pod.Spec.SchedulerName) {
			own++
		}
	}
	if own == 0 || own == len(u.pods) {
		return u.pods, nil
	}
	for _, o := range u.pods {
		if s.Own(o.pod.Spec.SchedulerName) {
			members = append(members, o)
		} else {
			others = append(others, o)
		}
	}
	return members, others
}

// isPreemptor reports whether a group is the one for which others are evicted.
func (s *search) isPreemptor(key types.NamespacedName) bool {
	name, native := group.NativeName(key)
	kind := Group
	if native {
		kind = NativeGroup
	}
	return s.For.Kind == kind && s.For.Namespace == key.Namespace && s.For.Name == name
}

// add adds a candidate, unless it has to stay or nothing is gained by its end.
func (s *search) add(v candidate) {
	if v.priority >= s.For.Priority {
		return
	}
	usable := false
	v.started = v.pods[0].bound
	for _, o := range v.pods {
		if o.priority >= s.For.Priority || !s.mayEvict(o) {
			return
		}
		usable = usable || s.Usable(o.victim.Node)
		v.priority = max(v.priority, o.priority)
		if o.bound.Before(v.started) {
			v.started = o.bound
		}
	}
	if usable && (s.MinRuntime == 0 || s.Now.Sub(v.started) >= s.MinRuntime) {
		s.addFuture(&v)
		// The slice of the unit changes with the next event.
		begin := len(s.occupants)
		s.occupants = append(s.occupants, v.pods...)
		v.pods = s.occupants[begin:len(s.occupants):len(s.occupants)]
		s.found = append(s.found, v)
	}
}

// mayEvict reports whether a pod is of a scheduler whose pods may be evicted.
func (s *search) mayEvict(o *occupant) bool {
	return s.Foreign == ForeignAll || s.Own(o.pod.Spec.SchedulerName) || s.Foreign == ForeignBare && o.controller == nil
}

// addFuture finds out what becomes of a candidate after its eviction.
func (s *search) addFuture(v *candidate) {
	v.comesBack = true
	var first, l *line
	var of *controller
	for i, o := range v.pods {
		if i == 0 || o.controller != of {
			of, l = o.controller, s.lineOf(o.controller)
		}
		if i == 0 {
			first, v.suspend = l, l.suspend
		}
		queued := l.queued || o.pod.Labels[QueueLabel] != ""
		if l.top != first.top || queued {
			v.suspend = group.Owner{}
		}
		v.comesBack = v.comesBack && o.controller != nil && !queued
		grace := o.pod.Spec.TerminationGracePeriodSeconds
		v.slow = v.slow || grace != nil && *grace > int64(MaxGrace/time.Second)
	}
	if v.suspend != (group.Owner{}) && s.podsOf(v.pods[0].controller, v.suspend) != len(v.pods) {
		// The owner has pods that are not part of the candidate, and they would end too.
		v.suspend = group.Owner{}
	}
	if v.suspend == (group.Owner{}) {
		v.comesBack = v.comesBack && s.outlives(v.pods)
	}
}

// lineOf returns what is above the pods of a controller, which may be nil.
func (s *search) lineOf(of *controller) *line {
	if of == nil {
		return &line{}
	}
	if of.search != s.number {
		of.above, of.search = follow(of.namespace, of.owner, s.c.Owner), s.number
	}
	return &of.above
}

// podsOf returns the number of pods on nodes below an object at the top, one of whose controllers is of.
func (s *search) podsOf(of *controller, top group.Owner) int {
	if of.owner == top && top.Kind == "Job" {
		return of.pods // a Job controls nothing but pods
	}
	return s.countPods()[top.UID]
}

// outlives reports whether the owners of pods go on after these pods were deleted one by one. Each of them counts as
// failed for a Job, and how many may fail is not known.
func (s *search) outlives(pods []*occupant) bool {
	return !slices.ContainsFunc(pods, func(o *occupant) bool { return o.controller.owner.Kind == "Job" })
}

// protect counts the pods that budgets protect. The steps are shared among the namespaces: those with less work go
// first, and what they leave is for the others. If its share is not enough for a namespace, none of its pods is
// protected: nobody gains by more budgets than there is time for.
func (s *search) protect() {
	pdbs := map[string][]*policyv1.PodDisruptionBudget{}
	for _, pdb := range s.c.Budgets() {
		pdbs[pdb.Namespace] = append(pdbs[pdb.Namespace], pdb)
	}
	if len(pdbs) == 0 {
		return
	}
	concerned := map[string][]*candidate{}
	for i := range s.found {
		if v := &s.found[i]; pdbs[v.key.Namespace] != nil {
			concerned[v.key.Namespace] = append(concerned[v.key.Namespace], v)
		}
	}
	order := make([]string, 0, len(concerned))
	for ns := range concerned {
		order = append(order, ns)
	}
	work := func(ns string) int { return len(pdbs[ns]) * len(concerned[ns]) }
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(cmp.Compare(work(a), work(b)), cmp.Compare(a, b)) })
	left := maxBudgetSteps
	for i, ns := range order {
		share := left / (len(order) - i)
		b := &budgets{steps: share}
		if !b.read(pdbs[ns]) || !countProtected(concerned[ns], b) {
			for _, v := range concerned[ns] {
				v.protected = 0
			}
			if s.Log != nil {
				s.Log("PodDisruptionBudgets are not regarded in a plan to evict pods: there are too many, or their selectors are too long",
					"namespace", ns, "budgets", len(pdbs[ns]), "candidates", len(concerned[ns]))
			}
		}
		left -= share - max(0, b.steps)
	}
}

// countProtected counts the protected pods of candidates. It returns false if the steps are not enough. The disruptions that
// a budget allows are for the least important candidates: these are evicted first. The order is the reverse of
// MoreImportantVictim in k8s.io/kubernetes/pkg/scheduler/framework/preemption.
func countProtected(candidates []*candidate, b *budgets) bool {
	slices.SortFunc(candidates, func(x, y *candidate) int { return y.compareImportance(x) })
	for _, v := range candidates {
		for _, o := range v.pods {
			if b.take(o.pod) {
				v.protected++
			}
			if b.steps < 0 {
				return false
			}
		}
	}
	return true
}

// compareImportance orders candidates as kube-scheduler does, the most important ones first.
func (v *candidate) compareImportance(o *candidate) int {
	rank := func(c *candidate) int {
		if c.kind == Pod {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(o.priority, v.priority), cmp.Compare(rank(v), rank(o)), cmp.Compare(len(o.pods), len(v.pods)),
		v.started.Compare(o.started), v.compareName(o))
}

func (v *candidate) compareName(o *candidate) int {
	return cmp.Or(cmp.Compare(v.key.Namespace, o.key.Namespace), cmp.Compare(v.key.Name, o.key.Name), cmp.Compare(v.kind, o.kind))
}

// victims returns candidates with their slots.
func (s *search) victims(order []place) []Victim {
	n := 0
	for _, at := range order {
		n += at.pods
	}
	// One slice holds the pods of all victims.
	pods, all := make([]VictimPod, 0, n), make([]*corev1.Pod, 0, n)
	victims := make([]Victim, len(order))
	for i, at := range order {
		v, begin := at.of, len(pods)
		for _, o := range v.pods {
			pods, all = append(pods, o.victim), append(all, o.pod)
		}
		victims[i] = Victim{
			Kind: v.kind, Namespace: v.key.Namespace, Name: v.key.Name, UID: v.uid, Priority: v.priority, Pods: pods[begin:len(pods):len(pods)],
			Started: v.started, Protected: v.protected, ComesBack: v.comesBack, Slow: v.slow, Suspend: v.suspend,
		}
	}
	for at := 0; at < n; at += maxJobsAtOnce {
		some := all[at:min(n, at+maxJobsAtOnce)]
		for i, job := range s.c.JobsOf(some) {
			if p := &pods[at+i]; p.Slot.Job != job {
				// The pod was matched by this process, and others may be of the same job.
				p.Slot = match.SlotRef{Job: job, Keys: []string{string(p.UID)}}
			}
		}
	}
	return victims
}
