package podgroup

import (
	"context"
	"slices"
	"strings"
	"testing"

	"golang.org/x/time/rate"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// nativePodGroup is native PodGroup "n". With minCount 0 its policy is basic.
func nativePodGroup(minCount int32, edits ...func(*schedulingv1beta1.PodGroup)) *schedulingv1beta1.PodGroup {
	pg := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: "n-uid"}}
	if minCount > 0 {
		pg.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	} else {
		pg.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	}
	for _, edit := range edits {
		edit(pg)
	}
	return pg
}

// saying annotates a native PodGroup with a minimum.
func saying(n string) func(*schedulingv1beta1.PodGroup) {
	return func(pg *schedulingv1beta1.PodGroup) { pg.Annotations = map[string]string{group.MinMemberAnnotation: n} }
}

// leaving deletes a native PodGroup, which stays until no pod needs it.
func leaving(pg *schedulingv1beta1.PodGroup) {
	pg.DeletionTimestamp, pg.Finalizers = new(metav1.NewTime(start)), []string{"scheduling.k8s.io/podgroup-protection"}
}

// nativePods are n pods in native PodGroup "n".
func nativePods(n int, edits ...func(*corev1.Pod)) []*corev1.Pod {
	return pods(n, append([]func(*corev1.Pod){objects.InNativeGroup("n"), func(p *corev1.Pod) { p.Labels = map[string]string{} }}, edits...)...)
}

// nativeReconciler is a fakeReconciler with native PodGroups.
func nativeReconciler(t *testing.T, objs ...client.Object) *reconciler {
	t.Helper()
	for i, obj := range objs {
		if pod, ok := obj.(*corev1.Pod); ok {
			pod.Name, pod.UID = string(rune('a'+i)), types.UID(rune('a'+i))
		}
	}
	r := fakeReconciler(t, objs...)
	r.native, r.memories, r.passing = &nativeWatch{}, map[types.NamespacedName]memory{}, rate.NewLimiter(rate.Inf, 1)
	r.native.watched.Store(true)
	r.events = &eventReasons{}
	return r
}

// eventReasons records the reasons of events.
type eventReasons struct{ all []string }

func (e *eventReasons) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	e.all = append(e.all, reason)
}

// objectsOf lists objects of several kinds.
func objectsOf(pods []*corev1.Pod, others ...client.Object) []client.Object {
	for _, pod := range pods {
		others = append(others, pod)
	}
	return others
}

func TestTheMinimumOfANativePodGroup(t *testing.T) {
	explicit := func(j *batchv1.Job) {
		j.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{Basic: &schedulingv1alpha3.WorkloadPodGroupBasicSchedulingPolicy{}}}
	}
	minOne := func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{group.MinLabel: "1"} }
	nearlyDone := func(j *batchv1.Job) { j.Spec.Completions, j.Status.Succeeded = new(int32(10)), 7 }
	cases := map[string]struct {
		native *schedulingv1beta1.PodGroup
		job    *batchv1.Job
		pods   []*corev1.Pod
		// want is the annotation; empty means none.
		want string
	}{
		"a Job's pods start together":                     {nativePodGroup(0), job(8), nativePods(1, ofTrain), "8"},
		"a label on the template of the Job":              {nativePodGroup(0), job(8, minOne), nativePods(1, ofTrain), "1"},
		"a Job that asks for basic by name":               {nativePodGroup(0), job(8, explicit), nativePods(1, ofTrain), "1"},
		"a label on the pods":                             {nativePodGroup(0), job(8), nativePods(1, ofTrain, labelled(group.MinLabel, "3")), "3"},
		"a Job that grew":                                 {nativePodGroup(0, saying("4")), job(8), nativePods(1, ofTrain), "8"},
		"a Job that is nearly done":                       {nativePodGroup(0, saying("8")), job(8, nearlyDone), nativePods(1, ofTrain), "3"},
		"it stays when no pod waits":                      {nativePodGroup(0, saying("8")), job(8, nearlyDone), nativePods(1, ofTrain, bound), "8"},
		"an annotation that cannot be read":               {nativePodGroup(0, saying("all")), job(8), nativePods(1, ofTrain), "8"},
		"bare pods beside them":                           {nativePodGroup(0), job(8), join(nativePods(1, ofTrain), nativePods(1)), "8"},
		"bare pods alone ask for none":                    {nativePodGroup(0), job(8), nativePods(2), ""},
		"bare pods with a label":                          {nativePodGroup(0), job(8), nativePods(2, labelled(group.SizeLabel, "2")), "2"},
		"it is being deleted, and its pods need it":       {nativePodGroup(0, leaving), job(8), nativePods(1, ofTrain), "8"},
		"no pods are left":                                {nativePodGroup(0, saying("8")), job(8), nil, ""},
		"a gang of which no pods are left":                {nativePodGroup(8, saying("1")), job(8), nil, ""},
		"the pods of a Job that makes more have ended":    {nativePodGroup(0, saying("8")), job(8), nativePods(1, ofTrain, in(corev1.PodSucceeded)), "8"},
		"pods that have ended":                            {nativePodGroup(0), job(8), nativePods(1, ofTrain, in(corev1.PodSucceeded)), ""},
		"a gang says it itself":                           {nativePodGroup(4), job(8), nativePods(1, ofTrain), ""},
		"a gang of a Job that makes fewer pods than that": {nativePodGroup(8), job(8, nearlyDone), nativePods(1, ofTrain), "3"},
		"an invalid label":                                {nativePodGroup(0), job(8), nativePods(1, ofTrain, labelled(group.MinLabel, "many")), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := nativeReconciler(t, objectsOf(tc.pods, tc.native, tc.job)...)
			recorded := &eventReasons{}
			r.events = recorded
			key := group.NativeKey("ns", "n")
			for range 2 { // the second time nothing is left to do
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
			}
			var after schedulingv1beta1.PodGroup
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(tc.native), &after); err != nil {
				t.Fatal(err)
			}
			if got := after.Annotations[group.MinMemberAnnotation]; got != tc.want {
				t.Errorf("the annotation is %q, want %q", got, tc.want)
			}
			var own scheduling.PodGroupList
			if err := r.client.List(t.Context(), &own); err != nil || len(own.Items) > 0 {
				t.Errorf("PodGroups of Fluence: %+v, %v; want none", own.Items, err)
			}
			if name == "an invalid label" {
				if !slices.Equal(recorded.all, []string{reason.InvalidGroupSize}) {
					t.Errorf("events %q, want one with the reason %s", recorded.all, reason.InvalidGroupSize)
				}
			} else if len(recorded.all) > 0 {
				t.Errorf("events %q, want none", recorded.all)
			}
		})
	}
}

