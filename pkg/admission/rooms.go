package admission

import (
	"context"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// Room that no pod has taken is the smaller of two: what the allocation has on each node beyond the pods there, and how many
// pods are still to come. Otherwise the room of a pod that has succeeded would be kept until the last one has.

// An unsettled says that the room of a job has to be brought up to date.
type unsettled struct {
	// times is how often something has happened to the room.
	times int
	// awaited is true if the plugin waits for it.
	awaited bool
}

// unsettle makes the room of a job be brought up to date. The caller holds the lock.
func (s *jobs) unsettle(key types.NamespacedName) {
	u := s.unsettled[key]
	u.times++
	s.unsettled[key] = u
}

// settle brings the room of jobs whose pods have changed up to date, in the matcher too. It reports whether room became free.
func (l *loop) settle(epoch match.Epoch) (freed bool) {
	if epoch != 0 {
		freed = l.releaseGivenUp() // before the same slots are booked again
	}
	l.jobs.mu.Lock()
	all := maps.Clone(l.jobs.unsettled)
	l.jobs.mu.Unlock()
	var book []match.Job
	defer l.tellSettled()
	for key, before := range all {
		more, less := l.settleOne(key, before)
		if epoch == 0 {
			continue // what the matcher has is read from the jobs when its graph is loaded
		}
		if len(more.Slots) > 0 {
			book = append(book, more)
		}
		if less.Job != 0 {
			l.asker.releaseSlots(less)
			freed = true
		}
	}
	if epoch == 0 {
		return false
	}
	for part := range slices.Chunk(book, bookAtOnce) {
		err := l.asker.call(func(ctx context.Context) error { return l.cfg.Engine.Update(ctx, epoch, part...) })
		if err != nil {
			klog.FromContext(l.ctx).V(2).Info("The room of jobs of queues could not be booked; it is tried again", "jobs", len(part), "err", err)
			l.jobs.doubt(part)
		}
	}
	return freed
}

// tellSettled tells the plugin that rooms are up to date for which it waits.
func (l *loop) tellSettled() {
	if len(l.settled) > 0 {
		l.cfg.Groups.Changed(l.settled...)
		l.settled = nil
	}
}

// bookAtOnce is the largest number of jobs in one update of the matcher.
const bookAtOnce = 256

// settleOne brings the room of a job up to date. It returns the slots that the matcher has to book, and those that it has
// to release. If something has happened to the room since before, the job waits for the next step.
func (l *loop) settleOne(key types.NamespacedName, before unsettled) (more match.Job, less match.SlotRef) {
	placed := l.cfg.Groups.Placed(key)
	l.jobs.mu.Lock()
	defer l.jobs.mu.Unlock()
	u := l.jobs.unsettled[key]
	if u.times != before.times {
		signal.Send(l.wake)
		return more, less
	}
	delete(l.jobs.unsettled, key)
	if u.awaited {
		l.settled = append(l.settled, key)
	}
	j := l.jobs.byKey[key]
	if j == nil || j.room == nil {
		return more, less
	}
	r := j.room
	wanted := r.wanted(placed, l.cfg.Cluster.toCome(j, len(placed)))
	var book []Slot
	for i, want := range wanted {
		switch had := r.left[i]; {
		case want && (!had || r.unsure):
			book = append(book, r.slots[i])
		case !want && (had || r.unsure):
			less.Job, less.Keys = r.id, append(less.Keys, r.slots[i].Key)
		}
	}
	r.left, r.unsure = wanted, false
	if len(book) > 0 {
		r.bookedAt = l.cfg.Now()
	}
	return r.booking(book), less
}

// wanted returns which slots no pod has taken, if pods are on these nodes and some are still to come.
func (r *room) wanted(placed []string, toCome int) []bool {
	nodes := make([]string, len(r.slots))
	for i, s := range r.slots {
		nodes[i] = s.Node
	}
	return Untaken(nodes, placed, toCome)
}

// Untaken returns which slots of a room no pod has taken, by the nodes of the slots in the order of the allocation, if pods are on the
// nodes placed and some are still to come. Of the slots of a node the first ones are taken first, as a match takes them over.
func Untaken(slots, placed []string, toCome int) []bool {
	on := map[string]int{}
	for _, node := range placed {
		on[node]++
	}
	wanted := make([]bool, len(slots))
	n := 0
	for i, node := range slots {
		if on[node] > 0 {
			on[node]--
			continue
		}
		wanted[i] = true
		n++
	}
	for i := len(wanted) - 1; i >= 0 && n > toCome; i-- {
		if wanted[i] {
			wanted[i] = false
			n--
		}
	}
	return wanted
}

// toCome returns how many pods of a job are still to get nodes, beyond those placed. An object that is not known yet is expected to
// need its whole room. The caller holds the lock of the jobs.
func (c *Cluster) toCome(j *job, placed int) int {
	all := len(j.room.slots)
	if j.of.isPod {
		pod := c.pod(j)
		switch {
		case pod == nil:
			return all - placed
		case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
			return 0
		}
		return max(0, 1-placed)
	}
	of := c.batchJob(j)
	if of == nil {
		return max(0, all-placed)
	}
	// The status of a Job is a moment behind its pods.
	return max(0, PodsOf(of, max(int(of.Status.Succeeded), c.succeeded(of.UID)))-placed)
}

// PodsOf returns how many pods a Job has at a time from now on, if so many have succeeded.
func PodsOf(job *batchv1.Job, succeeded int) int {
	n := int(ptr.Deref(job.Spec.Parallelism, 1))
	switch {
	case hasEnded(job):
		return 0
	case job.Spec.Completions != nil:
		return max(0, min(n, int(*job.Spec.Completions)-succeeded))
	case succeeded > 0:
		return 0 // a work queue: no further pods are made
	}
	return n
}

// pod returns the pod of a job. It returns nil if it is not known.
func (c *Cluster) pod(j *job) *corev1.Pod {
	obj, ok, err := c.Pods.GetStore().GetByKey(j.key.Namespace + "/" + j.of.name)
	if err != nil || !ok {
		return nil
	}
	if pod, is := obj.(*corev1.Pod); is && pod.UID == j.of.uid {
		return pod
	}
	return nil
}

// batchJob returns the Job of a job. It returns nil if it is not known.
func (c *Cluster) batchJob(j *job) *batchv1.Job {
	obj, ok, err := c.Jobs.GetStore().GetByKey(j.key.Namespace + "/" + j.of.name)
	if err != nil || !ok {
		return nil
	}
	if of, is := obj.(*batchv1.Job); is && of.UID == j.of.uid {
		return of
	}
	return nil
}

// hasEnded reports whether a Job makes no pods any more.
func hasEnded(of *batchv1.Job) bool {
	return slices.ContainsFunc(of.Status.Conditions, func(c batchv1.JobCondition) bool {
		switch c.Type {
		case batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet:
			return c.Status == corev1.ConditionTrue
		default:
			return false
		}
	})
}

// succeeded counts the pods of a Job that have succeeded and exist.
func (c *Cluster) succeeded(of types.UID) (n int) {
	pods, err := c.Pods.GetIndexer().ByIndex(c.PodsByJob, string(of))
	if err != nil {
		return 0
	}
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodSucceeded {
			n++
		}
	}
	return n
}

