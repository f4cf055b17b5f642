package podgroup

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A resumer is a controller whose API server has owners that the scheduler has suspended.
type resumer struct {
	*testing.T
	*reconciler
}

// newResumer returns a controller that has these objects in its cache. The API server has the pods elsewhere too.
func newResumer(t *testing.T, elsewhere []*corev1.Pod, objs ...client.Object) *resumer {
	t.Helper()
	r := nativeReconciler(t, objs...)
	r.metrics, _ = newControllerMetrics(prometheus.NewRegistry())
	r.live = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		// The fake client knows only selectors for one value of an indexed field.
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var of client.ListOptions
			of.ApplyOptions(opts)
			if err := c.List(ctx, list, client.InNamespace(of.Namespace)); err != nil {
				return err
			}
			pods := list.(*corev1.PodList)
			for _, pod := range elsewhere {
				pods.Items = append(pods.Items, *pod)
			}
			pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
				return of.FieldSelector != nil && !of.FieldSelector.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName, "status.phase": string(p.Status.Phase)})
			})
			return nil
		},
	})
	return &resumer{t, r}
}

// reconcileGroups reconciles groups once each. It returns the shortest time after which one is due again. The fake client
// cannot write every status.
func (r *resumer) reconcileGroups(names ...string) (again time.Duration) {
	r.Helper()
	for _, name := range names {
		result, err := r.Reconcile(r.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}})
		if err != nil {
			r.Log(name, err)
		}
		again = sooner(again, result.RequeueAfter)
	}
	return again
}

// owner returns whether an object is suspended, and its annotation.
func (r *resumer) owner(obj client.Object) (suspended bool, annotation string) {
	r.Helper()
	now := &unstructured.Unstructured{}
	gvk, err := r.client.GroupVersionKindFor(obj)
	if err != nil {
		r.Fatal(err)
	}
	now.SetGroupVersionKind(gvk)
	if err := r.client.Get(r.Context(), client.ObjectKeyFromObject(obj), now); err != nil {
		r.Fatal(err)
	}
	suspended, _, _ = unstructured.NestedBool(now.Object, "spec", "suspend")
	return suspended, now.GetAnnotations()[group.SuspendedForAnnotation]
}

func nameOfOwner(apiVersion, kind, name string, uid types.UID) string {
	return group.OwnerOf(metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid}).PodGroupName()
}

// ownTrain is the name of the group of Job train.
var ownTrain = nameOfOwner("batch/v1", "Job", "train", "job-uid")

func madeRoom(j *batchv1.Job) {
	j.Spec.Suspend, j.Annotations = new(true), map[string]string{group.SuspendedForAnnotation: group.SuspensionFor("u-1", j.UID)}
}

// operatorOwner is an owner of a kind that is not watched, with metadata as the scheduler leaves it.
func operatorOwner(apiVersion, kind, name string, suspended, annotated bool) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": map[string]any{"suspend": suspended}}}
	named(obj, name)
	if annotated {
		obj.SetAnnotations(map[string]string{group.SuspendedForAnnotation: group.SuspensionFor("u-1", obj.GetUID())})
	}
	return obj
}

// A Job is resumed by itself: neither the kind of its group nor the scheduler of its pods counts.
func TestAJobIsResumedWhateverItsGroupIs(t *testing.T) {
	ofNative := func(j *batchv1.Job) {
		j.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("n")}
	}
	cases := map[string]*batchv1.Job{
		"its pods may be of a native PodGroup": job(1, madeRoom),
		"its pods are of a native PodGroup":    job(1, madeRoom, ofNative),
		"its pods are of a labelled group":     job(1, madeRoom, func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{group.Label: "crew"} }),
		"its pods ask for another scheduler":   job(1, madeRoom, func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = "another" }),
	}
	for name, j := range cases {
		t.Run(name, func(t *testing.T) {
			r := newResumer(t, nil, j, nativePodGroup(0))
			for _, req := range r.requestsOfPodOwner(t.Context(), j) {
				r.reconcileGroups(req.Name)
			}
			if suspended, annotation := r.owner(j); suspended || annotation != "" {
				t.Errorf("suspended %t, annotation %q", suspended, annotation)
			}
			if all := r.events.(*eventReasons).all; !slices.Contains(all, reason.Resumed) {
				t.Errorf("events %v, want one that says that the Job is resumed", all)
			}
		})
	}
}

