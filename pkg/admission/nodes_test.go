package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

// labelled gives a node a label.
func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

// tainted gives a node a taint.
func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func notReady(n *corev1.Node) {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			n.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
}

func TestRulesForNodes(t *testing.T) {
	affinity := func(key string, op corev1.NodeSelectorOperator, values ...string) func(*v1alpha1.FluxJob) {
		return func(fj *v1alpha1.FluxJob) {
			fj.Spec.Nodes.Affinity = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}}}
		}
	}
	tolerates := func(key string) func(*v1alpha1.FluxJob) {
		return func(fj *v1alpha1.FluxJob) {
			fj.Spec.Nodes.Tolerations = []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}
		}
	}
	selects := func(fj *v1alpha1.FluxJob) { fj.Spec.Nodes.Selector = map[string]string{"disk": "fast"} }
	cases := map[string]struct {
		n1, n2 func(*corev1.Node)
		job    func(*v1alpha1.FluxJob)
		pods   int32
		want   string
	}{
		"a selector":                   {n2: labelled("disk", "fast"), job: selects, want: "Ready Admitted n2*1"},
		"a selector that fits none":    {job: selects, want: "Waiting NeverFits"},
		"a selector that fits too few": {n2: labelled("disk", "fast"), job: selects, pods: 2, want: "Waiting NeverFits"},
		"an affinity":                  {n1: labelled("arch", "arm"), job: affinity("arch", corev1.NodeSelectorOpNotIn, "arm"), want: "Ready Admitted n2*1"},
		"a taint":                      {n1: tainted("gpu", corev1.TaintEffectNoSchedule), want: "Ready Admitted n2*1"},
		"a taint on all":               {n1: tainted("gpu", corev1.TaintEffectNoSchedule), n2: tainted("gpu", corev1.TaintEffectNoExecute), want: "Waiting NeverFits"},
		"a taint that is tolerated":    {n1: tainted("gpu", corev1.TaintEffectNoSchedule), n2: tainted("gpu", corev1.TaintEffectNoExecute), job: tolerates("gpu"), want: "Ready Admitted n1*1"},
		"a taint that is a wish":       {n1: tainted("gpu", corev1.TaintEffectPreferNoSchedule), want: "Ready Admitted n1*1"},
		"one is cordoned":              {n1: cordoned, want: "Ready Admitted n2*1"},
		"one of two is cordoned":       {n1: cordoned, pods: 2, want: "Waiting NodesDown"},
		"cordons are tolerated":        {n1: cordoned, n2: cordoned, job: tolerates(corev1.TaintNodeUnschedulable), want: "Ready Admitted n1*1"},
		"all are cordoned":             {n1: cordoned, n2: cordoned, want: "Waiting NodesDown"},
		"a node under pressure":        {n1: tainted(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule), n2: tainted("gpu", corev1.TaintEffectNoSchedule), want: "Waiting NodesDown"},
		"one of two is not ready":      {n1: notReady, pods: 2, want: "Waiting NodesDown"},
		"one is not ready":             {n1: notReady, want: "Ready Admitted n2*1"},
	}
	for name, tc := range cases {
		for _, policy := range []func(string, ...func(*v1alpha1.Queue)) *v1alpha1.Queue{easy, fcfs} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, 2, policy("batch"))
				r.step()
				for node, edit := range map[string]func(*corev1.Node){"n1": tc.n1, "n2": tc.n2} {
					if edit != nil {
						r.changeNode(node, edit)
					}
				}
				job := tc.job
				if job == nil {
					job = func(*v1alpha1.FluxJob) {}
				}
				r.submit("a", "batch", max(1, tc.pods), 4, "1h", job)
				r.step()
				r.shows("a: " + tc.want)
				if !strings.HasPrefix(tc.want, "Waiting") {
					return
				}
				// It runs once the nodes are well again.
				for _, node := range []string{"n1", "n2"} {
					r.changeNode(node, func(n *corev1.Node) {
						n.Labels["disk"] = "fast"
						n.Spec.Taints, n.Spec.Unschedulable = nil, false
						n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
					})
				}
				r.step()
				if r.job(keyOf(ns, "a")).Status.Allocation == nil {
					t.Errorf("it does not run though its nodes are well: %s", r.message(keyOf(ns, "a")))
				}
			})
		}
	}
}

