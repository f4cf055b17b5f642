package fluence

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestAffectsFilters(t *testing.T) {
	bound := func() *corev1.Pod { return objects.Pod("p", objects.OnNode("n1")) }
	edited := func(edit func(*corev1.Pod)) *corev1.Pod { return objects.Pod("p", objects.OnNode("n1"), edit) }
	cases := map[string]struct {
		old, pod *corev1.Pod
		want     bool
	}{
		"a pod without a node comes":          {nil, objects.Pod("p"), false},
		"a pod without a node changes":        {objects.Pod("p"), objects.Pod("p", objects.InGroup("g")), false},
		"a pod on a node comes":               {nil, bound(), true},
		"a pod is bound":                      {objects.Pod("p"), bound(), true},
		"nothing changes":                     {bound(), bound(), false},
		"it only says what it does":           {bound(), edited(func(p *corev1.Pod) { p.Status.Message = "busy" }), false},
		"it ends":                             {bound(), edited(objects.InPhase(corev1.PodSucceeded)), true},
		"it gets a label that others look at": {bound(), edited(objects.InGroup("g")), true},
		"it begins to end, and is no longer counted by spread constraints": {
			bound(), edited(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := affectsFilters(tc.old, tc.pod); got != tc.want {
				t.Errorf("filters see it: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNodesDifferByWhatAPodCanSee(t *testing.T) {
	cases := map[string]struct {
		edit func(*corev1.Node)
		want bool
	}{
		"nothing":     {func(*corev1.Node) {}, false},
		"a heartbeat": {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Unix(9, 0)) }, false},
		"the same room in other words": {func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("8000m")
		}, false},
		"an annotation":        {func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, false},
		"a cordon":             {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"a taint":              {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} }, true},
		"a label":              {func(n *corev1.Node) { n.Labels["a"] = "b" }, true},
		"room":                 {func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("9") }, true},
		"not ready":            {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"nobody knows":         {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, true},
		"no word of readiness": {func(n *corev1.Node) { n.Status.Conditions = nil }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := objects.ReadyNode("n", 8)
			edited := node.DeepCopy()
			tc.edit(edited)
			if got := nodeDiffers(node, edited); got != tc.want {
				t.Errorf("the nodes differ: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestEventDelayerRunsOnceSettleTimeAfterTheLastEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventDelayer
		start := time.Now()
		var mu sync.Mutex
		var at, other []time.Duration
		note := func() {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
		}
		l.after(t.Context(), gang.NodeChanged, settleTime, note)
		l.after(t.Context(), gang.PodChanged, settleTime, func() { other = append(other, time.Since(start)) })
		time.Sleep(settleTime - time.Millisecond)
		for range 5 {
			l.after(t.Context(), gang.NodeChanged, settleTime, note)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		// An event just before the first run is not yet settled then.
		if want := []time.Duration{settleTime, 2 * settleTime}; !slices.Equal(at, want) {
			t.Errorf("came at %v, want at %v", at, want)
		}
		if want := []time.Duration{settleTime}; !slices.Equal(other, want) {
			t.Errorf("another event came at %v, want at %v", other, want)
		}
		mu.Lock()
		at = nil
		mu.Unlock()
		l.after(t.Context(), gang.PodChanged, settleTime, note)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(at) != 1 {
			t.Errorf("came %d times when it was idle, want once", len(at))
		}
	})
}

// The scheduler's cache receives an event of a node independently of the
// plugin. So a refusal by filters that saw the old state does not last.
func TestARefusalByFiltersFromBeforeAnEventDoesNotLast(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pods := r.gang(2, 2)
		r.node("n1", 8)
		r.pass(settleTime / 2)
		r.matcherFake.Refuse(match.ErrUnsatisfiable, match.Reason{Code: match.NoNode, Wanted: 2})
		_, _, status := r.preFilter(pods[0])
		r.wantHeld(pods[0], status.Message())
		r.pass(settleTime)
		r.wantPasses(pods[0])
	})
}

func TestEventsThatCanHelpWakeGroups(t *testing.T) {
	cases := map[string]struct {
		event  gang.Event
		happen func(*rig)
	}{
		"a node comes": {gang.NodeChanged, func(r *rig) { r.node("n2", 8) }},
		"a node changes": {gang.NodeChanged, func(r *rig) {
			r.updateNode("n1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		}},
		"a node goes": {gang.NodeChanged, func(r *rig) {
			r.must(r.client.CoreV1().Nodes().Delete(r.ctx, "n1", metav1.DeleteOptions{}))
		}},
		"a pod comes to a node": {gang.PodChanged, func(r *rig) { r.pod("new", objects.OnNode("n1")) }},
		"a pod leaves a node":   {gang.PodChanged, func(r *rig) { r.remove("guest") }},
		"a pod of others is bound": {gang.PodChanged, func(r *rig) {
			r.pod("new", objects.OnNode("n1"), func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })
		}},
		"a volume comes": {gang.StorageChanged, func(r *rig) {
			_, err := r.client.CoreV1().PersistentVolumes().Create(r.ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}, metav1.CreateOptions{})
			r.must(err)
		}},
		"a claim comes": {gang.StorageChanged, func(r *rig) {
			_, err := r.client.CoreV1().PersistentVolumeClaims(ns).Create(r.ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
			r.must(err)
		}},
		"something is given back":   {gang.Released, func(r *rig) { r.pl.releases.add(gang.Release{Job: 1}) }},
		"the graph is loaded again": {gang.MatcherBack, func(r *rig) { r.loseGraph() }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.node("n1", 8)
				r.pod("guest", objects.OnNode("n1"))
				waiting := r.pod("waiting")
				r.pass(time.Second)
				plan, _ := r.pl.groups.Plan(waiting.UID, time.Now())
				r.pl.groups.Refuse(plan, gang.Refusal{Message: "no", RetryOn: []gang.Event{tc.event}}, time.Now())
				r.pass(time.Minute)
				r.wantHeld(waiting, "no")
				tc.happen(r)
				r.pass(settleTime) // a change of a node counts once the scheduler's cache has it
				r.wantPasses(waiting)
			})
		})
	}
}

// A pod whose deletion was missed (DeletedFinalStateUnknown) loses
// its assignment (State 6 of the lessons of earlier systems).
func TestMissedDeletionRevokesAssignment(t *testing.T) {
	for name, final := range map[string]func(*corev1.Pod) any{
		"deleted":                     func(p *corev1.Pod) any { return p },
		"deleted while nobody looked": func(p *corev1.Pod) any { return cache.DeletedFinalStateUnknown{Key: ns + "/" + p.Name, Obj: p} },
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.give("n1", "n1")
				pods := r.gang(2, 2)
				r.nodeOf(pods[0])
				r.pl.podGone(r.ctx, "not a pod")
				r.pl.podGone(r.ctx, cache.DeletedFinalStateUnknown{Key: "ns/other"})
				r.pass(0)
				if got := r.matcherFake.Calls(matchtest.Release); len(got) != 0 {
					t.Errorf("releases = %+v, want none", got)
				}
				r.pl.podGone(r.ctx, final(pods[1]))
				r.pass(0)
				if got := r.matcherFake.Calls(matchtest.Release); len(got) != 1 || len(got[0].Keys) != 2 {
					t.Errorf("releases = %+v, want both seats of the group", got)
				}
				r.wantHeld(pods[0], "waits for 1 more pod: has 1 of minMember 2")
			})
		})
	}
}

