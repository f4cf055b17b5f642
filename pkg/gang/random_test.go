package gang

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
	"github.com/flux-k8s/fluence/test/trials"
)

// slotID is a slot that the matcher gave out.
type slotID struct {
	job match.JobID
	key string
}

// randomGroups is the number of groups in a randomHistory.
const randomGroups = 3

// A randomHistory is a history of a few groups, and the slots that the matcher has given out.
type randomHistory struct {
	*Groups
	*rand.Rand
	now   time.Time
	pods  map[string]*corev1.Pod
	next  int
	slots map[slotID]bool
	// seen has the pods that the API showed on a node. The inventory releases what they hold.
	seen map[string]bool
	// stale is true if a BindIntent was out of date at once.
	stale bool
}

func (c *randomHistory) key() types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("g%d", c.IntN(randomGroups))}
}

func (c *randomHistory) pod() *corev1.Pod {
	names := slices.Sorted(maps.Keys(c.pods))
	if len(names) == 0 {
		return nil
	}
	return c.pods[names[c.IntN(len(names))]]
}

// carryOut releases what an Output names.
func (c *randomHistory) carryOut(e Output) {
	for _, r := range e.Release {
		if len(r.Keys) == 0 {
			maps.DeleteFunc(c.slots, func(s slotID, _ bool) bool { return s.job == r.Job })
		}
		for _, k := range r.Keys {
			delete(c.slots, slotID{r.Job, k})
		}
	}
}

// change shows a pod as the API would after an edit.
func (c *randomHistory) change(pod *corev1.Pod, edit func(*corev1.Pod)) {
	pod = pod.DeepCopy()
	edit(pod)
	c.pods[pod.Name] = pod
	if pod.Spec.NodeName != "" {
		c.seen[pod.Name] = true
	}
	c.carryOut(c.PutPod(pod, c.now))
}

// refusal returns a random refusal: of the Plan's pod
// alone or also of the pods that were matched with it.
func (c *randomHistory) refusal(plan Plan) Refusal {
	r := Refusal{RetryOn: AllEvents()[c.IntN(len(AllEvents())):], Backoff: c.IntN(2) == 0, LongBackoff: c.IntN(8) == 0, WaitsFor: WaitsFor(c.IntN(5))}
	if c.IntN(4) == 0 {
		r.RetryAfter = time.Duration(1+c.IntN(30)) * time.Second
	}
	if !r.Backoff && !r.LongBackoff && r.RetryAfter == 0 {
		r.Equivalence = []string{"", "one", "one", "two"}[c.IntN(4)]
	}
	if c.IntN(2) == 0 {
		for _, pod := range plan.Optional {
			r.AlsoRefused = append(r.AlsoRefused, pod.UID)
		}
	}
	return r
}

// callRandomMethod calls methods at random that change when groups retry and which group yields.
func (c *randomHistory) callRandomMethod() {
	switch c.IntN(6) {
	case 0:
		c.Starving(c.now, 0)
	case 1:
		c.Yield(c.key(), []string{"", "something is in the way"}[c.IntN(2)], nil, c.now)
	case 2:
		c.YieldersDue(c.now)
	case 3:
		c.RetryNow(c.key())
	case 4:
		c.ExpireBackoff(c.key())
	default:
		if pod := c.pod(); pod != nil {
			c.MoreUrgent(pod.UID, c.now)
		}
	}
}