func TestTheNodesOfQueues(t *testing.T) {
	requires := func(value string) func(*v1alpha1.Queue) {
		return func(q *v1alpha1.Queue) {
			q.Spec.Requires = &metav1.LabelSelector{MatchLabels: map[string]string{"partition": value}}
		}
	}
	newer := func(q *v1alpha1.Queue) { q.CreationTimestamp = metav1.NewTime(begin.Add(time.Hour)) }
	r := newRig(t, 3, easy("a", requires("a")), easy("b", requires("b")), easy("more-b", requires("b")))
	r.changeNode("n1", labelled("partition", "a"))
	r.changeNode("n2", labelled("partition", "b"))
	r.submit("x", "b", 1, 4, "1h")
	r.submit("y", "more-b", 1, 4, "1h")
	r.submit("z", "a", 2, 4, "1h")
	r.step()
	r.shows("x: Ready Admitted n2*1", "y: Waiting Promised 1 from 1h0m1s", "z: Waiting NeverFits")
	ready := func(name string) string {
		s := r.api.statuses[name]
		if s == nil {
			return ""
		}
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
		return string(c.Status) + " " + c.Reason
	}
	r.putQueue(easy("all", newer))
	r.putQueue(easy("c", requires("c")))
	r.after(tick)
	for name, want := range map[string]string{"a": "True Ready", "b": "True Ready", "more-b": "True Ready", "all": "False NodesOverlap", "c": "False NoNodes"} {
		if got := ready(name); got != want {
			t.Errorf("queue %s: %s, want %s", name, got, want)
		}
	}
	if c := r.api.statuses["all"].Conditions[0]; !strings.Contains(c.Message, "belongs to Queue") {
		t.Errorf("the message is %q", c.Message)
	}
	if c := r.api.statuses["c"].Conditions[0]; c.Message != "spec.requires: no node has the labels partition=c" {
		t.Errorf("the message is %q", c.Message)
	}
	// It has all nodes for itself when the others are gone.
	for _, name := range []string{"a", "b", "more-b"} {
		r.must(r.d.loop.queues.Delete(r.d.loop.queues.list()[name]))
	}
	r.after(tick)
	if got := ready("all"); got != "True Ready" {
		t.Errorf("queue all: %s", got)
	}
	r.edit(keyOf(ns, "z"), func(fj *v1alpha1.FluxJob) { fj.Spec.Queue = "all" })
	r.step()
	r.shows("x: Ready Admitted n2*1", "y: Waiting NoQueue", "z: Ready Admitted n[1,3]*1")
}

func TestAQueueOfTwoLimitsThatAreZeroAlwaysSaysTheSame(t *testing.T) {
	q := easy("batch", func(q *v1alpha1.Queue) {
		q.Spec.Limits.Running, q.Spec.Limits.PerNamespace.Running = new(int32(0)), new(int32(0))
	})
	for range 50 {
		if got := readQueue(q).message; got != "spec.limits.running is 0" {
			t.Fatalf("it says %q", got)
		}
	}
}

func TestAQueueThatNobodyMayUseSaysSo(t *testing.T) {
	nobody := easy("batch", func(q *v1alpha1.Queue) { q.Spec.NamespaceSelector = nil })
	r := newRig(t, 1, nobody)
	r.submit("a", "batch", 1, 4, "10m")
	r.step()
	r.shows("a: Requested NotAllowed")
	r.after(tick)
	if want := []string{"NotAllowed FluxJob a", "NotAllowed Job a"}; !slices.Equal(r.events, want) {
		t.Errorf("the events are %q, want %q", r.events, want)
	}
	if c := r.api.statuses["batch"].Conditions[0]; c.Reason != v1alpha1.ReasonNoneMayRun || !strings.HasPrefix(c.Message, "spec.namespaceSelector is not set") {
		t.Errorf("the queue says %s: %s", c.Reason, c.Message)
	}
}

