package podgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

var jobSet = schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}

// controlled sets the controller of an object.
func controlled[T client.Object](obj T, apiVersion, kind, name string, uid types.UID) T {
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}})
	return obj
}

func named[T client.Object](obj T, name string) T {
	obj.SetNamespace("ns")
	obj.SetName(name)
	obj.SetUID(types.UID(name + "-uid"))
	return obj
}

// The caches of pods and owners are filled independently. Whichever object comes last completes
// the group, and its event concerns the group. On a real API server the order cannot be chosen.
func TestGroupsAreWholeInWhateverOrderTheyAreSeen(t *testing.T) {
	pod := func(name string) *corev1.Pod { return named(&corev1.Pod{}, name) }
	inJob := controlled(pod("a"), "batch/v1", "Job", "job", "job-uid")
	labelledInJob := controlled(pod("b"), "batch/v1", "Job", "job", "job-uid")
	labelledInJob.Labels = map[string]string{group.Label: "crew"}
	ofJobSet := controlled(named(&batchv1.Job{}, "job"), "jobset.x-k8s.io/v1alpha2", "JobSet", "js", "js-uid")
	leader := controlled(pod("lws-0"), "apps/v1", "StatefulSet", "lws", "lws-uid")
	cases := map[string]struct {
		objs             []client.Object
		group            string
		wantPods         []string
		wantTop, wantRef string
	}{
		"a Job's pod": {
			[]client.Object{inJob, named(&batchv1.Job{}, "job")}, group.Owner{Kind: "Job", Name: "job", UID: "job-uid"}.PodGroupName(),
			[]string{"a"}, "Job job", "Job job",
		},
		"a JobSet's pod": {
			[]client.Object{inJob, ofJobSet}, group.Owner{Kind: "JobSet", Name: "js", UID: "js-uid"}.PodGroupName(),
			[]string{"a"}, "JobSet js", "JobSet js",
		},
		"a labelled pod of a JobSet": {
			[]client.Object{labelledInJob, ofJobSet}, "crew", []string{"b"}, "JobSet js", "JobSet js",
		},
		"a Deployment's pods of two ReplicaSets": {
			[]client.Object{
				controlled(pod("a"), "apps/v1", "ReplicaSet", "old", "old-uid"), controlled(pod("b"), "apps/v1", "ReplicaSet", "new", "new-uid"),
				controlled(named(&appsv1.ReplicaSet{}, "old"), "apps/v1", "Deployment", "web", "web-uid"),
				controlled(named(&appsv1.ReplicaSet{}, "new"), "apps/v1", "Deployment", "web", "web-uid"),
			}, group.Owner{Kind: "Deployment", Name: "web", UID: "web-uid"}.PodGroupName(),
			[]string{"a", "b"}, "Deployment web", "Deployment web",
		},
		"a unit of a LeaderWorkerSet": {
			[]client.Object{
				leader, controlled(named(&appsv1.StatefulSet{}, "lws"), "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "big", "big-uid"),
				controlled(named(&appsv1.StatefulSet{}, "workers"), "v1", "Pod", "lws-0", "lws-0-uid"),
				controlled(pod("lws-0-1"), "apps/v1", "StatefulSet", "workers", "workers-uid"),
			}, unit("lws-0", "lws-0-uid").PodGroupName(),
			[]string{"lws-0", "lws-0-1"}, "LeaderWorkerSet lws-0", "Pod lws-0",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for first := range tc.objs {
				order := append(slices.Clone(tc.objs[first:]), tc.objs[:first]...)
				r, ctx := fakeReconciler(t), t.Context()
				var last []string
				for _, obj := range order {
					seen := obj.DeepCopyObject().(client.Object)
					if err := r.client.Create(ctx, seen); err != nil {
						t.Fatal(err)
					}
					r.indexPod(seen)
					requests := r.requestsOfPodOwner(ctx, seen)
					requests = append(requests, r.requestsOfPod(ctx, seen)...)
					last = nil
					for _, req := range requests {
						last = append(last, req.Name)
					}
				}
				if !slices.Contains(last, tc.group) {
					t.Errorf("from %d: the last event concerns %q, want %q", first, last, tc.group)
				}
				f, err := cacheReader{ctx, r.client}.membershipOf(types.NamespacedName{Namespace: "ns", Name: tc.group}, r.pods, "fluence")
				if err != nil {
					t.Fatal(err)
				}
				var pods []string
				for _, p := range r.pods.all(f.pods) {
					pods = append(pods, p.Name)
				}
				slices.Sort(pods)
				if !slices.Equal(pods, tc.wantPods) || f.ownerNotCached || len(f.topOwnerRefs) != 1 {
					t.Fatalf("from %d: pods %q, unseen %t, tops %+v; want %q of one", first, pods, f.ownerNotCached, f.topOwnerRefs, tc.wantPods)
				}
				if got := f.topOwnerRefs[0].owner.Kind + " " + f.topOwnerRefs[0].owner.Name; got != tc.wantTop {
					t.Errorf("top %q, want %q", got, tc.wantTop)
				}
				if got := f.topOwnerRefs[0].ref.Kind + " " + f.topOwnerRefs[0].ref.Name; got != tc.wantRef {
					t.Errorf("reference to %q, want %q", got, tc.wantRef)
				}
			}
		})
	}
}

