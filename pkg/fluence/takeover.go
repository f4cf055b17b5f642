package fluence

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/admission"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A job that was admitted has room before its pods exist. The pods take it over: each match of the group replaces as many of
// the job's slots as it has pods, on exactly their nodes. Others do not count, whatever is reserved, claimed or promised:
// the room is the job's. If filters refuse a node of it, or it is not free, the job gets other room.

const (
	// nodePatience is for how long filters may refuse nodes of a job's room until the job gets other nodes. Pods that have
	// just ended may be counted there still.
	nodePatience = time.Second
	// roomPatience is this time if no node is to blame. It is also for how long a job whose pods do not ask again after a refusal
	// may keep its room: what they wait for, such as a volume, may never come.
	roomPatience = 30 * time.Second
	// roomRefusalsEnd is how long after a refusal the next one is the first again.
	roomRefusalsEnd = time.Minute
)

// takes reports whether the pods of a plan take over room.
func takes(plan gang.Plan) bool { return plan.Room.Job != 0 }

// takeRoom returns a plan in which the pods take over what is left of the room of their job, if there is any: as many pods as
// there are slots, all of them together. The other pods ask later. If the group needs more pods than that, they may be
// on any nodes of its queue. Pods beyond the size with which the job was admitted are refused. A group that cannot start with so many
// waits again. One that has not started waits while the driver brings the room up to date, which may be larger then.
func takeRoom(a *groupPlacer, plan gang.Plan) (gang.Plan, *gang.Refusal) {
	t, ok := a.queues.Allocation(jobOf(plan.Key))
	if !ok {
		return plan, nil
	}
	staying := a.groups.Staying(plan.Key, a.now())
	switch {
	case !plan.Late && len(plan.Required) > t.Pods:
		refused := beyondSize(t, fmt.Sprintf("and needs %d at a time by now: it waits for its turn with its new size", len(plan.Required)))
		a.queues.Refused(jobOf(plan.Key), nil, refused.Message) // it would hold its room, and never start
		return plan, refused
	case staying >= t.Pods:
		return plan, beyondSize(t, fmt.Sprintf("and has %d: another one starts when one of them has ended. To run more at a time, suspend the Job and resume it: it waits for its turn with its new size", staying))
	case t.Unsettled && !plan.Late && len(t.Slots) < len(plan.Required):
		return plan, &gang.Refusal{Reason: reason.Queued, Message: "its room is being booked again", RetryOn: gang.ClusterEvents(), Backoff: true, NodesFound: true}
	}
	plan = atMost(plan, t.Pods-staying)
	if plan.InsteadOf == nil && len(t.Slots) > 0 {
		plan = onSlots(plan, t)
	}
	return plan, nil
}

// beyondSize is the refusal of pods of a job that are more than it was admitted for.
func beyondSize(t admission.Takeover, why string) *gang.Refusal {
	return &gang.Refusal{
		Reason: reason.Queued, RetryOn: gang.ClusterEvents(), Backoff: true, NodesFound: true,
		Message: fmt.Sprintf("the job was admitted to Queue %s with %s, %s", t.Queue, reason.Plural(t.Pods, "pod"), why),
	}
}

// atMost returns a plan with at most n pods.
func atMost(plan gang.Plan, n int) gang.Plan {
	if beyond := len(plan.Required) - n; beyond > 0 {
		plan.Required = plan.Required[:n:n]
		plan.Expected = max(0, plan.Expected-beyond) // they are the last ones
	}
	plan.Optional = plan.Optional[:min(len(plan.Optional), n-len(plan.Required))]
	plan.LostMembers = plan.LostMembers[:min(len(plan.LostMembers), n)]
	return plan
}

// onSlots returns a plan in which pods take over slots.
func onSlots(plan gang.Plan, t admission.Takeover) gang.Plan {
	pods := slices.Clone(plan.Required)
	if plan.Expected == 0 {
		pods = append(pods, plan.Optional...)
	}
	if plan.Late {
		pods = pods[:min(len(pods), len(t.Slots))]
	}
	plan.Room = gang.Room{Job: t.Job}
	if len(t.Slots) < len(plan.Required) && !plan.Late {
		for _, s := range t.Slots {
			plan.Room.Keys = append(plan.Room.Keys, s.Key)
		}
		return plan
	}
	pods = pods[:min(len(pods), len(t.Slots))]
	plan.Required, plan.Optional = pods, nil
	plan.LostMembers = plan.LostMembers[:min(len(plan.LostMembers), len(pods))]
	for _, s := range t.Slots[:len(pods)] {
		plan.Room.Keys, plan.Room.Nodes = append(plan.Room.Keys, s.Key), append(plan.Room.Nodes, s.Node)
	}
	return plan
}

