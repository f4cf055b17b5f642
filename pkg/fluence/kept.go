package fluence

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A keeper knows for which groups room is kept, and on which nodes. The zero value
// is ready for use.
type keeper struct {
	mu sync.Mutex
	// events counts what may change on which nodes a group could stand.
	events map[group.Event]uint64
	// heads are the groups for which room is kept from others.
	heads map[types.NamespacedName]choice
}

// A choice is the nodes that a group could use some day.
type choice struct {
	nodes []string
	// pods names those that it was made for, and seen the events that it depends on as
	// they were counted before it was made.
	pods string
	seen map[group.Event]uint64
}

func (k *keeper) happened(ev group.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.events == nil {
		k.events = map[group.Event]uint64{}
	}
	k.events[ev]++
}

// get returns the choice of a group's pods if it still holds, and else the count
// of events to make it at.
func (k *keeper) get(key types.NamespacedName, pods string) (c choice, ok bool, events map[group.Event]uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok = k.heads[key]
	if ok = ok && c.pods == pods; ok {
		for ev, n := range c.seen {
			ok = ok && k.events[ev] == n
		}
	}
	return c, ok, maps.Clone(k.events)
}

func (k *keeper) put(key types.NamespacedName, c choice) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.heads == nil {
		k.heads = map[types.NamespacedName]choice{}
	}
	k.heads[key] = c
}

// keeps says for how many groups room is kept, and on how many nodes.
func (k *keeper) keeps() (groups, nodes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	names := map[string]bool{}
	for _, c := range k.heads {
		for _, n := range c.nodes {
			names[n] = true
		}
	}
	return len(k.heads), len(names)
}

// drop forgets those that room is no longer kept for. It returns whether there were
// any that kept some.
func (k *keeper) drop(but []group.Head) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	gone := false
	maps.DeleteFunc(k.heads, func(key types.NamespacedName, c choice) bool {
		if slices.ContainsFunc(but, func(h group.Head) bool { return h.Key == key }) {
			return false
		}
		gone = gone || len(c.nodes) > 0
		return true
	})
	return gone
}

// letPass has groups ask again that were kept from room which is kept no longer:
// the group that it was for has started or is gone, or waits for something else.
func (pl *Fluence) letPass() {
	if pl.keeper.drop(pl.groups.Overdue(pl.now(), pl.args.MaxBypass.Duration)) {
		pl.happened(group.Unkept)
	}
}

// keptRoom is what a request has to leave to others that come before it.
type keptRoom struct {
	nodes []string
	// words say for whom how many nodes are kept, and until lists what may change that.
	words []string
	until []group.Event
}

// keptFrom returns the room that is kept from a plan. It runs the profile's filters,
// so that it may only be called inside a scheduling cycle.
//
// Groups wait here only for groups before them in one order, and what has started
// waits for nobody: members that come later are placed whoever waits, since those
// that run may wait for them before they end. So no circle of groups can come about.
func (pl *Fluence) keptFrom(ctx context.Context, plan group.Plan, nodes []fwk.NodeInfo) keptRoom {
	var kept keptRoom
	if plan.Late {
		return kept
	}
	now, own := pl.now(), plan.Rank
	own.Incomplete = false
	for _, h := range pl.groups.Overdue(now, pl.args.MaxBypass.Duration) {
		if h.Key == plan.Key || !h.Rank.Less(own) {
			continue
		}
		c := pl.choiceOf(ctx, h, nodes)
		if len(c.nodes) == 0 {
			continue
		}
		kept.nodes = append(kept.nodes, c.nodes...)
		kept.words = append(kept.words, keptWords(len(c.nodes), h.Key, now.Sub(h.Since)))
		if _, ok := c.seen[group.StorageChanged]; ok {
			// A pod that goes frees room as well, and all ask again; one that comes lets
			// nobody pass.
			kept.until = []group.Event{group.StorageChanged}
		}
	}
	slices.Sort(kept.nodes)
	kept.nodes = slices.Compact(kept.nodes)
	return kept
}

func keptWords(nodes int, key types.NamespacedName, waited time.Duration) string {
	verb := "are"
	if nodes == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%s %s kept for %s, which has waited %s", plural(nodes, "node"), verb, key, duration.HumanDuration(waited))
}

// choiceOf returns the nodes that a group could use: not ruled out for good, and
// large enough for one of its pods if only pods were there that run on every node.
func (pl *Fluence) choiceOf(ctx context.Context, h group.Head, nodes []fwk.NodeInfo) choice {
	pods := strings.Join(podNames(h.Pods), " ")
	c, ok, events := pl.keeper.get(h.Key, pods)
	if ok {
		return c
	}
	c = choice{pods: pods, seen: map[group.Event]uint64{group.NodeChanged: events[group.NodeChanged]}}
	shapes := shapesOf(group.Plan{Required: h.Pods})
	barred := make([]map[string]bool, len(shapes))
	for i, s := range shapes {
		out, refused := pl.ruleOut(ctx, s.pods[0], nodes)
		barred[i] = map[string]bool{}
		for _, name := range out.never {
			barred[i][name] = true
		}
		watched := out.events()
		if refused != nil {
			// It can use no node, and what it waits for is told when it asks.
			barred[i], watched = nil, refused.Until
		}
		for _, ev := range watched {
			c.seen[ev] = events[ev]
		}
	}
	for _, info := range nodes {
		left := translate.Emptied(info.Node(), podsOn(info))
		for i, s := range shapes {
			if barred[i] != nil && !barred[i][info.Node().Name] && left.Hold(s.amounts) {
				c.nodes = append(c.nodes, info.Node().Name)
				break
			}
		}
	}
	pl.log.V(2).Info("Keeping room", "group", h.Key, "nodes", len(c.nodes), "waitsSince", h.Since)
	pl.keeper.put(h.Key, c)
	return c
}

// podNames names pods as they are asked for now.
func podNames(pods []*corev1.Pod) []string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = fmt.Sprintf("%s/%d", p.UID, p.Generation)
	}
	return names
}

func podsOn(info fwk.NodeInfo) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, p := range info.GetPods() {
			if !yield(p.GetPod()) {
				return
			}
		}
	}
}

// leaveOut has requests leave out, for the present, the nodes that are kept.
func (k keptRoom) leaveOut(requests []translate.ShapeRequest) {
	if len(k.nodes) == 0 {
		return
	}
	for i := range requests {
		within(&requests[i].Attributes.ConstraintsNow, not(k.nodes))
	}
}

// tell adds to a refusal for want of room what part in it the kept room has.
func (k keptRoom) tell(r *group.Refusal) {
	if r.Reason != reasonNoRoom || len(k.nodes) == 0 {
		return
	}
	r.Message = translate.Shorten(r.Message + "; " + strings.Join(k.words, "; "))
	r.Until = append(r.Until, group.Unkept)
	for _, ev := range k.until {
		if !slices.Contains(r.Until, ev) {
			r.Until = append(r.Until, ev)
		}
	}
}

// waitsSince is since when a group that waits for room has not been scheduled, as its
// PodGroup says; zero if it waits for something else. That it had another reason at
// first, such as that pods were missing, is not to be seen there.
func waitsSince(pg *scheduling.PodGroup) time.Time {
	c := meta.FindStatusCondition(pg.Status.Conditions, ConditionScheduled)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reasonNoRoom {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}