// cycle is a pod's way through the scheduler, which may end anywhere.
func (c *randomHistory) cycle(pod *corev1.Pod) {
	if v := c.PreEnqueue(pod.UID, c.now); !v.Pass {
		c.carryOut(c.RevokeAbandoned(pod.UID, v.Abandoned, c.now))
		return
	}
	plan, e := c.Plan(pod.UID, c.now)
	c.carryOut(e)
	node := plan.Node
	if plan.Job != 0 {
		if c.IntN(4) == 0 {
			c.Refuse(plan, c.refusal(plan), c.now)
			return
		}
		if c.IntN(4) == 0 {
			c.step() // something happens during the match
		}
		var slots []match.Slot
		for _, p := range append(plan.Required, plan.Optional...) {
			slots = append(slots, match.Slot{Key: string(p.UID), Node: fmt.Sprintf("n%d", c.IntN(3))})
			c.slots[slotID{plan.Job, string(p.UID)}] = true
		}
		var err error
		node, _, e, err = c.Assign(plan, slots, c.now.Add(time.Minute))
		c.carryOut(e)
		if err != nil {
			return
		}
	}
	if node == "" || c.IntN(8) == 0 {
		return // as after an error of another plugin
	}
	if c.IntN(8) == 0 {
		c.carryOut(c.FilterRejected(pod.UID, c.now, "no"))
		return
	}
	if c.Reserve(pod.UID, node) != nil || c.IntN(8) == 0 {
		c.carryOut(c.Unreserve(pod.UID, c.now, "no"))
		return
	}
	c.Permit(pod.UID)
	if _, mayBind := c.StillWaits(pod.UID); !mayBind {
		return
	}
	closed := ""
	if c.IntN(8) == 0 {
		closed = "its node is cordoned"
	}
	why, e, ok := c.CommitBind(c.PrepareBind(pod.UID), closed, c.now)
	c.stale = c.stale || !ok
	if why != "" {
		c.carryOut(e)
		return
	}
	switch c.IntN(8) {
	case 0: // answered with 429, and deleted or let go again later
		c.UndoBind(pod.UID)
		return
	case 1:
		c.carryOut(c.Unreserve(pod.UID, c.now, "no"))
		return
	}
	c.ObserveBind(pod.UID)
	if p := c.pods[pod.Name]; p != nil && c.IntN(2) == 0 {
		c.change(p, objects.OnNode(node))
	}
}

// step lets one thing happen.
func (c *randomHistory) step() {
	pod := c.pod()
	switch n := c.IntN(21); {
	case n == 0:
		c.carryOut(c.PutPodGroup(c.key(), PodGroup{UID: types.UID(fmt.Sprint(c.IntN(2))), MinMember: int32(1 + c.IntN(3)), Created: noon}))
	case n == 1 && c.IntN(4) == 0:
		c.carryOut(c.DropPodGroup(c.key()))
	case n < 5:
		c.next++
		name := fmt.Sprint(c.next)
		p := objects.Pod(name, objects.Created(c.now))
		if c.IntN(8) > 0 {
			objects.InGroup(c.key().Name)(p)
		}
		c.change(p, func(*corev1.Pod) {})
	case n == 5:
		c.now = c.now.Add(time.Duration(c.IntN(40)) * time.Second)
		c.carryOut(c.RevokeExpired(c.now))
		c.Due(c.now)
	case n == 6:
		c.ObserveEvent(Event(c.IntN(int(numEvents))))
	case n == 20:
		c.callRandomMethod()
	case pod == nil:
	case n == 7:
		delete(c.pods, pod.Name)
		c.carryOut(c.DropPod(pod.UID))
	case n == 8 && pod.Spec.NodeName == "":
		// Another scheduler binds it.
		c.change(pod, objects.OnNode(fmt.Sprintf("n%d", c.IntN(3))))
	case n == 9:
		c.change(pod, objects.InPhase(corev1.PodSucceeded))
	case n == 10:
		c.change(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: c.now} })
	case n == 11:
		c.change(pod, objects.InGroup(c.key().Name))
	default:
		c.cycle(pod)
	}
}