func TestSetsOfNodesAreBounded(t *testing.T) {
	const nodes, most = 8192, maxVerdicts / 8192
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for i := range nodes {
		if err := store.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n" + strconv.Itoa(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	f := &fleet{nodes: corelisters.NewNodeLister(store), sets: map[setKey]*hostSet{}}
	for i := range most + 1 {
		f.set(&partition{}, &nodeRules{name: strconv.Itoa(i)})
		if len(f.sets) > most {
			t.Fatalf("there are %d sets of %d nodes, want at most %d", len(f.sets), nodes, most)
		}
	}
	if len(f.sets) != most {
		t.Errorf("there are %d sets, want as many as there may be, %d", len(f.sets), most)
	}
}

func TestAPromiseMovesLaterOnlyForAReason(t *testing.T) {
	r := newRig(t, 3, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "10m")
	c := r.submit("c", "batch", 1, 4, "60m")
	r.step()
	r.release(a, c)
	wide := r.submit("w", "batch", 2, 4, "10m")
	r.step()
	r.shows("a: Running Admitted n1*1", "c: Running Admitted n2*1", "w: Waiting Promised 2 from 10m1s")
	r.changeNode("n3", cordoned)
	r.step()
	if p := r.job(wide).Status.Promise; p == nil || p.Why != "node n3 is cordoned" || p.At.Sub(begin) < time.Hour {
		t.Errorf("the promise is %+v, want a later one because n3 is cordoned", p)
	}
	if got := r.message(wide); !strings.Contains(got, "later than before: node n3 is cordoned") {
		t.Errorf("the message is %q", got)
	}
	r.changeNode("n3", func(n *corev1.Node) { n.Spec.Unschedulable = false })
	r.step()
	if p := r.job(wide).Status.Promise; p == nil || p.Why != "" || p.At.Sub(begin) > 11*time.Minute {
		t.Errorf("the promise is %+v, want the earlier one again", p)
	}
	// One of a higher priority takes the room.
	r.submit("u", "batch", 1, 4, "20m", func(fj *v1alpha1.FluxJob) { fj.Spec.Priority = 9 })
	r.step()
	if p := r.job(wide).Status.Promise; p == nil || p.Why != "job u, which is before it, was given its room" {
		t.Errorf("the promise is %+v, want it later because of u", p)
	}
}

func TestAPromiseStandsWhileWhatIsInItsWayIsPastItsEnd(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "10m")
	b := r.submit("b", "batch", 1, 4, "10m")
	r.step()
	r.release(a)
	from := r.job(b).Status.Promise.At
	for range 5 {
		r.after(150 * time.Second)
	}
	if p := r.job(b).Status.Promise; p == nil || !p.At.Equal(&from) {
		t.Errorf("the promise has moved from %s to %+v", from, p)
	}
	r.finish(a)
	r.shows("a: Finished Admitted n1*1", "b: Ready Admitted n1*1")
}

// For a moment room is left for pods to come. That room has no end, and the first job of a queue has its promise all the same.
func TestAPromiseStandsWhileRoomIsLeftToOthers(t *testing.T) {
	for name, at := range map[string]struct {
		after time.Duration
		then  string
	}{
		"before its time":        {5 * time.Minute, "15m1s"},
		"when its time has come": {10*time.Minute + time.Second + 50*time.Millisecond, "20m2s"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2, easy("batch"))
			a := r.submit("a", "batch", 1, 4, "10m")
			r.step()
			r.release(a)
			r.submit("large", "batch", 2, 4, "10m")
			r.submit("longer", "batch", 1, 4, "30m")
			r.step()
			r.shows("a: Running Admitted n1*1", "large: Waiting Promised 2 from 10m1s", "longer: Waiting NoRoom")
			r.after(at.after)
			left := translate.HeldSlot(objects.Pod("left", objects.CPU("4"), objects.OnNode("n1")))
			r.claims.Expected = []match.Slot{left}
			r.finish(a)
			r.shows("a: Finished Admitted n1*1", "large: Waiting Promised 2 from 10m1s", "longer: Waiting NoRoom")
			r.claims = Claims{}
			r.d.RoomFreed()
			r.step()
			r.shows("a: Finished Admitted n1*1", "large: Ready Admitted n[1-2]*1", "longer: Waiting Promised 1 from "+at.then)
		})
	}
}

func TestWithoutAnEndThereIsNoPromise(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	r.submit("a", "batch", 1, 4, "inf")
	b := r.submit("b", "batch", 1, 4, "10m")
	r.step()
	r.shows("a: Ready Admitted n1*1", "b: Waiting NoRoom")
	if got := r.message(b); !strings.Contains(got, "room for 0") {
		t.Errorf("the message is %q", got)
	}
}