// stateOfRoom is the cluster for a plan that takes over room.
func stateOfRoom(a *groupPlacer, plan gang.Plan, now time.Time) placement.ClusterState {
	overlooked := func() (ignored, spared []match.JobID) {
		all := a.promises.jobsOf(func(types.NamespacedName, *promise) bool { return true })
		return append(all, a.queues.promisesAfter(gang.Rank{Urgent: true})...), nil
	}
	ignored, _ := overlooked()
	return placement.ClusterState{
		At: now, Duration: a.walltimes.needed(plan, now), Ignored: ignored, Overlooked: overlooked, Epoch: a.inventory.Epoch(),
		Ended: a.endedPods.slots(a.handle.SnapshotSharedLister().NodeInfos(), now),
	}
}

// keepInQueue adds the nodes that are not those of the queue of a plan's job to those that the plan may not have. The nodes of
// its room were chosen by that.
func keepInQueue(a *groupPlacer, plan gang.Plan, c *placement.ClusterState) {
	t, ok := a.queues.Allocation(jobOf(plan.Key))
	if !ok || t.Requires == nil || len(plan.Room.Nodes) > 0 {
		return
	}
	nodes, err := a.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return // the snapshot never fails
	}
	before := len(c.Reserved.Nodes)
	for _, n := range nodes {
		if !t.Requires.Matches(labels.Set(n.Node().Labels)) {
			c.Reserved.Nodes = append(c.Reserved.Nodes, n.Node().Name)
		}
	}
	if n := len(c.Reserved.Nodes) - before; n > 0 {
		c.Reserved.Messages = append(c.Reserved.Messages, fmt.Sprintf("%s not of Queue %s", reason.Plural(n, "node"), t.Queue))
	}
}

// promisesAfter returns the reservations of jobs after a rank, sorted.
func (q *queues) promisesAfter(rank gang.Rank) []match.JobID {
	return slices.Sorted(slices.Values(q.Promises(rank)))
}

// roomTaken records what has become of the room that a plan was to take over. If it may have lost its slots although no pod
// has them, the driver books them again.
func roomTaken(a *groupPlacer, plan gang.Plan, found placement.Result, refused *gang.Refusal) {
	if refused != nil && len(found.Effects.Release) == 0 && found.Refusal != nil {
		return
	}
	job := jobOf(plan.Key)
	a.queues.TakenOver(job, plan.Room.Keys)
	if refused != nil {
		a.queues.Recheck(job)
	}
}

// hasRoomStill reports whether a plan's room is its job's after the match too. The job may have lost it meanwhile: then what was
// matched is others' room by now.
func hasRoomStill(a *groupPlacer, plan gang.Plan) bool {
	t, ok := a.queues.Allocation(jobOf(plan.Key))
	return ok && t.Job == plan.Room.Job
}

// refuseRoom handles the refusal of a plan that takes over room. If it lasts, the job gets other room.
func refuseRoom(a *groupPlacer, plan gang.Plan, found placement.Result, refused *gang.Refusal) {
	if refused.Reason == reason.MatcherUnavailable || refused.WaitsFor == gang.WaitsForAnswer {
		return // nothing is known
	}
	refused.Equivalence, refused.AlsoRefused = "", found.FirstShape
	if refused.Reason == reason.NoRoom || refused.Reason == reason.NeverFits {
		refused.Reason = reason.NodesRuledOut
	}
	refused.WaitsFor, refused.NodesFound, refused.Backoff = gang.WaitsForOther, true, true
	refused.Message = translate.Shorten(fmt.Sprintf("cannot take the room that its queue has given it%s: %s", onNodes(plan.Room.Nodes), refused.Message))
	var all []string
	if plan.Late {
		all = plan.Room.Nodes // the other pods run: those of the plan may be anywhere else
	}
	roomRefusedOn(a.base, plan.Key, found.RoomRefused, all, refused.Message)
}

