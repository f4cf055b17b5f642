package admission

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/pace"
	"github.com/flux-k8s/fluence/pkg/signal"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// jobs are all FluxJobs. It is the store of the watch of FluxJobs (cache.ReflectorStore): an informer would hold each object once
// more.
type jobs struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*job
	// byWorkload has the jobs with room by the UIDs of their workloads, and byID those with room or a promise by the matcher's job.
	byWorkload map[types.UID]types.NamespacedName
	byID       map[match.JobID]types.NamespacedName
	// holders are the jobs that are promised room.
	holders map[types.NamespacedName]struct{}
	classes classes
	texts   texts
	// changed are the jobs that the loop has to look at.
	changed map[types.NamespacedName]struct{}
	// unsettled are the jobs whose room may not be as their pods want it.
	unsettled map[types.NamespacedName]unsettled
	// gone are jobs that the loop knows and that are not there any more.
	gone map[types.NamespacedName]*job
	// apart are jobs that do not wait in their queue until some time has passed, or until their pods are gone.
	apart map[types.NamespacedName]struct{}
	// givenUp are slots that are to be released in the matcher. Those of doubtful were perhaps booked after others had taken them.
	givenUp, doubtful []match.SlotRef
	// wake wakes the loop.
	wake chan<- struct{}
	now  func() time.Time
}

func newJobs(rules Groups, wake chan<- struct{}, now func() time.Time) *jobs {
	return &jobs{
		byKey: map[types.NamespacedName]*job{}, byWorkload: map[types.UID]types.NamespacedName{}, byID: map[match.JobID]types.NamespacedName{}, holders: map[types.NamespacedName]struct{}{},
		classes: classes{byName: map[string]*class{}, rules: map[string]*nodeRules{}, rulesOf: rules.Rules}, texts: texts{},
		changed: map[types.NamespacedName]struct{}{}, unsettled: map[types.NamespacedName]unsettled{},
		gone: map[types.NamespacedName]*job{}, apart: map[types.NamespacedName]struct{}{}, wake: wake, now: now,
	}
}

// An arriving is the store of jobs for a watch. It tells a pace of each that is new.
type arriving struct {
	*jobs
	pace *pace.Pace
}

// Add implements cache.ReflectorStore.
func (a arriving) Add(obj any) error {
	a.pace.Came()
	return a.jobs.Add(obj)
}

// Add implements cache.ReflectorStore.
func (s *jobs) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *jobs) Update(obj any) error {
	if fj, ok := obj.(*v1alpha1.FluxJob); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.put(fj)
		signal.Send(s.wake)
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *jobs) Delete(obj any) error {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(types.NamespacedName(name))
	signal.Send(s.wake)
	return nil
}

// replaceAtOnce is how many objects of a list are recorded with the lock held once: the scheduling queue waits for it.
const replaceAtOnce = 256

// Replace implements cache.ReflectorStore.
func (s *jobs) Replace(all []any, _ string) error {
	there := make(map[types.NamespacedName]struct{}, len(all))
	for part := range slices.Chunk(all, replaceAtOnce) {
		s.mu.Lock()
		for _, obj := range part {
			if fj, ok := obj.(*v1alpha1.FluxJob); ok {
				key := types.NamespacedName{Namespace: fj.Namespace, Name: fj.Name}
				there[key] = struct{}{}
				if j := s.byKey[key]; j == nil || j.uid != fj.UID || j.version != fj.ResourceVersion {
					s.put(fj)
				}
			}
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	gone := slices.DeleteFunc(s.all(), func(key types.NamespacedName) bool {
		_, is := there[key]
		return is
	})
	s.mu.Unlock()
	for part := range slices.Chunk(gone, replaceAtOnce) {
		s.mu.Lock()
		for _, key := range part {
			s.drop(key)
		}
		s.mu.Unlock()
	}
	signal.Send(s.wake)
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *jobs) Resync() error { return nil }

// Transformer implements cache.TransformingStore.
func (s *jobs) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if fj, ok := obj.(*v1alpha1.FluxJob); ok {
			// They are not read, and all jobs are in memory at once while they are listed.
			fj.ManagedFields, fj.OwnerReferences, fj.Finalizers, fj.Labels = nil, nil, nil, nil
		}
		return obj, nil
	}
}