// A Job in a queue starts when it is its turn: it stays suspended, and waits.
func TestAJobInAQueueIsLeftToTheQueue(t *testing.T) {
	j := job(1, madeRoom)
	r := newResumer(t, nil, j)
	r.config.Queued = func(owner *unstructured.Unstructured) bool { return owner.GetName() == j.Name }
	r.reconcileGroups(ownTrain)
	suspended, annotation := r.owner(j)
	var after batchv1.Job
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(j), &after); err != nil {
		t.Fatal(err)
	}
	if since := group.ParseQueued(after.Annotations[group.QueuedAnnotation]).Since; !suspended || annotation != "" || since.IsZero() {
		t.Errorf("suspended %t, annotations %v, want it to wait in its queue", suspended, after.Annotations)
	}
	if all := r.events.(*eventReasons).all; slices.Contains(all, reason.Resumed) {
		t.Errorf("events %v, want none that it is resumed", all)
	}
}

// While the eviction goes on the Job stays suspended, and the controller looks again, because it sees no
// event of a pod of another scheduler.
func TestAJobIsNotResumedBeforeItHasMadeRoom(t *testing.T) {
	marked := func(name string, age time.Duration) client.Object {
		pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "pg-uid"}}
		meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{Type: eviction.ConditionPreempted, Status: metav1.ConditionTrue, Reason: reason.Preempted, LastTransitionTime: metav1.NewTime(now.Add(-age))})
		return pg
	}
	foreign := func(p *corev1.Pod) { p.Spec.SchedulerName = "another" }
	cases := map[string]struct {
		objs      []client.Object
		elsewhere []*corev1.Pod
		resumed   bool
	}{
		"a pod is on its node":                                {objs: objectsOf(pods(1, bound, ofTrain))},
		"a pod of another scheduler is":                       {elsewhere: pods(1, bound, foreign, ofTrain)},
		"a pod of a labelled group is":                        {objs: objectsOf(pods(1, bound, ofTrain, labelled(group.Label, "crew")))},
		"the scheduler has not said so":                       {objs: []client.Object{marked(ownTrain, time.Second)}},
		"the scheduler has not said so of its labelled group": {objs: []client.Object{marked("crew", time.Second)}},
		"the scheduler has not said so for long":              {objs: []client.Object{marked(ownTrain, 2*time.Minute)}, resumed: true},
		"its pods have ended, or have no nodes":               {objs: objectsOf(pods(1, in(corev1.PodFailed), ofTrain)), elsewhere: slices.Concat(pods(1, in(corev1.PodSucceeded), foreign, ofTrain), pods(1, foreign, ofTrain)), resumed: true},
		"a pod of another Job is on its node":                 {elsewhere: pods(1, bound, ownedBy("batch/v1", "Job", "train", "later-uid")), resumed: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := job(1, madeRoom, func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{group.Label: "crew"} })
			r := newResumer(t, tc.elsewhere, append(tc.objs, j)...)
			again := r.reconcileGroups(ownTrain)
			if suspended, _ := r.owner(j); suspended == tc.resumed || suspended && (again == 0 || again > resumeCheckInterval) {
				t.Errorf("suspended %t, and looked at again after %v", suspended, again)
			}
		})
	}
}

