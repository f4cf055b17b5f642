package podgroup

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// inNothing removes the labels of a pod, so that its owner decides its group.
func inNothing(p *corev1.Pod) { p.Labels = nil }

// ownerSpecOf makes the reconciler read an owner with this spec.
func ownerSpecOf(r *reconciler, uid types.UID, spec map[string]any) *scripted {
	owner := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "train"}, "spec": spec}}
	owner.SetUID(uid)
	api := &scripted{obj: owner}
	r.ownerReader.live = api
	return api
}

// templateOf is a pod template of Fluence in the spec of an owner. It names a native PodGroup unless native is empty.
func templateOf(native string, labels map[string]any) map[string]any {
	spec := map[string]any{"schedulerName": "fluence"}
	if native != "" {
		spec["schedulingGroup"] = map[string]any{"podGroupName": native}
	}
	return map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec}
}

// wants returns the minimum that the native PodGroup n and the group that is named
// for an owner want. A minimum is 0 if there is nothing to write or to create.
func wants(t *testing.T, r *reconciler, owner group.Owner) (native, own int32) {
	t.Helper()
	o, err := r.observe(t.Context(), group.NativeKey("ns", "n"))
	if err != nil {
		t.Fatal(err)
	}
	native, _, _ = r.config.decideOnNative(o, nativePodGroup(0), memory{})
	o, err = r.observe(t.Context(), types.NamespacedName{Namespace: "ns", Name: owner.PodGroupName()})
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := r.config.decide(o, memory{}); d.create != nil {
		own = d.create.Spec.MinMember
	}
	return native, own
}

// The workers of a JobSet name a native PodGroup in their template. Its driver does not.
func TestTheTemplatesThatNameANativePodGroupCount(t *testing.T) {
	set := group.Owner{Group: jobSet.Group, Kind: jobSet.Kind, Name: "train", UID: "js-uid"}
	jobOf := func(name, native string, parallelism int32) *batchv1.Job {
		j := controlled(named(&batchv1.Job{}, name), "jobset.x-k8s.io/v1alpha2", "JobSet", "train", "js-uid")
		j.Spec.Parallelism, j.Spec.Template.Spec.SchedulerName = &parallelism, "fluence"
		if native != "" {
			j.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &native}
		}
		return j
	}
	replicated := func(name, native string, replicas, parallelism int64) map[string]any {
		return map[string]any{"name": name, "replicas": replicas, "template": map[string]any{"spec": map[string]any{
			"parallelism": parallelism, "completions": parallelism, "template": templateOf(native, nil),
		}}}
	}
	r := nativeReconciler(t, objectsOf(join(
		nativePods(1, ownedBy("batch/v1", "Job", "workers-0", "workers-0-uid")),
		pods(1, inNothing, ownedBy("batch/v1", "Job", "driver", "driver-uid")),
	), jobOf("workers-0", "n", 4), jobOf("driver", "", 1))...)
	ownerSpecOf(r, "js-uid", map[string]any{"replicatedJobs": []any{replicated("driver", "", 1, 1), replicated("workers", "n", 3, 4)}})
	if native, own := wants(t, r, set); native != 12 || own != 1 {
		t.Errorf("the native PodGroup wants %d and that of the JobSet %d, want 12 workers and 1 driver", native, own)
	}
}

// The Job controller puts its pods into a native PodGroup, and the Job does not say so.
// It makes no more of them if its feature gate is turned off meanwhile.
func TestAPodOfAJobThatNamesNoNativePodGroupIsNoneOfItsPods(t *testing.T) {
	train := group.Owner{Group: "batch", Kind: "Job", Name: "train", UID: "job-uid"}
	gone := func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = new(metav1.NewTime(start)), []string{"a/b"} }
	cases := map[string]struct {
		pods                []*corev1.Pod
		wantNative, wantOwn int32
	}{
		"all pods name it":                   {nativePods(8, ofTrain), 8, 0},
		"a replacement does not":             {join(nativePods(7, ofTrain), pods(1, inNothing, ofTrain)), 7, 1},
		"nor do those of pods that leave":    {join(nativePods(6, ofTrain), nativePods(2, ofTrain, gone), pods(2, inNothing, ofTrain)), 6, 2},
		"the last of those that did is gone": {pods(8, inNothing, ofTrain), 0, 8},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := nativeReconciler(t, objectsOf(tc.pods, job(8))...)
			if native, own := wants(t, r, train); native != tc.wantNative || own != tc.wantOwn {
				t.Errorf("the native PodGroup wants %d and that of the Job %d, want %d and %d", native, own, tc.wantNative, tc.wantOwn)
			}
		})
	}
}