func TestTheMatcherIsLost(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "10m")
	r.step()
	r.submit("b", "batch", 1, 4, "10m")
	r.step()
	epoch := r.epoch
	r.epoch = 0
	r.d.Observe(inventory.Change{Kind: inventory.Lost})
	r.finish(a)
	r.submit("c", "batch", 1, 4, "10m")
	r.step()
	r.shows("a: Finished Admitted n1*1", "b: Waiting Promised 1 from 10m1s", "c: Requested")
	r.epoch = epoch
	r.reload()
	r.step()
	r.shows("a: Finished Admitted n1*1", "b: Ready Admitted n1*1", "c: Waiting Promised 1 from 10m1s")
	r.holds("(c)@n1 b@n1")
	// It was restarted, and this is not known yet.
	stale := r.epoch
	r.reload()
	fresh := r.epoch
	r.epoch = stale
	r.d.RoomFreed()
	r.step()
	r.epoch = fresh
	r.after(11 * time.Second)
	r.holds("(c)@n1 b@n1")
}

func TestLimitsOfAQueue(t *testing.T) {
	r := newRig(t, 8, easy("batch", func(q *v1alpha1.Queue) {
		q.Spec.Limits.Running = new(int32(2))
		q.Spec.Limits.Pending = new(int32(2))
	}), easy("cores", func(q *v1alpha1.Queue) {
		q.Spec.Limits.Requests = corev1.ResourceList{corev1.ResourceCPU: *quantity("6")}
	}))
	a := r.submit("a", "batch", 1, 1, "1h")
	r.submit("b", "batch", 1, 1, "1h")
	r.step()
	r.submit("c", "batch", 1, 1, "1h")
	r.submit("d", "batch", 1, 1, "1h")
	r.submit("e", "batch", 1, 1, "1h")
	r.submit("k", "cores", 1, 4, "1h")
	r.submit("l", "cores", 1, 4, "1h")
	r.step()
	r.shows("a: Ready Admitted n1*1", "b: Ready Admitted n1*1", "c: Waiting LimitReached", "d: Waiting LimitReached", "e: Requested LimitReached",
		"k: Ready Admitted n2*1", "l: Waiting LimitReached")
	for key, want := range map[string]string{
		"c": "spec.limits.running of Queue batch is 2: 2 are used, and it needs 1",
		"e": "2 jobs wait in Queue batch already, as many as its spec.limits.pending",
		"l": "spec.limits.requests.cpu of Queue cores is 6: 4 are used, and it needs 4",
	} {
		if got := r.message(keyOf(ns, key)); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	r.release(a)
	r.finish(a)
	r.after(tick)
	r.shows("a: Finished Admitted n1*1", "b: Ready Admitted n1*1", "c: Ready Admitted n1*1", "d: Waiting LimitReached", "e: Waiting LimitReached",
		"k: Ready Admitted n2*1", "l: Waiting LimitReached")
	r.editQueue("batch", func(q *v1alpha1.Queue) { q.Spec.Limits.Running = nil })
	r.step()
	r.after(tick)
	s := r.api.statuses["batch"]
	if s == nil || s.Pending != 0 || s.Running != 4 || s.Used.Cpu().String() != "4" {
		t.Errorf("the status of the queue is %+v", s)
	}
}

func TestJobsThatAQueueCannotTakeLeaveItsPlacesToOthers(t *testing.T) {
	r := newRig(t, 1, easy("batch", func(q *v1alpha1.Queue) { q.Spec.Limits.Pending = new(int32(1)) }))
	a := r.submit("a", "batch", 1, 4, "1h")
	r.step()
	r.submit("b", "batch", 1, 4, "1h")
	bad := r.submit("c", "batch", 1, 4, "1h")
	r.submit("d", "batch", 1, 4, "1h")
	r.step()
	r.shows("a: Ready Admitted n1*1", "b: Waiting Promised 1 from 1h0m1s", "c: Requested LimitReached", "d: Requested LimitReached")
	r.edit(bad, func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = "soon" })
	r.step()
	r.shows("a: Ready Admitted n1*1", "b: Waiting Promised 1 from 1h0m1s", "c: Requested InvalidDuration", "d: Requested LimitReached")
	r.release(a)
	r.finish(a)
	for range 3 {
		r.after(tick)
	}
	r.shows("a: Finished Admitted n1*1", "b: Ready Admitted n1*1", "c: Requested InvalidDuration", "d: Waiting Promised 1 from 1h0m1s")
}