// Two Jobs are one group by a label. The pods of one of them go to another scheduler.
func TestAJobOfAnotherSchedulerIsNotCounted(t *testing.T) {
	jobOf := func(name, scheduler string, parallelism int32) *batchv1.Job {
		j := named(&batchv1.Job{}, name)
		j.Spec.Parallelism = &parallelism
		j.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{group.Label: "g"}}, Spec: corev1.PodSpec{SchedulerName: scheduler}}
		return j
	}
	ended := jobOf("driver", "", 1)
	ended.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	minimum := jobOf("workers", "fluence", 4)
	minimum.Spec.Template.Labels[group.SizeLabel] = "5"
	cases := map[string]struct {
		objs     []client.Object
		want     string
		wantLack string
	}{
		"both ask for the scheduler": {[]client.Object{jobOf("driver", "fluence", 1), jobOf("workers", "fluence", 4)}, "minMember 5, size 5", ""},
		"one asks for another": {
			[]client.Object{jobOf("driver", "", 1), jobOf("workers", "fluence", 4)},
			"minMember 4, size 4; not counted: 1 pod of Job/driver has schedulerName default-scheduler", "",
		},
		"and a label counts its pod": {
			[]client.Object{jobOf("driver", "", 1), minimum},
			"minMember 5, size 5; not counted: 1 pod of Job/driver has schedulerName default-scheduler",
			"minMember is 5, and only 4 pods will ask for this scheduler: 1 pod of Job/driver has schedulerName default-scheduler",
		},
		"and has ended": {[]client.Object{ended, jobOf("workers", "fluence", 4)}, "minMember 4, size 4", ""},
		"one names another, and its pods do not": {
			[]client.Object{
				jobOf("driver", "", 1), jobOf("workers", "fluence", 4),
				controlled(objects.Pod("p", objects.InGroup("g")), "batch/v1", "Job", "driver", "driver-uid"),
			},
			"minMember 5, size 5", "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var pods, others []client.Object
			for _, obj := range tc.objs {
				if _, is := obj.(*corev1.Pod); is {
					pods = append(pods, obj)
				} else {
					others = append(others, obj)
				}
			}
			r := fakeReconciler(t, append(others, pods...)...)
			o, err := r.observe(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.config.wantedSize(o); got.message != tc.want || got.lack != tc.wantLack {
				t.Errorf("size %q, lack %q; want %q, %q", got.message, got.lack, tc.want, tc.wantLack)
			}
		})
	}
}

