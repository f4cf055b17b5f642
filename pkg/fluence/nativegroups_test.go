package fluence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// nativeAPI serves native PodGroups, once it is turned on.
type nativeAPI struct {
	mu      sync.Mutex
	on      bool
	objects map[string]*schedulingv1beta1.PodGroup
	version int
	watches []*io.PipeWriter
	// lists counts the requests. forbidden forbids them, and noWatch all watches.
	lists              int
	forbidden, noWatch bool
	// applied are the conditions of each write.
	applied [][]metav1.Condition
}

func newNativeAPI() *nativeAPI {
	return &nativeAPI{objects: map[string]*schedulingv1beta1.PodGroup{}}
}

// turnOn makes the API server serve native PodGroups.
func (a *nativeAPI) turnOn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.on, a.forbidden, a.noWatch = true, false, false
}

// forbidWatch makes it forbid watches, and no other requests.
func (a *nativeAPI) forbidWatch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.on, a.forbidden, a.noWatch = true, false, true
}

// requests returns how many requests there were.
func (a *nativeAPI) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lists
}

// forbid makes it forbid requests.
func (a *nativeAPI) forbid() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.on, a.forbidden = true, true
}

// put creates a PodGroup or replaces it by another.
func (a *nativeAPI) put(pg *schedulingv1beta1.PodGroup) {
	a.mu.Lock()
	kind := "ADDED"
	if a.objects[pg.Name] != nil {
		kind = "MODIFIED"
	}
	a.version++
	pg = pg.DeepCopy()
	pg.TypeMeta, pg.ResourceVersion = metav1.TypeMeta{APIVersion: nativegroup.GroupVersion.String(), Kind: "PodGroup"}, strconv.Itoa(a.version)
	a.objects[pg.Name] = pg
	watches := slices.Clone(a.watches)
	a.mu.Unlock()
	for _, w := range watches {
		_, _ = w.Write(encode(map[string]any{"type": kind, "object": pg}))
	}
}

// conditionsOfTrain returns the conditions of the PodGroup train, by their types.
func (a *nativeAPI) conditionsOfTrain() map[string]metav1.Condition {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]metav1.Condition{}
	for _, c := range a.objects["train"].Status.Conditions {
		all[c.Type] = c
	}
	return all
}

// RoundTrip lists, watches and applies.
func (a *nativeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	q, resource := r.URL.Query(), nativegroup.PodGroups.GroupResource()
	a.mu.Lock()
	a.lists++
	on, forbidden := a.on, a.forbidden || a.noWatch && q.Get("watch") != ""
	a.mu.Unlock()
	switch {
	case !on:
		return failed(apierrors.NewNotFound(resource, "")), nil
	case forbidden:
		return failed(apierrors.NewForbidden(resource, "", nil)), nil
	case r.Method == http.MethodPatch:
		return a.apply(r), nil
	case q.Get("sendInitialEvents") != "":
		return failed(apierrors.NewInvalid(nativegroup.GroupVersion.WithKind("PodGroup").GroupKind(), "", nil)), nil
	case q.Get("watch") != "":
		reader, writer := io.Pipe()
		a.mu.Lock()
		a.watches = append(a.watches, writer)
		a.mu.Unlock()
		return response(http.StatusOK, reader), nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	list := schedulingv1beta1.PodGroupList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}, Items: []schedulingv1beta1.PodGroup{}}
	list.TypeMeta = metav1.TypeMeta{APIVersion: nativegroup.GroupVersion.String(), Kind: "PodGroupList"}
	for _, pg := range a.objects {
		list.Items = append(list.Items, *pg)
	}
	return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(list)))), nil
}

// apply answers a server-side apply of a status.
func (a *nativeAPI) apply(r *http.Request) *http.Response {
	var body struct {
		Metadata metav1.ObjectMeta
		Status   struct{ Conditions []metav1.Condition }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return failed(apierrors.NewBadRequest(err.Error()))
	}
	a.mu.Lock()
	a.applied = append(a.applied, body.Status.Conditions)
	pg := a.objects[body.Metadata.Name]
	a.mu.Unlock()
	if pg == nil || pg.UID != body.Metadata.UID {
		return failed(otherUID(nativegroup.PodGroups.GroupResource(), body.Metadata.Name))
	}
	pg = pg.DeepCopy()
	pg.Status.Conditions = slices.DeleteFunc(pg.Status.Conditions, func(c metav1.Condition) bool {
		return strings.HasPrefix(c.Type, "fluence.") || strings.HasPrefix(c.Type, "PodGroup")
	})
	pg.Status.Conditions = append(pg.Status.Conditions, body.Status.Conditions...)
	a.put(pg)
	return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(pg))))
}