// onNodes names some nodes, as a part of a message.
func onNodes(nodes []string) string {
	const most = 3
	names := sets.List(sets.New(nodes...))
	switch n := len(names); {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf(" on %s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return " on " + strings.Join(names, ", ")
}

// roomRefusedOn records that a group was refused the room of its job, by filters on these nodes. The job gets other room if that
// has lasted for long enough. If no node is to blame, that is so for the nodes otherwise.
func roomRefusedOn(b *base, key types.NamespacedName, nodes, otherwise []string, why string) {
	job := jobOf(key)
	t, ok := b.queues.Allocation(job)
	if !ok {
		return
	}
	if all, lasts := b.queues.room.refuse(job, t.Job, nodes, why, b.now()); lasts {
		if len(all) == 0 {
			all = otherwise
		}
		giveOtherRoom(b, job, all, why)
	}
}

func giveOtherRoom(b *base, job types.NamespacedName, nodes []string, why string) {
	b.log.V(2).Info("A job cannot take the room that its queue has given it", "job", job, "nodes", nodes, "why", why)
	b.queues.Refused(job, nodes, why)
}

// endRefusedRooms gives other room to jobs whose pods were refused theirs, and have not asked again for long. That is so if a plugin
// refuses the pods before nodes are looked at: they ask again when what they lack is there.
func endRefusedRooms(w *watcher, now time.Time) {
	if w.queues.room.isEmpty() || w.whyNotReady() != "" {
		return // there are none, or they could not ask
	}
	for job, of := range w.queues.room.due(now) {
		if t, ok := w.queues.Allocation(job); ok && t.Job == of.room && len(placedOfJob(w.base, job)) == 0 {
			giveOtherRoom(w.base, job, sets.List(of.nodes), of.why)
		}
	}
}

// assignmentRefused records that the filters have refused the node of a pod that was assigned to it.
func assignmentRefused(b *base, pod *corev1.Pod, node, why string) {
	key := b.groupKey(pod)
	if _, admitted := b.queues.End(jobOf(key)); admitted {
		roomRefusedOn(b, key, []string{node}, nil, why)
	}
}

// roomRefusals are the jobs whose pods cannot take their room. The zero value is ready for use.
type roomRefusals struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]*roomRefusal
}

// A roomRefusal is since when a job's pods have been refused a room, when they were last, why, and on which nodes.
type roomRefusal struct {
	room        match.JobID
	since, last time.Time
	why         string
	nodes       sets.Set[string]
}

// refuse records a refusal of a room. If refusals of it have lasted for long enough, it returns the nodes of all of them, and forgets them.
func (r *roomRefusals) refuse(job types.NamespacedName, room match.JobID, nodes []string, why string, now time.Time) (all []string, lasts bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.jobs, func(_ types.NamespacedName, of *roomRefusal) bool { return now.Sub(of.last) > roomRefusalsEnd })
	of := r.jobs[job]
	if of == nil || of.room != room {
		of = &roomRefusal{room: room, since: now, nodes: sets.New[string]()}
		if r.jobs == nil {
			r.jobs = map[types.NamespacedName]*roomRefusal{}
		}
		r.jobs[job] = of
	}
	of.last, of.why = now, why
	of.nodes.Insert(nodes...)
	patience := roomPatience
	if of.nodes.Len() > 0 {
		patience = nodePatience
	}
	if now.Sub(of.since) < patience {
		return nil, false
	}
	delete(r.jobs, job)
	return sets.List(of.nodes), true
}

// due returns the refusals that are older than roomPatience, and forgets them.
func (r *roomRefusals) due(now time.Time) map[types.NamespacedName]*roomRefusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[types.NamespacedName]*roomRefusal{}
	for job, of := range r.jobs {
		if now.Sub(of.since) >= roomPatience {
			all[job] = of
			delete(r.jobs, job)
		}
	}
	return all
}

// isEmpty reports whether no job was refused its room.
func (r *roomRefusals) isEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.jobs) == 0
}

// drop forgets the refusals of a job whose pods have started.
func (r *roomRefusals) drop(job types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs, job)
}