func TestWaitingGroupIsReportedIfTheReasonLasts(t *testing.T) {
	cases := map[string]struct {
		begin   func(*rig)
		kind    string // of the object with the event
		reason  string
		message string
	}{
		"pods": {
			begin: func(r *rig) { r.gang(3, 2) },
			kind:  "PodGroup", reason: reason.Gathering, message: "waits for 1 more pod: has 2 of minMember 3",
		},
		"all pods": {
			begin: func(r *rig) { r.gang(3, 0) },
			kind:  "PodGroup", reason: reason.Gathering, message: "waits for 3 more pods: has 0 of minMember 3",
		},
		"a level, before there is a PodGroup": {
			begin: func(r *rig) { r.pod("g-0", objects.InGroup(g.Name), annotated(group.TopologyRequiredAnnotation, "no")) },
			kind:  "Pod", reason: reason.InvalidTopology, message: `annotation fluence.flux-framework.org/topology-required: "no": no such level; the levels are node (argument topologyLevels of the scheduler)`,
		},
		"a matcher": {
			begin: func(r *rig) { r.matcher.silence(true); r.pl.breaker.trip(placement.WhyUnavailable); r.pod("lone") },
			kind:  "Pod", reason: reason.MatcherUnavailable, message: placement.WhyUnavailable,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				tc.begin(r)
				r.pass(4*tick - time.Millisecond)
				if got := r.recorder.of(tc.kind); len(got) != 0 {
					t.Errorf("events = %+v, and it may pass yet", got)
				}
				r.pass(time.Minute)
				got := r.recorder.of(tc.kind)
				if len(got) != 1 || got[0].reason != tc.reason || got[0].message != tc.message {
					t.Errorf("events = %+v, want one: %s, %s", got, tc.reason, tc.message)
				}
			})
		})
	}
}

func TestGroupWithoutPodGroupIsReportedOnItsPod(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.pod("g-0", objects.InGroup(g.Name))
		r.pass(time.Minute)
		if got := r.recorder.of("Pod"); len(got) != 1 || got[0].name != "g-0" || got[0].reason != reason.NoPodGroup {
			t.Errorf("events = %+v, want one with reason %s", got, reason.NoPodGroup)
		}
		r.remove("g-0")
		r.pass(time.Minute)
		if got := r.reportedGroups(); len(got) != 0 {
			t.Errorf("news of %v are kept when the pod is gone", got)
		}
	})
}

// After an interrupted watch, one update may turn a pod into the next
// pod of the same name (State 6 of the lessons of earlier systems).
func TestMissedReplacementRevokesAssignment(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.give("n1", "n1")
		pods := r.gang(2, 2)
		r.nodeOf(pods[0])
		successor := pods[1].DeepCopy()
		successor.UID = "successor"
		r.pl.observePod(r.ctx, pods[1], successor)
		r.pass(0)
		if got := r.matcherFake.Calls(matchtest.Release); len(got) != 1 || len(got[0].Keys) != 2 {
			t.Errorf("releases = %+v, want both seats of the group", got)
		}
		if m, ok := r.pl.groups.GroupOf(pods[1].UID); ok {
			t.Errorf("the pod that is gone is still in group %v", m.Key)
		}
	})
}