// nativeGang returns a native PodGroup of which so many pods start together.
func nativeGang(name string, minCount int32, edit ...func(*schedulingv1beta1.PodGroup)) *schedulingv1beta1.PodGroup {
	pg := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(name + "-uid"), Generation: 2, CreationTimestamp: metav1.NewTime(time.Now())}}
	pg.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	for _, e := range edit {
		e(pg)
	}
	return pg
}

// basic gives a native PodGroup the policy basic.
func basic(pg *schedulingv1beta1.PodGroup) {
	pg.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
}

// withMinimum annotates a native PodGroup with a minimum.
func withMinimum(n string) func(*schedulingv1beta1.PodGroup) {
	return func(pg *schedulingv1beta1.PodGroup) { pg.Annotations = map[string]string{group.MinMemberAnnotation: n} }
}

// nativePods creates pods of a native PodGroup.
func (r *rig) nativePods(name string, n int, edit ...func(*corev1.Pod)) []*corev1.Pod {
	r.Helper()
	var pods []*corev1.Pod
	for i := range n {
		pods = append(pods, r.pod(fmt.Sprintf("%s-%d", name, i), append([]func(*corev1.Pod){objects.InNativeGroup(name)}, edit...)...))
	}
	return pods
}

func TestANativeGangStartsAsAWhole(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.native.turnOn()
		r.pass(time.Minute)
		r.node("n", 8)
		r.schedule()
		r.nativePods("train", 3)
		r.pass(time.Second)
		r.native.put(nativeGang("train", 4))
		r.pass(5 * time.Second)
		if got := r.assigned(); len(got) > 0 {
			t.Errorf("assigned %v, want none: a pod is missing", got)
		}
		const gathering = "waits for 1 more pod: has 3 of minCount 4"
		if c := r.native.conditionsOfTrain()["fluence.flux-framework.org/Scheduled"]; c.Reason != reason.Gathering || c.Message != gathering || c.Status != metav1.ConditionFalse || c.ObservedGeneration != 2 {
			t.Errorf("the condition Scheduled is %+v, want %q", c, gathering)
		}
		if c := r.native.conditionsOfTrain()["PodGroupInitiallyScheduled"]; c.Reason != "Unschedulable" || c.Message != "Gathering: "+gathering || c.Status != metav1.ConditionFalse {
			t.Errorf("the condition PodGroupInitiallyScheduled is %+v, want Unschedulable", c)
		}
		r.pod("train-3", objects.InNativeGroup("train"))
		r.pass(5 * time.Second)
		if got := r.assigned(); len(got) != 4 {
			t.Errorf("assigned %v, want four pods", got)
		}
		if got := r.matches(); len(got) != 1 || len(got[0].Keys) != 4 {
			t.Errorf("matches %+v, want one for all pods", got)
		}
		if c := r.native.conditionsOfTrain()["fluence.flux-framework.org/Scheduled"]; c.Reason != reason.Placed || c.Status != metav1.ConditionTrue {
			t.Errorf("the condition Scheduled is %+v, want Placed", c)
		}
		if c := r.native.conditionsOfTrain()["PodGroupInitiallyScheduled"]; c.Reason != "Scheduled" || c.Status != metav1.ConditionTrue {
			t.Errorf("the condition PodGroupInitiallyScheduled is %+v, want True", c)
		}
		r.remove("train-0")
		r.remove("train-1")
		r.remove("train-2")
		r.remove("train-3")
		r.pod("train-4", objects.InNativeGroup("train"))
		r.pass(10 * time.Second)
		all := r.native.conditionsOfTrain()
		if c := all["fluence.flux-framework.org/Scheduled"]; c.Reason != reason.Gathering || c.Status != metav1.ConditionFalse {
			t.Errorf("the condition Scheduled is %+v, want Gathering again", c)
		}
		if c := all["PodGroupInitiallyScheduled"]; c.Status != metav1.ConditionTrue {
			t.Errorf("the condition PodGroupInitiallyScheduled is %+v, want True for ever", c)
		}
		if n := len(r.native.applied); n > 4 {
			t.Errorf("%d writes, want at most four: %+v", n, r.native.applied)
		}
		if n := len(r.podGroupAPI.written()); n > 0 {
			t.Errorf("%d writes onto PodGroups of Fluence, want none", n)
		}
	})
}