// put records a FluxJob. The caller holds the lock.
func (s *jobs) put(fj *v1alpha1.FluxJob) *job {
	key := types.NamespacedName{Namespace: s.texts.shared(fj.Namespace), Name: fj.Name}
	j := s.byKey[key]
	if j != nil && j.uid != fj.UID {
		s.drop(key)
		j = nil
	}
	if j != nil && isOlder(fj.ResourceVersion, j.version) {
		return j
	}
	isNew := j == nil
	if isNew {
		j = &job{key: key, uid: fj.UID}
		s.byKey[key] = j
	}
	j.of = workload{fj.Spec.Workload.Kind == "Pod", fj.Spec.Workload.Name, fj.Spec.Workload.UID}
	s.putSpec(j, fj)
	s.putStatus(j, fj)
	if isNew && j.room == nil && j.reason == v1alpha1.ReasonPreempted {
		// Its pods may still be on nodes.
		j.leaving, j.sayReason, j.sayMessage = true, j.reason, j.message
		s.apart[key] = struct{}{}
	}
	s.markChanged(key)
	return j
}

// answer records the FluxJob of an answer of the API server. It returns nil if the FluxJob was deleted meanwhile: the watch tells that
// once. The caller holds the lock.
func (s *jobs) answer(fj *v1alpha1.FluxJob) *job {
	if j := s.byKey[types.NamespacedName{Namespace: fj.Namespace, Name: fj.Name}]; j == nil || j.uid != fj.UID {
		return nil
	}
	signal.Send(s.wake)
	return s.put(fj)
}

// putSpec records what a FluxJob asks for.
func (s *jobs) putSpec(j *job, fj *v1alpha1.FluxJob) {
	if fj.Generation != j.generation {
		j.refusals = 0
	}
	valid := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid)
	var created time.Time
	if t := fj.Status.CreationTime; t != nil && valid != nil && valid.Status != metav1.ConditionUnknown {
		created = t.Time
	}
	j.asked = asked{
		queue: s.texts.shared(fj.Spec.Queue), priority: fj.Spec.Priority, created: created, duration: s.texts.shared(fj.Spec.Duration),
		held: fj.Spec.Held, generation: fj.Generation,
	}
	if valid != nil && valid.Status == metav1.ConditionFalse && valid.Reason != v1alpha1.ReasonWouldDelay {
		j.invalidReason, j.invalid = s.texts.shared(valid.Reason), s.texts.shared(valid.Message)
	}
	before := j.class
	j.class = nil
	if fj.Status.Phase != v1alpha1.Finished {
		j.class = s.classes.take(fj)
	}
	if before != nil {
		s.classes.leave(before)
	}
}

// putStatus records what a FluxJob says.
func (s *jobs) putStatus(j *job, fj *v1alpha1.FluxJob) {
	j.told = told{version: fj.ResourceVersion, phase: v1alpha1.JobPhase(s.texts.shared(string(fj.Status.Phase))), promised: fj.Status.Promise, requeues: fj.Status.Requeues}
	if c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionAdmitted); c != nil {
		j.admitted, j.since = c.Status == metav1.ConditionTrue, c.LastTransitionTime.Time
		j.reason, j.message = s.texts.shared(c.Reason), s.texts.shared(c.Message)
	}
	if c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid); c != nil && c.Reason == v1alpha1.ReasonWouldDelay {
		j.delay = c.Message
	}
	a := fj.Status.Allocation
	if a != nil {
		j.shown = a.Attempt
	}
	if j.shown != j.takenBack {
		j.takenBack = 0
	}
	switch {
	case a == nil && j.room != nil && j.room.written, j.isOver():
		s.giveUp(j)
	case a == nil:
		// A room that the FluxJob does not show yet is being written.
	case j.room != nil && j.room.attempt == a.Attempt && j.room.mayShow(a):
		r, end := j.room, timeOf(a.End)
		if r.written && !end.Equal(r.shownEnd) {
			if !end.Equal(r.end) {
				r.announced = false // the scheduler that leads has changed it
			}
			r.setEnd(end)
			r.unsure = true
		}
		r.written, r.shownEnd = true, end
		if !slices.Equal(r.seats, a.Seats) {
			if lost := r.show(a.Seats); len(lost.Keys) > 0 {
				s.givenUp = append(s.givenUp, lost)
			}
		}
		s.unsettle(j.key)
	default:
		s.giveUp(j)
		s.restore(j, a)
	}
}

// restore gives a job the room that its FluxJob shows: of an earlier process, or of one that leads.
func (s *jobs) restore(j *job, a *v1alpha1.JobAllocation) {
	if j.class == nil || j.class.spec == nil {
		return
	}
	id := j.jobID(a.Attempt)
	slots, err := slotsOf(id, a)
	if err != nil {
		return // nobody but the scheduler and the controller writes it
	}
	r := &room{id: id, attempt: a.Attempt, at: a.At.Time, seats: a.Seats, slots: slots, left: make([]bool, len(slots)), set: j.class.amounts.Set(), written: true, unsure: true}
	for i := range r.left {
		r.left[i] = true
	}
	r.setEnd(timeOf(a.End))
	r.shownEnd = r.end
	if match.IsExclusive(j.class.policy) {
		r.holder = j.key.String()
	}
	s.give(j, r)
}