// An owner above Jobs is resumed when the pods of all of them have gone, in whatever groups they are, and whether or not
// there is a PodGroup.
func TestAnOwnerAboveJobsIsResumedWhenAllOfThemHaveMadeRoom(t *testing.T) {
	below := func(name, crew string) *batchv1.Job {
		j := controlled(named(job(1), name), "jobset.x-k8s.io/v1alpha2", "JobSet", "set", "set-uid")
		j.Spec.Suspend, j.Spec.Template.Labels = new(true), map[string]string{group.Label: crew}
		return j
	}
	alone := operatorOwner("jobset.x-k8s.io/v1alpha2", "JobSet", "set", true, true)
	train := operatorOwner("trainer.kubeflow.org/v1alpha1", "TrainJob", "fit", true, true)
	of := controlled(operatorOwner("jobset.x-k8s.io/v1alpha2", "JobSet", "set", true, false), "trainer.kubeflow.org/v1alpha1", "TrainJob", "fit", train.GetUID())
	for name, owners := range map[string][]client.Object{"a JobSet": {alone}, "a TrainJob": {train, of}} {
		t.Run(name, func(t *testing.T) {
			last := pods(1, bound, ownedBy("batch/v1", "Job", "a", "a-uid"), labelled(group.Label, "crew-a"))[0]
			r := newResumer(t, nil, append(owners, below("a", "crew-a"), below("b", "crew-b"), last)...)
			groups := []string{"crew-a", "crew-b", nameOfOwner("jobset.x-k8s.io/v1alpha2", "JobSet", "set", "set-uid")}
			r.reconcileGroups(groups...)
			if suspended, _ := r.owner(owners[0]); !suspended {
				t.Error("it is resumed while a pod of one of its groups is on a node")
			}
			r.pods.remove(last)
			if err := r.client.Delete(t.Context(), last); err != nil {
				t.Fatal(err)
			}
			r.reconcileGroups(groups...)
			if suspended, annotation := r.owner(owners[0]); suspended || annotation != "" {
				t.Errorf("suspended %t, annotation %q", suspended, annotation)
			}
			if len(owners) > 1 {
				if suspended, _ := r.owner(owners[1]); !suspended {
					t.Error("the JobSet is resumed too: that is up to the operator of the TrainJob")
				}
			}
		})
	}
}

// Who resumes an owner himself may suspend it later, and it stays so.
func TestAnOwnerThatSomebodyElseHasResumedStaysAsItIs(t *testing.T) {
	child := controlled(named(job(1), "a"), "jobset.x-k8s.io/v1alpha2", "JobSet", "set", "set-uid")
	child.Spec.Suspend, child.Status.Conditions = new(false), []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse}}
	cases := map[string]struct {
		owner client.Object
		below []client.Object
		name  string
	}{
		"a Job":    {owner: job(1, madeRoom, func(j *batchv1.Job) { j.Spec.Suspend = new(false) }), name: ownTrain},
		"a JobSet": {owner: operatorOwner("jobset.x-k8s.io/v1alpha2", "JobSet", "set", false, true), below: []client.Object{child}, name: nameOfOwner("jobset.x-k8s.io/v1alpha2", "JobSet", "set", "set-uid")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newResumer(t, nil, append(tc.below, tc.owner)...)
			r.reconcileGroups(tc.name)
			if suspended, annotation := r.owner(tc.owner); suspended || annotation != "" {
				t.Fatalf("suspended %t, annotation %q", suspended, annotation)
			}
			for _, obj := range append(tc.below, tc.owner) {
				if err := r.client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))); err != nil {
					t.Fatal(err)
				}
			}
			r.reconcileGroups(tc.name)
			if suspended, _ := r.owner(tc.owner); !suspended {
				t.Error("it is resumed although a user has suspended it")
			}
		})
	}
}

// An object that is made from a copy of a suspended one has its annotation, and is held by whoever made it.
func TestACopyOfASuspendedOwnerIsNotResumed(t *testing.T) {
	for name, value := range map[string]string{"of another UID": group.SuspensionFor("u-1", "another-uid"), "of none": "u-1"} {
		t.Run(name, func(t *testing.T) {
			j := job(1, madeRoom)
			j.Annotations[group.SuspendedForAnnotation] = value
			r := newResumer(t, nil, j)
			r.reconcileGroups(ownTrain)
			if suspended, annotation := r.owner(j); !suspended || annotation != value {
				t.Errorf("suspended %t, annotation %q", suspended, annotation)
			}
		})
	}
}