func TestWhatHoldsTheGroupOfANativePodGroup(t *testing.T) {
	ofJob := controlledBy("batch/v1", "Job", "train", "job-uid")
	cases := map[string]struct {
		podGroup *schedulingv1beta1.PodGroup
		edit     func(*corev1.Pod)
		want     string
	}{
		"nothing if a gang is complete":            {nativeGang("train", 1), ofJob, ""},
		"too few pods":                             {nativeGang("train", 3), ofJob, "waits for 2 more pods: has 1 of minCount 3"},
		"nothing if an annotation lowers minCount": {nativeGang("train", 3, withMinimum("1")), ofJob, ""},
		"no minimum of the pods of a Job": {nativeGang("train", 1, basic), ofJob,
			"podgroup.scheduling.k8s.io ns/train has the policy basic, which says no minimum, and its annotation fluence.flux-framework.org/min-member does not say one: the controller writes it within seconds"},
		"a minimum in the annotation": {nativeGang("train", 1, basic, withMinimum("2")), ofJob, "waits for 1 more pod: has 1 of the minimum 2"},
		"nothing for bare pods":       {nativeGang("train", 1, basic), func(*corev1.Pod) {}, ""},
		"a tree of PodGroups": {nativeGang("train", 1, func(pg *schedulingv1beta1.PodGroup) { pg.Spec.ParentCompositePodGroupName = new("tree") }), ofJob,
			`spec.parentCompositePodGroupName: "tree": Fluence does not place trees of PodGroups`},
		"claims of the group": {nativeGang("train", 1, func(pg *schedulingv1beta1.PodGroup) {
			pg.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "gpus"}}
		}), ofJob, `spec.resourceClaims: "gpus": Fluence does not allocate claims that the pods of a group share`},
		"a topology that an annotation contradicts": {nativeGang("train", 1, constrained("rack"), func(pg *schedulingv1beta1.PodGroup) {
			pg.Annotations = map[string]string{group.TopologyRequiredAnnotation: "node"}
		}), ofJob, `spec.schedulingConstraints.topology[0].key: "rack" and annotation fluence.flux-framework.org/topology-required: "node": set only one of them`},
		"nothing by a label that is no level": {nativeGang("train", 1, constrained("rack")), ofJob, ""},
		"nothing by a label that is a level":  {nativeGang("train", 1, constrained(corev1.LabelHostname)), ofJob, ""},
		"another priority": {nativeGang("train", 1, func(pg *schedulingv1beta1.PodGroup) { pg.Spec.Priority = new(int32(7)) }), ofJob,
			"pods have priority 0, and podgroup.scheduling.k8s.io ns/train has 7: all pods of such a group must have its priority"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.native.turnOn()
				r.pass(time.Minute)
				r.owners.create("jobs", "train", "job-uid", group.Owner{})
				r.native.put(tc.podGroup)
				pod := r.nativePods("train", 1, tc.edit)[0]
				r.wantHeld(pod, tc.want)
			})
		})
	}
}

// constrained keeps a native PodGroup below one value of a node label.
func constrained(key string) func(*schedulingv1beta1.PodGroup) {
	return func(pg *schedulingv1beta1.PodGroup) {
		pg.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}}}
	}
}

// The label is no level, so the matcher does not know its domains.
func TestThePodsOfANativePodGroupStayInOneDomain(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.native.turnOn()
		r.pass(time.Minute)
		rack := func(name string) func(*corev1.Node) {
			return func(n *corev1.Node) { n.Labels["rack"] = name }
		}
		// The group has room on any two of these nodes. Only rack b has two of them.
		r.node("n0", 2, rack("a"))
		r.node("n1", 4)
		r.node("n2", 2, rack("b"))
		r.node("n3", 3, rack("b"))
		r.node("n4", 2, rack("c"))
		r.schedule()
		r.native.put(nativeGang("train", 4, constrained("rack")))
		r.nativePods("train", 4, objects.CPU("1"))
		r.pass(5 * time.Second)
		want := func(n int) {
			t.Helper()
			got := r.assigned()
			for pod, node := range got {
				if node != "n2" && node != "n3" {
					t.Errorf("pod %s is on node %s, want all pods in rack b", pod, node)
				}
			}
			if len(got) != n {
				t.Errorf("assigned %v, want %d pods", got, n)
			}
		}
		want(4)
		// A late member follows its siblings, and waits if there is no room with them.
		r.pod("train-4", objects.InNativeGroup("train"), objects.CPU("1"))
		r.pass(5 * time.Second)
		want(5)
		r.pod("train-5", objects.InNativeGroup("train"), objects.CPU("1"))
		r.pass(time.Minute)
		want(5)
		const stays = "room for 0: must stay in rack=b, where its 5 other pods run; none of the 2 nodes has free cpu"
		if got := r.podMessage("train-5"); !strings.Contains(got, stays) {
			t.Errorf("the late member says\n%s\nwant\n%s", got, stays)
		}
		// No domain has room for this one, although the nodes have.
		r.native.put(nativeGang("wide", 4, constrained("rack")))
		r.nativePods("wide", 4, objects.CPU("1"))
		r.pass(time.Minute)
		want(5)
	})
}