func TestAJobsPodGroupWaitsForAPodWhereNativePodGroupsAreServed(t *testing.T) {
	j := job(2)
	own := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: of(j).key.Name}}
	cases := map[string]struct {
		served bool
		pods   []*corev1.Pod
		want   bool
	}{
		"no pod, and none are served": {false, nil, true},
		"no pod":                      {true, nil, false},
		"a pod":                       {true, pods(1, ofTrain, func(p *corev1.Pod) { p.Labels = nil }), true},
		"a pod in a native PodGroup":  {true, nativePods(1, ofTrain), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := nativeReconciler(t, objectsOf(tc.pods, j.DeepCopy())...)
			r.native.watched.Store(tc.served)
			if _, err := r.Reconcile(t.Context(), own); err != nil {
				t.Fatal(err)
			}
			var made scheduling.PodGroupList
			if err := r.client.List(t.Context(), &made); err != nil || len(made.Items) > 0 != tc.want {
				t.Errorf("PodGroups of Fluence: %+v, %v, want one: %t", made.Items, err, tc.want)
			}
		})
	}
}

// The API was turned on after the controller had made the PodGroup.
func TestAPodGroupGoesWhoseOwnersPodsAreInANativePodGroup(t *testing.T) {
	j := job(2)
	o := of(j).with(podGroup(2, ours, byTrain), nil)
	if d, _ := DefaultConfig().decide(o, settled); d.remove {
		t.Error("a PodGroup is removed before its Job has pods")
	}
	o.inNative = true
	if d, _ := DefaultConfig().decide(o, settled); !d.remove {
		t.Errorf("decide() = %+v, want the PodGroup removed", d)
	}
	o.podGroup = podGroup(2, byTrain)
	if d, _ := DefaultConfig().decide(o, settled); d.remove {
		t.Error("a user's PodGroup is removed")
	}
}

// Without the rights a watch would never sync, and keep the controller from all groups.
func TestNativePodGroupsThatMayNotBeWatchedAreNot(t *testing.T) {
	allowed := map[string]bool{"list": true}
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
		review := obj.(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = allowed[review.Spec.ResourceAttributes.Verb]
		return nil
	}})
	served := discoveryOf{resource: nativegroup.PodGroups}
	n := &nativeWatch{whyDenied: whyNativeDenied(c)}
	if n.canWatch(t.Context(), DefaultConfig(), served) || !strings.Contains(n.lastDenied, "may not watch podgroups.scheduling.k8s.io") {
		t.Errorf("native PodGroups are watched without the right to, or nothing says why: %q", n.lastDenied)
	}
	allowed["watch"] = true
	if !n.canWatch(t.Context(), DefaultConfig(), served) {
		t.Error("native PodGroups are not watched though the controller may")
	}
}

// discoveryOf is an API server that serves one resource. It answers nothing else.
type discoveryOf struct {
	discovery.ServerResourcesInterfaceWithContext
	resource schema.GroupVersionResource
}

func (d discoveryOf) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: d.resource.Resource}}}, nil
}