func TestWhyAPromiseMovesIsKnownUntilAllHaveAsked(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	r.submit("a", "batch", 1, 4, "1h")
	b := r.submit("b", "batch", 1, 4, "1h")
	r.step()
	r.submit("c", "batch", 1, 1, "1h")
	r.d.loop.takeJobs(r.now)
	l := r.d.loop.teller
	l.overlapped[b] = overlap{why: "a pod has come"}
	if l.decided(nil, false, r.now); !l.overlapped[b].until.IsZero() {
		t.Error("it is forgotten soon after a pass that has ended before all have asked")
	}
	if r.step(); l.overlapped[b].until.IsZero() {
		t.Error("it counts for ever")
	}
	r.after(overlapLasts + time.Second)
	r.d.RoomFreed()
	if r.step(); len(l.overlapped) > 0 {
		t.Errorf("these are known for ever: %v", l.overlapped)
	}
}

func TestAJobIsWrittenFewTimes(t *testing.T) {
	const jobs = 500
	r := newRig(t, 1, easy("batch"))
	for i := range jobs {
		r.submit(fmt.Sprintf("j%03d", i), "batch", 1, 4, "10m")
	}
	r.step()
	for range 20 {
		r.after(5 * time.Second) // each of them is looked at
	}
	if n := r.api.writes; n > jobs+5 {
		t.Errorf("%d jobs were written %d times", jobs, n)
	}
	before := r.api.writes
	for i := range 20 {
		r.finish(keyOf(ns, fmt.Sprintf("j%03d", i)))
		for range 3 {
			r.after(10 * time.Second)
		}
	}
	if n := r.api.writes - before; n > 20*4 {
		t.Errorf("20 jobs ended one after another, and %d writes were made", n)
	}
}

func TestAnAllocationThatIsTooLargeToBeWritten(t *testing.T) {
	m := &asker{}
	r := newRig(t, 1, easy("batch"))
	r.submit("a", "batch", 1, 4, "1h")
	r.step()
	*m = *r.d.loop.asker
	m.begin(r.Context(), r.epoch, r.now)
	var slots []match.Slot
	for i := range 9000 {
		slots = append(slots, match.Slot{Key: "k", Node: fmt.Sprintf("%d-a-rather-long-name-that-is-no-list-%d.example", i, i*7919)})
	}
	answer := m.granted(&question{class: &class{}, Request: match.Request{ID: 5}}, &match.Allocation{Slots: slots})
	if answer.Verdict != queue.Never || !strings.Contains(answer.Message, "9000 nodes") {
		t.Errorf("the answer is %+v", answer)
	}
}

func TestAPodOfOthersTakesWhatWasPromised(t *testing.T) {
	for name, matcherFirst := range map[string]bool{"the matcher knows first": true, "the driver knows first": false} {
		t.Run(name, func(t *testing.T) { podOfOthersComes(t, matcherFirst) })
	}
}

func podOfOthersComes(t *testing.T, matcherFirst bool) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "10m")
	b := r.submit("b", "batch", 2, 4, "10m")
	r.step()
	r.release(a)
	if got := r.message(b); !strings.Contains(got, "; needs 2 pods with cpu 4; room for 1: ") {
		t.Errorf("the message has no numbers: %q", got)
	}
	from := r.job(b).Status.Promise.At
	pod := objects.Pod("daemon", objects.In(ns), objects.OnNode("n2"), objects.CPU("1"))
	held := translate.HeldSlot(pod)
	held.R.Expiration = begin.Add(time.Hour)
	if !matcherFirst {
		r.d.podChanged(nil, pod)
		r.step()
	}
	r.must(r.engine.Update(r.Context(), r.epoch, match.Job{ID: 99, Slots: []match.Slot{held}}))
	if matcherFirst {
		r.d.podChanged(nil, pod)
	}
	r.d.RoomFreed()
	r.step()
	if p := r.job(b).Status.Promise; p == nil || !p.At.After(from.Time) || p.Why != "pod daemon has come to node n2" {
		t.Errorf("the promise is %+v, before from %s", p, from)
	}
	// A pod that is in no job's way changes nothing.
	before := r.job(b).ResourceVersion
	other := objects.Pod("other", objects.In("elsewhere"), objects.OnNode("n1"), objects.CPU("1"))
	r.d.podChanged(nil, other)
	r.step()
	if after := r.job(b).ResourceVersion; after != before {
		t.Errorf("the job was written again: %+v", r.job(b).Status)
	}
}