func TestPodsSayWhyTheirNativePodGroupIsNotKnown(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pod := r.nativePods("train", 1)[0]
		const waits = "waits for podgroup.scheduling.k8s.io ns/train"
		r.wantHeld(pod, waits+": the API server does not serve podgroups.scheduling.k8s.io")
		other := r.pod("other")
		r.wantPasses(other)

		r.native.forbid()
		r.pass(2 * time.Minute)
		r.wantHeld(pod, waits+": the scheduler may not read podgroups.scheduling.k8s.io")
		if n := strings.Count(r.logged(0), "may not read native PodGroups"); n != 1 {
			t.Errorf("the missing right is logged %d times, want once", n)
		}

		r.native.turnOn()
		r.pass(2 * time.Minute)
		r.wantHeld(pod, waits+", which does not exist: create it")
		r.native.put(nativeGang("train", 1))
		r.pass(0)
		r.wantPasses(pod)
	})
}

// Each try of the informer lists, and then may not watch.
func TestARightToListWithoutOneToWatchIsToldOnce(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pod := r.nativePods("train", 1)[0]
		r.native.forbidWatch()
		r.pass(10 * time.Minute)
		r.wantHeld(pod, "waits for podgroup.scheduling.k8s.io ns/train: the scheduler may not read podgroups.scheduling.k8s.io")
		log := r.logged(0)
		if told, taken := strings.Count(log, "may not read native PodGroups"), strings.Count(log, "can be read now"); told != 1 || taken != 0 {
			t.Errorf("the missing right is logged %d times and taken back %d times, want once and never", told, taken)
		}
		r.wantPasses(r.pod("other"))

		r.native.turnOn()
		r.pass(2 * time.Minute)
		r.native.put(nativeGang("train", 1))
		r.pass(0)
		r.wantPasses(pod)
	})
}

func TestAnAPIThatIsNotServedIsAskedForOnceAMinute(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		before := r.native.requests()
		r.pass(time.Hour)
		if n := r.native.requests() - before; n != 60 {
			t.Errorf("%d requests in an hour, want one a minute", n)
		}
		// The API server was restarted, and its watches began anew.
		pod := r.nativePods("train", 1)[0]
		r.native.turnOn()
		r.native.put(nativeGang("train", 1))
		r.podGroupAPI.interrupt()
		r.pass(5 * time.Second)
		r.wantPasses(pod)
	})
}

// A native PodGroup of another scheduler is left alone.
func TestNothingIsWrittenOntoANativePodGroupWithoutPods(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.native.turnOn()
		r.pass(time.Minute)
		r.native.put(nativeGang("others", 4))
		r.pass(time.Minute)
		if len(r.native.applied) > 0 {
			t.Errorf("conditions %+v were written", r.native.applied)
		}
		if got := r.pl.groups.WaitingGroups(); len(got) > 0 {
			t.Errorf("waiting = %+v, want none", got)
		}
	})
}

func TestLittleOfANativePodGroupIsKept(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.native.turnOn()
		r.pass(time.Minute)
		pg := nativeGang("train", 2)
		pg.Labels, pg.Finalizers = map[string]string{"a": "b"}, []string{"a/b"}
		pg.Annotations = map[string]string{"a": "b", group.MatchPolicyAnnotation: "low"}
		pg.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "R"})
		r.native.put(pg)
		r.pass(0)
		kept := r.pl.podGroups.native.get(ns, "train")
		if n := len(kept.Labels) + len(kept.Finalizers) + len(kept.ManagedFields); n > 0 || len(kept.Annotations) != 1 {
			t.Errorf("the scheduler keeps %+v", kept)
		}
	})
}