// doubt makes the rooms of an update that has failed be booked again.
func (s *jobs) doubt(all []match.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		key, ok := s.byID[all[i].ID]
		if j := s.byKey[key]; ok && j.room != nil && j.room.id == all[i].ID {
			j.room.unsure = true
			s.unsettle(key)
		}
	}
}

// doubtAll makes all rooms be booked again, because the matcher's graph was loaded anew.
func (s *jobs) doubtAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.byID {
		if j := s.byKey[key]; j.room != nil {
			j.room.unsure = true
			s.unsettle(key)
		}
	}
}

// releaseSlots releases slots in the matcher, or a whole job without keys. If that fails, it is tried again later.
func (m *asker) releaseSlots(ref match.SlotRef) {
	err := m.call(func(ctx context.Context) error { return m.cfg.Engine.Release(ctx, m.epoch, ref.Job, ref.Keys...) })
	m.smaller.forgetRefusals()
	if err == nil {
		m.freed = true
		return
	}
	m.jobs.mu.Lock()
	defer m.jobs.mu.Unlock()
	m.jobs.givenUp = append(m.jobs.givenUp, ref)
}

// releaseGivenUp releases what was given up, but for what its job has again by now. It reports whether there was anything.
func (l *loop) releaseGivenUp() bool {
	l.jobs.mu.Lock()
	all, doubtful := l.jobs.withoutKept(l.jobs.givenUp), l.jobs.withoutKept(l.jobs.doubtful)
	l.jobs.givenUp, l.jobs.doubtful = nil, nil
	l.jobs.mu.Unlock()
	for _, ref := range slices.Concat(all, doubtful) {
		l.asker.releaseSlots(ref)
	}
	return len(all) > 0
}

// withoutKept returns refs without what their jobs have. The caller holds the lock.
func (s *jobs) withoutKept(refs []match.SlotRef) (rest []match.SlotRef) {
	for _, ref := range refs {
		j := s.byKey[s.byID[ref.Job]] // nil if no job has it
		switch {
		case j == nil:
		case len(ref.Keys) == 0:
			continue
		case j.room != nil && j.room.id == ref.Job:
			// Without keys it would be the whole job.
			if ref.Keys = j.room.withoutLeft(ref.Keys); len(ref.Keys) == 0 {
				continue
			}
		}
		rest = append(rest, ref)
	}
	return rest
}

// withoutLeft returns keys without those of the slots that no pod has taken.
func (r *room) withoutLeft(keys []string) (rest []string) {
	left := make(map[string]struct{}, len(r.slots))
	for _, s := range r.remaining() {
		left[s.Key] = struct{}{}
	}
	for _, key := range keys {
		if _, is := left[key]; !is {
			rest = append(rest, key)
		}
	}
	return rest
}