// A pod of one group changes what the other group of its owner is to have.
func TestThePodsOfAnOwnerConcernBothOfItsGroups(t *testing.T) {
	in, out := nativePods(1, ofTrain)[0], pods(1, inNothing, ofTrain)[0]
	r := nativeReconciler(t, job(2), in, out)
	own := group.Owner{Kind: "Job", Name: "train", UID: "job-uid"}.PodGroupName()
	want := requests("ns", []string{own, group.NativeKey("ns", "n").Name})
	for name, pod := range map[string]*corev1.Pod{"in the native PodGroup": in, "in none": out} {
		if got := r.requestsOfPod(t.Context(), pod); !slices.Equal(got, want) {
			t.Errorf("the pod %s concerns %v, want %v", name, got, want)
		}
	}
}

// The templates of a PyTorchJob are in its spec alone. Only the one of its workers has a label.
func TestTheLargestSizeOfTheTemplatesCountsBeforeAllPodsExist(t *testing.T) {
	train := group.Owner{Group: "kubeflow.org", Kind: "PyTorchJob", Name: "train", UID: "pt-uid"}
	ofIt := ownedBy("kubeflow.org/v1", "PyTorchJob", "train", "pt-uid")
	fewer := map[string]any{group.MinLabel: "5"}
	worker := labelled(group.MinLabel, "5")
	cases := map[string]struct {
		native              string
		pods                []*corev1.Pod
		wantNative, wantOwn int32
	}{
		"workers":                       {"", pods(2, func(p *corev1.Pod) { p.Labels = map[string]string{group.MinLabel: "5"} }, ofIt), 0, 9},
		"workers and the master":        {"", join(pods(2, func(p *corev1.Pod) { p.Labels = map[string]string{group.MinLabel: "5"} }, ofIt), pods(1, inNothing, ofIt)), 0, 9},
		"workers of a native PodGroup":  {"n", nativePods(2, worker, ofIt), 9, 0},
		"all pods of the native one":    {"n", join(nativePods(2, worker, ofIt), nativePods(1, ofIt)), 9, 0},
		"the master of the native one":  {"n", nativePods(1, ofIt), 9, 0},
		"the workers alone are in it":   {"workers only", nativePods(2, worker, ofIt), 5, 0},
		"the master alone is not in it": {"workers only", join(nativePods(2, worker, ofIt), pods(1, inNothing, ofIt)), 5, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := nativeReconciler(t, objectsOf(tc.pods)...)
			master, workers := tc.native, tc.native
			if tc.native == "workers only" {
				master, workers = "", "n"
			}
			ownerSpecOf(r, "pt-uid", map[string]any{"pytorchReplicaSpecs": map[string]any{
				"Master": map[string]any{"replicas": int64(1), "template": templateOf(master, nil)},
				"Worker": map[string]any{"replicas": int64(8), "template": templateOf(workers, fewer)},
			}})
			if native, own := wants(t, r, train); native != tc.wantNative || own != tc.wantOwn {
				t.Errorf("the native PodGroup wants %d and that of the PyTorchJob %d, want %d and %d", native, own, tc.wantNative, tc.wantOwn)
			}
		})
	}
}

// A native PodGroup never has a PodGroup of Fluence, so each of its reconciles would read the owner.
func TestTheOwnerOfANativePodGroupIsReadOnceInAWhile(t *testing.T) {
	ofIt := ownedBy("jobset.x-k8s.io/v1alpha2", "JobSet", "train", "js-uid")
	r := nativeReconciler(t, objectsOf(nativePods(2, ofIt), nativePodGroup(0))...)
	api := ownerSpecOf(r, "js-uid", map[string]any{"replicatedJobs": []any{map[string]any{"replicas": int64(2), "template": map[string]any{"spec": map[string]any{"template": templateOf("", nil)}}}}})
	own := group.Owner{Group: jobSet.Group, Kind: jobSet.Kind, Name: "train", UID: "js-uid"}.PodGroupName()
	for range 5 {
		for _, key := range []types.NamespacedName{group.NativeKey("ns", "n"), {Namespace: "ns", Name: own}} {
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if api.reads != 1 {
		t.Errorf("the JobSet was read %d times within %v, want once", api.reads, freshFor)
	}
}

func TestALabelBesideANativePodGroupIsTold(t *testing.T) {
	r := nativeReconciler(t, objectsOf(nativePods(2, labelled(group.Label, "other")), nativePodGroup(2))...)
	recorded := &eventReasons{}
	r.events = recorded
	for range 2 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: group.NativeKey("ns", "n")}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(recorded.all, []string{reason.TwoGroups}) {
		t.Errorf("events %q, want one with the reason %s", recorded.all, reason.TwoGroups)
	}
}