// A driver that another scheduler has placed ends before its workers.
func TestTheEndOfAJobOfAnotherSchedulerLeavesTheMinimum(t *testing.T) {
	jobOf := func(name, scheduler string, parallelism int32) *batchv1.Job {
		j := controlled(named(&batchv1.Job{}, name), "jobset.x-k8s.io/v1alpha2", "JobSet", "js", "js-uid")
		j.Spec.Parallelism, j.Spec.Template.Spec.SchedulerName = &parallelism, scheduler
		return j
	}
	driver := jobOf("driver", "other", 1)
	driver.Status.Succeeded = 1
	set := group.Owner{Group: jobSet.Group, Kind: jobSet.Kind, Name: "js", UID: "js-uid"}
	r := fakeReconciler(t, driver, jobOf("workers", "fluence", 4))
	f, err := cacheReader{t.Context(), r.client}.membershipOf(types.NamespacedName{Namespace: "ns", Name: set.PodGroupName()}, r.pods, "fluence")
	if err != nil {
		t.Fatal(err)
	}
	if len(f.podOwners) != 1 || f.podOwners[0].GetName() != "workers" || len(f.topOwnerRefs) != 1 || f.topOwnerRefs[0].owner != set || f.otherSchedulers != nil {
		t.Errorf("membership %+v, want the Job workers, and the JobSet above it", f)
	}
	o := observation{
		podGroup: podGroup(4, ours), podOwners: f.podOwners, pods: each(pods(4)),
		topOwners: []topOwner{{topOwnerRef: f.topOwnerRefs[0], size: group.Size{Size: 4, Min: 4}}},
	}
	if got := DefaultConfig().wantedSize(o).minMember; got != 4 {
		t.Errorf("minMember %d, want 4", got)
	}
}

// While its owner is not in the cache, a pod causes no PodGroup, whatever its labels are.
func TestPodsOfUnseenOwnersWait(t *testing.T) {
	for name, label := range map[string]string{"by its owner": "", "by a label": "crew"} {
		t.Run(name, func(t *testing.T) {
			r := fakeReconciler(t)
			pod := controlled(named(&corev1.Pod{}, "a"), "batch/v1", "Job", "job", "job-uid")
			key := types.NamespacedName{Namespace: "ns", Name: group.Owner{Kind: "Job", Name: "job", UID: "job-uid"}.PodGroupName()}
			if label != "" {
				pod.Labels = map[string]string{group.Label: label}
				key.Name = label
			}
			r.indexPod(pod)
			f, err := cacheReader{t.Context(), r.client}.membershipOf(key, r.pods, "fluence")
			if err != nil || !f.ownerNotCached {
				t.Errorf("familyOf() = %+v, %v, want it unseen", f, err)
			}
		})
	}
}