// indexMismatch returns how the indexes of refusals, of groups that yield and of jobs
// differ from a look at all groups. It returns nothing if they do not differ.
func indexMismatch(g *Groups) string {
	var next time.Time
	var awaiting [numEvents][]types.NamespacedName
	var retries, yielders []types.NamespacedName
	for _, s := range g.groups {
		if s.scoutingSince.IsZero() {
			continue
		}
		at := s.scoutingSince.Add(scoutTimeout)
		if retries = append(retries, s.key); !s.retryAt.Equal(at) {
			return fmt.Sprintf("the result of group %s is awaited until %v, and it is found at %v", s.key, at, s.retryAt)
		}
		next = sooner(next, at)
	}
	for key, s := range g.refusedGroups {
		var helps [numEvents]bool
		var retryAt time.Time
		for _, b := range allRefusalStates(s) {
			r := b.refusal
			if r == nil {
				continue
			}
			if at := r.retryAt; !at.IsZero() && (retryAt.IsZero() || at.Before(retryAt)) {
				retryAt = at
			}
			for ev := range numEvents {
				after := *r
				after.observe(ev)
				helps[ev] = helps[ev] || !s.class.hasFollower(s) && (after.helped != r.helped || after.retryAt != r.retryAt)
			}
		}
		for ev, so := range helps {
			if so {
				awaiting[ev] = append(awaiting[ev], key)
			}
		}
		if retryAt.IsZero() {
			continue
		}
		if retries = append(retries, key); !s.retryAt.Equal(retryAt) {
			return fmt.Sprintf("group %s is to ask again at %v, and is found at %v", key, retryAt, s.retryAt)
		}
		if next.IsZero() || retryAt.Before(next) {
			next = retryAt
		}
	}
	for key, s := range g.waitingForRoom {
		if s.yieldReason != "" {
			yielders = append(yielders, key)
		}
	}
	jobs := map[match.JobID]jobAssignments{}
	for _, s := range g.groups {
		for _, m := range s.members {
			if m.assignment != nil {
				jobs[m.assignment.job] = jobAssignments{s, jobs[m.assignment.job].assignments + 1}
			}
		}
	}
	found := make([]types.NamespacedName, len(g.retries))
	for i, s := range g.retries {
		if found[i] = s.key; s.index != i || g.groups[s.key] != s {
			return fmt.Sprintf("group %s, the %dth that asks again, is at %d, or is gone", s.key, i, s.index)
		}
	}
	for what, lists := range map[string][2][]types.NamespacedName{
		"ask again by themselves": {found, retries},
		"yield":                   {slices.Collect(maps.Keys(g.yielders)), yielders},
	} {
		if !sameKeys(lists[0], lists[1]) {
			return fmt.Sprintf("groups %v are found to %s, it is %v that do", lists[0], what, lists[1])
		}
	}
	for ev, want := range awaiting {
		if got := keysOf(g.helpedBy(Event(ev))); !sameKeys(got, want) {
			return fmt.Sprintf("event %d is found to help groups %v, it helps %v", ev, got, want)
		}
	}
	if got := g.retries.next(); !got.Equal(next) {
		return fmt.Sprintf("the first group is found to ask again at %v, it does at %v", got, next)
	}
	if !maps.Equal(g.jobs, jobs) {
		return fmt.Sprintf("jobs are found to be %v, they are %v", g.jobs, jobs)
	}
	return ""
}

// classMismatch returns what is wrong with an equivalence class. It returns nothing if each class
// has the groups that were refused alike, and a scout that retries, now or after an event.
func classMismatch(g *Groups) string {
	members := map[*equivalenceClass]int{}
	for key, s := range g.groups {
		switch {
		case s.class == nil && s.refusal != nil && s.refusal.Equivalence != "" && !s.started && g.refusedGroups[key] == s:
			return fmt.Sprintf("group %s is in no class", key)
		case s.class == nil:
			continue
		case !g.belongsToClass(s), s.class.groups[s.classIndex] != s, s.attempt.Value != s, s.refusal == nil && s.scoutingSince.IsZero():
			return fmt.Sprintf("group %s is not what its class takes it for", key)
		}
		members[s.class]++
	}
	for key, c := range g.classes {
		switch scout := c.scout; {
		case members[c] != len(c.groups), len(c.groups) != c.byAttempt.Len(), len(c.groups) == 0:
			return fmt.Sprintf("class %s has %d groups, %d know of it", key, len(c.groups), members[c])
		case scout.class != c:
			return fmt.Sprintf("the scout of class %s is not in it", key)
		case scout.retryAt.IsZero() && scout.relevantEvents == 0:
			return fmt.Sprintf("the scout of class %s never retries", key)
		}
	}
	if len(members) != len(g.classes) {
		return fmt.Sprintf("%d classes are known, groups are in %d", len(g.classes), len(members))
	}
	return ""
}

// allRefusalStates returns the state of the group and of each of its members.
func allRefusalStates(s *groupState) []*refusalState {
	all := []*refusalState{&s.refusalState}
	for _, m := range s.members {
		all = append(all, &m.refusalState)
	}
	return all
}