// give gives a job room.
func (s *jobs) give(j *job, r *room) {
	j.room, j.attempt = r, max(j.attempt, r.attempt)
	s.byID[r.id], s.byWorkload[j.of.uid] = j.key, j.key
	s.unsettle(j.key)
}

// giveUp takes the room of a job that is left from it, and what it is promised.
func (s *jobs) giveUp(j *job) {
	if r := j.room; r != nil {
		j.room = nil
		delete(s.byID, r.id)
		delete(s.byWorkload, j.of.uid)
		delete(s.unsettled, j.key)
		s.givenUp = append(s.givenUp, match.SlotRef{Job: r.id})
	}
	if p := j.promise; p != nil {
		s.unpromise(j)
		s.givenUp = append(s.givenUp, match.SlotRef{Job: p.job.ID})
	}
}

// takeBack takes the room of a job back, as soon as the FluxJob shows that.
func (s *jobs) takeBack(j *job, reason, message string) {
	j.takenBack, j.sayReason, j.sayMessage = j.shown, reason, message
	s.markChanged(j.key)
	signal.Send(s.wake)
}

// refused takes the room of a job back that its pods could not take.
func (s *jobs) refused(j *job, why string) {
	j.refusals++
	j.refusedWhy = translate.Shorten(why)
	s.takeBack(j, v1alpha1.ReasonRequeued, j.refusedWhy)
}

// setPromise records what a job is promised.
func (s *jobs) setPromise(j *job, p *promise) {
	s.unpromise(j)
	j.promise, s.byID[p.job.ID] = p, j.key
	s.holders[j.key] = struct{}{}
}

// promisedOn returns the jobs that are promised room on a node. The caller holds the lock.
func (s *jobs) promisedOn(node string) (keys []types.NamespacedName) {
	for key := range s.holders {
		if _, is := s.byKey[key].promise.nodes[node]; is {
			keys = append(keys, key)
		}
	}
	return keys
}

// unpromise forgets what a job is promised.
func (s *jobs) unpromise(j *job) {
	if j.promise != nil {
		delete(s.byID, j.promise.job.ID)
		delete(s.holders, j.key)
		j.promise = nil
	}
}

// drop forgets a job.
func (s *jobs) drop(key types.NamespacedName) {
	j := s.byKey[key]
	if j == nil {
		return
	}
	s.giveUp(j)
	if j.class != nil {
		s.classes.leave(j.class)
	}
	delete(s.byKey, key)
	if s.gone[key] == nil {
		s.gone[key] = j
	}
	s.markChanged(key)
}

// markChanged makes the loop look at a job.
func (s *jobs) markChanged(key types.NamespacedName) { s.changed[key] = struct{}{} }

// take returns all changed jobs in the order in which they were made. A queue with a limit takes the first ones only.
func (s *jobs) take() []types.NamespacedName {
	type made struct {
		at  time.Time
		key types.NamespacedName
	}
	s.mu.Lock()
	all := make([]made, 0, len(s.changed))
	for key := range s.changed {
		m := made{key: key}
		if j := s.byKey[key]; j != nil {
			m.at = j.created
		}
		all = append(all, m)
	}
	clear(s.changed)
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b made) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name))
	})
	keys := make([]types.NamespacedName, len(all))
	for i := range all {
		keys[i] = all[i].key
	}
	return keys
}

// all returns the keys of all jobs. The caller holds the lock.
func (s *jobs) all() []types.NamespacedName {
	keys := make([]types.NamespacedName, 0, len(s.byKey))
	for key := range s.byKey {
		keys = append(keys, key)
	}
	return keys
}

// Jobs implements inventory.Source.
func (s *jobs) Jobs() (all []match.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, key := range s.byID {
		switch j := s.byKey[key]; {
		case j.promise != nil && j.promise.job.ID == id:
			all = append(all, j.promise.job)
		case j.room != nil && j.room.id == id:
			if slots := j.room.remaining(); len(slots) > 0 {
				all = append(all, j.room.booking(slots))
			}
		}
	}
	slices.SortFunc(all, func(a, b match.Job) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// someWait reports whether a job waits that has no promise.
func (s *jobs) someWait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.byKey {
		if j.promise == nil && j.room == nil && !j.isOver() {
			return true
		}
	}
	return false
}

// texts has texts that many jobs have in common, once each.
type texts map[string]string

// maxTexts bounds the texts that are remembered.
const maxTexts = 10_000

// shared returns a text in the memory that others have of it.
func (t texts) shared(text string) string {
	if have, ok := t[text]; ok {
		return have
	}
	if len(t) >= maxTexts {
		clear(t)
	}
	t[text] = text
	return text
}

// isOlder reports whether a resource version is older than another.
func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// timeOf returns a time of the API, zero if there is none.
func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