// An owner of an unknown kind is not read. It exists as long as it has
// a pod that is not being deleted. After that no PodGroup refers to it.
func TestAnOwnerOfAnUnknownKindGoesWithItsPods(t *testing.T) {
	another := ownedBy("example.com/v1", "Crew", "b", "b-uid")
	its := ownedBy("example.com/v1", "Crew", "a", "a-uid")
	cases := map[string]struct {
		pods []*corev1.Pod
		want string // names of the owners that the PodGroup refers to
	}{
		"it has a pod":                     {pods(1, its), "a"},
		"it has a pod that has ended":      {pods(1, its, in(corev1.PodSucceeded)), "a"},
		"its pods leave":                   {pods(2, its, deleting), ""},
		"one of its pods leaves":           {join(pods(1, its, deleting), pods(1, its)), "a"},
		"it has no pods":                   {nil, ""},
		"only pods of another are left":    {pods(1, another), "b"},
		"its pods leave, another's do not": {join(pods(1, its, deleting), pods(1, another)), "b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pg := podGroup(1, ours, referring("Crew", "a", "a-uid"))
			pg.OwnerReferences[0].APIVersion = "example.com/v1"
			pg.ManagedFields[0].APIVersion, pg.ManagedFields[0].FieldsType = scheduling.GroupVersion.String(), "FieldsV1"
			pg.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"f:spec":{}}`)
			objs := []client.Object{pg}
			for i, pod := range tc.pods {
				pod.Name, pod.UID, pod.Finalizers = fmt.Sprint("p", i), types.UID(fmt.Sprint(i)), []string{"example.com/held"}
				objs = append(objs, pod)
			}
			o, err := fakeReconciler(t, objs...).observe(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, ref := range o.references() {
				got = append(got, ref.Name)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("refers to %q, want %q", got, tc.want)
			}
		})
	}
}

// fakeReconciler returns a reconciler that sees these objects.
func fakeReconciler(t *testing.T, objs ...client.Object) *reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), scheduling.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).WithReturnManagedFields()
	for _, obj := range []client.Object{&batchv1.Job{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}} {
		b = b.WithIndex(obj, groupIndex, possibleGroupNames)
	}
	c := b.Build()
	clock := clocktesting.NewFakeClock(now)
	r := &reconciler{config: DefaultConfig(), client: c, ownerReader: newOwnerReader(c, clock, "fluence"), clock: clock, pods: newPodIndex()}
	for _, obj := range objs {
		r.indexPod(obj)
	}
	return r
}

// scripted answers every read with an object or an error.
type scripted struct {
	client.Reader
	obj   *unstructured.Unstructured
	err   error
	reads int
}

func (s *scripted) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.reads++
	if s.err != nil {
		return s.err
	}
	s.obj.DeepCopyInto(obj.(*unstructured.Unstructured))
	return nil
}

func TestFinding(t *testing.T) {
	ref := metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: "1"}
	set := func(edit func(map[string]any)) *unstructured.Unstructured {
		obj := map[string]any{
			"metadata": map[string]any{"name": "train", "uid": "1"},
			"spec":     map[string]any{"replicatedJobs": []any{map[string]any{"replicas": int64(3)}}},
		}
		edit(obj)
		return &unstructured.Unstructured{Object: obj}
	}
	told := func(kind, status string) func(map[string]any) {
		return func(obj map[string]any) {
			obj["status"] = map[string]any{"conditions": []any{map[string]any{"type": kind, "status": status}, "no condition"}}
		}
	}
	resource := schema.GroupResource{Group: "jobset.x-k8s.io", Resource: "jobsets"}
	cases := map[string]struct {
		obj  *unstructured.Unstructured
		err  error
		want string
	}{
		"it is there":                {set(func(map[string]any) {}), nil, "known 3"},
		"it is suspended":            {set(func(o map[string]any) { o["spec"].(map[string]any)["suspend"] = true }), nil, "known 3 suspended"},
		"it has completed":           {set(told("Completed", "True")), nil, "known 3 done"},
		"it has not completed":       {set(told("Completed", "False")), nil, "known 3"},
		"it has failed":              {set(told("Failed", "True")), nil, "known 3 failed"},
		"it makes no sense":          {set(func(o map[string]any) { o["spec"] = "x" }), nil, "known 0 invalid"},
		"a namesake has come":        {set(func(o map[string]any) { o["metadata"].(map[string]any)["uid"] = "2" }), nil, "gone 0"},
		"it has gone":                {nil, apierrors.NewNotFound(resource, "train"), "gone 0"},
		"its kind is not installed":  {nil, &meta.NoKindMatchError{GroupKind: jobSet}, "unread 0: the API server does not serve JobSet in jobset.x-k8s.io/v1alpha2"},
		"it may not be read":         {nil, apierrors.NewForbidden(resource, "train", nil), "unread 0: the controller has no permission to get JobSet in jobset.x-k8s.io/v1alpha2"},
		"the API server is overrun":  {nil, apierrors.NewTooManyRequests("later", 1), "error"},
		"it is leaving and comes on": {set(func(o map[string]any) { o["metadata"].(map[string]any)["deletionTimestamp"] = "2026-03-01T10:00:00Z" }), nil, "known 3 leaving"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newOwnerReader(&scripted{obj: tc.obj, err: tc.err}, clocktesting.NewFakeClock(now), "fluence")
			w, _, err := f.find(klog.NewContext(t.Context(), klog.New(nil)), "ns", ref)
			got := "error"
			if err == nil {
				got = fmt.Sprintf("%s %d", []string{"known", "foreign", "gone", "unread"}[w.state], w.size.Size)
				for word, is := range map[string]bool{" suspended": w.suspended, " done": w.done, " failed": w.failed, " leaving": w.deleting, " invalid": w.invalid != ""} {
					if is {
						got += word
					}
				}
				if w.why != "" {
					got += ": " + w.why
				}
			}
			if got != tc.want {
				t.Errorf("find() = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// However many owners the pods of a group name, so many of them are read, and the group says so.
func TestSoManyOwnersOfAGroupAreRead(t *testing.T) {
	objs := []client.Object{}
	for i, pod := range pods(3 * maxReferences) {
		pod.Name, pod.UID = fmt.Sprint("p", i), types.UID(fmt.Sprint(i))
		ownedBy("jobset.x-k8s.io/v1alpha2", "JobSet", fmt.Sprint("s", i), types.UID(fmt.Sprint("set", i)))(pod)
		objs = append(objs, pod)
	}
	r, api := fakeReconciler(t, objs...), &scripted{err: apierrors.NewNotFound(schema.GroupResource{}, "s")}
	r.ownerReader.live = api
	o, err := r.observe(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if api.reads != maxReferences {
		t.Errorf("%d owners were read, want %d", api.reads, maxReferences)
	}
	if why := o.whyUnreadable(); !strings.HasPrefix(why, "at most 128 owners of a group are read: the size of JobSet s") {
		t.Errorf("it says %q", why)
	}
}

// An owner is read again after a while, or when one of its podOwners changes.
func TestFindingsAreRemembered(t *testing.T) {
	ref := metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: "1"}
	for name, tc := range map[string]struct {
		err  error
		keep time.Duration
	}{
		"one that has gone":       {apierrors.NewNotFound(schema.GroupResource{}, "train"), freshFor},
		"one that cannot be read": {&meta.NoKindMatchError{GroupKind: jobSet}, unreadableFor},
	} {
		t.Run(name, func(t *testing.T) {
			api, clock := &scripted{err: tc.err}, clocktesting.NewFakeClock(now)
			var log strings.Builder
			ctx := klog.NewContext(t.Context(), klog.New(lines{&log}))
			f := newOwnerReader(api, clock, "fluence")
			find := func(wantReads int, wantAfter time.Duration) {
				t.Helper()
				_, after, err := f.find(ctx, "ns", ref)
				if err != nil || api.reads != wantReads || after != wantAfter {
					t.Errorf("find(): %d reads, again after %v, %v; want %d, %v", api.reads, after, err, wantReads, wantAfter)
				}
			}
			first := time.Duration(0)
			if tc.keep == unreadableFor {
				first = unreadableFor
			}
			find(1, first)
			clock.SetTime(now.Add(time.Second))
			find(1, tc.keep-time.Second)
			clock.SetTime(now.Add(tc.keep))
			find(2, first)
			f.forget("ns", ref)
			find(3, first)
			if got, want := strings.Count(log.String(), "\n"), map[bool]int{true: 1}[tc.keep == unreadableFor]; got != want {
				t.Errorf("%d lines were logged, want %d:\n%s", got, want, log.String())
			}
		})
	}
}

// A reference with the UID of another object, of a kind that is not
// served or in another namespace, reveals nothing about this object.
func TestAFindingIsOfOneReference(t *testing.T) {
	ref := metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: "1"}
	with := func(edit func(*metav1.OwnerReference)) metav1.OwnerReference {
		other := ref
		edit(&other)
		return other
	}
	for name, other := range map[string]struct {
		namespace string
		ref       metav1.OwnerReference
	}{
		"another version":   {"ns", with(func(r *metav1.OwnerReference) { r.APIVersion = "jobset.x-k8s.io/v9" })},
		"another group":     {"ns", with(func(r *metav1.OwnerReference) { r.APIVersion = "example.com/v1alpha2" })},
		"another kind":      {"ns", with(func(r *metav1.OwnerReference) { r.Kind = "MPIJob" })},
		"another name":      {"ns", with(func(r *metav1.OwnerReference) { r.Name = "other" })},
		"another namespace": {"elsewhere", ref},
	} {
		t.Run(name, func(t *testing.T) {
			api := &scripted{err: &meta.NoKindMatchError{GroupKind: jobSet}}
			f := newOwnerReader(api, clocktesting.NewFakeClock(now), "fluence")
			ctx := klog.NewContext(t.Context(), klog.New(nil))
			if w, _, err := f.find(ctx, other.namespace, other.ref); err != nil || w.state != unreadable {
				t.Fatalf("standing %v, %v, want that it cannot be read", w.state, err)
			}
			api.err = apierrors.NewNotFound(schema.GroupResource{}, "train")
			if w, _, err := f.find(ctx, "ns", ref); err != nil || w.state != missing || api.reads != 2 {
				t.Errorf("standing %v after %d reads, %v; want what a read of its own says", w.state, api.reads, err)
			}
		})
	}
}

// What is remembered of a reference is bounded in size, and expires.
func TestFindingsAreFewAndSmall(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	api, clock := &scripted{err: &meta.NoKindMatchError{GroupKind: jobSet}}, clocktesting.NewFakeClock(now)
	f := newOwnerReader(api, clock, "fluence")
	ctx := klog.NewContext(t.Context(), klog.New(nil))
	for what, ref := range map[string]metav1.OwnerReference{
		"a UID":     {APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: types.UID(long)},
		"a name":    {APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: long, UID: "1"},
		"a version": {APIVersion: "jobset.x-k8s.io/" + long, Kind: "JobSet", Name: "train", UID: "1"},
	} {
		w, _, err := f.find(ctx, "ns", ref)
		if err != nil || w.state != missing || api.reads > 0 || f.recent.Len() > 0 {
			t.Errorf("%s of a megabyte: standing %v, %v, %d reads, %d findings; want that it is gone", what, w.state, err, api.reads, f.recent.Len())
		}
	}
	find := func(i int) {
		t.Helper()
		ref := metav1.OwnerReference{APIVersion: fmt.Sprintf("g%d.example.com/v1", i), Kind: "LeaderWorkerSet", Name: "train", UID: types.UID(fmt.Sprint(i))}
		if _, _, err := f.find(ctx, "ns", ref); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		find(i)
	}
	clock.SetTime(now.Add(unreadableFor))
	if find(100); f.recent.Len() != 1 {
		t.Errorf("%d findings when all others are out of date, want 1", f.recent.Len())
	}
	clock.SetTime(now.Add(unreadableFor + logUnreadableEvery))
	if find(101); f.loggedKinds.Len() != 1 {
		t.Errorf("%d kinds are remembered that cannot be read when all others are out of date, want 1", f.loggedKinds.Len())
	}
}

// lines is a log with one line for each message.
type lines struct{ *strings.Builder }

func (lines) Init(klog.RuntimeInfo)                 {}
func (lines) Enabled(int) bool                      { return true }
func (l lines) Info(_ int, msg string, _ ...any)    { fmt.Fprintln(l, msg) }
func (l lines) Error(_ error, msg string, _ ...any) { fmt.Fprintln(l, msg) }
func (l lines) WithValues(...any) klog.LogSink      { return l }
func (l lines) WithName(string) klog.LogSink        { return l }