// tallyMismatch returns how the numbers of members, by which groups are
// judged, differ from a count of all members. It returns nothing if they do not differ.
func tallyMismatch(g *Groups) string {
	for key, s := range g.groups {
		s.update()
		fresh, replacements := tally{}, members{}
		for uid, m := range s.members {
			c := m.count()
			fresh.add(&c, 1)
			if m.replaces() {
				replacements[uid] = m
			}
			switch {
			case !m.isWaiting() || m.assignment != nil || !s.started:
			case m.position == nil && m.search != s.search:
				return fmt.Sprintf("group %s: no position was looked for for %s", key, m.pod.Name)
			}
			if p := m.position; p != nil && (p.member != m || p.group != s || !slices.Contains(s.positions, p)) {
				return fmt.Sprintf("group %s: the position of %s is not its own", key, m.pod.Name)
			}
		}
		switch {
		case s.numbers != fresh.numbers:
			return fmt.Sprintf("group %s: members are counted as %v, they are %v", key, s.numbers, fresh.numbers)
		case !maps.Equal(s.requests, fresh.requests):
			return fmt.Sprintf("group %s: requests are counted as %v, they are %v", key, s.requests, fresh.requests)
		case !maps.Equal(s.priorities, fresh.priorities):
			return fmt.Sprintf("group %s: priorities are counted as %v, they are %v", key, s.priorities, fresh.priorities)
		case s.started && !maps.Equal(s.replacements, replacements):
			return fmt.Sprintf("group %s: replacements are found to be %v, they are %v", key, s.replacements, replacements)
		}
	}
	return ""
}

// keysOf returns the keys of groups.
func keysOf(groups iter.Seq[*groupState]) (keys []types.NamespacedName) {
	for s := range groups {
		keys = append(keys, s.key)
	}
	return keys
}

// sameKeys reports whether two lists have the same groups in any order.
func sameKeys(a, b []types.NamespacedName) bool {
	byName := func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }
	slices.SortFunc(a, byName)
	slices.SortFunc(b, byName)
	return slices.Equal(a, b)
}

// The assignments in a Groups are the given slots that were not released. Otherwise
// the matcher would keep slots that no pod has, or give a slot out twice.
func TestAssignmentsEqualUnreleasedSlots(t *testing.T) {
	for seed := range trials.Seeds(300) {
		c := &randomHistory{
			Groups: New(seenOwners{}, match.PolicyLonode), Rand: rand.New(rand.NewPCG(seed, 0)), now: noon,
			pods: map[string]*corev1.Pod{}, slots: map[slotID]bool{}, seen: map[string]bool{},
		}
		for step := range 200 {
			if c.step(); c.stale {
				t.Fatalf("seed %d: a departure is out of date at once in step %d", seed, step)
			}
			if wrong := cmp.Or(indexMismatch(c.Groups), classMismatch(c.Groups), tallyMismatch(c.Groups)); wrong != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, wrong)
			}
			maps.DeleteFunc(c.slots, func(s slotID, _ bool) bool { return c.seen[s.key] })
			assignments := map[slotID]bool{}
			for _, j := range c.Tentative() {
				for _, s := range j.Slots {
					if !c.seen[s.Key] {
						assignments[slotID{j.ID, s.Key}] = true
					}
				}
			}
			if !maps.Equal(assignments, c.slots) {
				t.Fatalf("seed %d, step %d: assignments are %v, given and not given back %v", seed, step, assignments, c.slots)
			}
		}
		for name, pod := range c.pods {
			c.DropPod(pod.UID)
			delete(c.pods, name)
		}
		for i := range randomGroups {
			c.DropPodGroup(types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("g%d", i)})
		}
		if n := len(c.groups) + len(c.members) + len(c.unassignedGroups) + len(c.refusedGroups) + len(c.unconfirmedGroups) + len(c.retries) + len(c.byRelevantEvents) + len(c.yielders) + len(c.jobs) + len(c.classes); n != 0 {
			t.Fatalf("seed %d: %d entries left when all is gone", seed, n)
		}
	}
}
