package podgroup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// template is a pod template that asks for the scheduler of the test.
func (e *env) template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{SchedulerName: e.ns, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// patch merges into an object.
func (e *env) patch(obj client.Object, format string, args ...any) {
	e.Helper()
	if err := e.client.Patch(e.ctx, obj, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, format, args...))); err != nil {
		e.Fatalf("patch %T: %v", obj, err)
	}
}

// bindAll binds every pod of the test to a node until the test ends.
func (e *env) bindAll() {
	e.Helper()
	w, err := e.client.Watch(e.ctx, &corev1.PodList{}, client.InNamespace(e.ns))
	if err != nil {
		e.Fatalf("watch pods: %v", err)
	}
	e.Cleanup(w.Stop)
	go func() {
		for ev := range w.ResultChan() {
			pod, is := ev.Object.(*corev1.Pod)
			if !is || ev.Type != "ADDED" || pod.Spec.NodeName != "" {
				continue
			}
			err := shared.Client().CoreV1().Pods(pod.Namespace).Bind(e.ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "node-0001"},
			}, metav1.CreateOptions{})
			if client.IgnoreNotFound(err) != nil && e.ctx.Err() == nil {
				e.Errorf("bind pod %s: %v", pod.Name, err)
			}
		}
	}()
}

// untilSized waits until the status of a PodGroup shows this size.
func (e *env) untilSized(name string, least, size int32) *scheduling.PodGroup {
	e.Helper()
	return e.untilSays(name, least, fmt.Sprintf("minMember %d, size %d", least, size))
}

// untilSays waits until a PodGroup has this minimum, and its condition Valid this message.
func (e *env) untilSays(name string, least int32, want string) *scheduling.PodGroup {
	e.Helper()
	return e.until(name, "it says "+want, func(pg *scheduling.PodGroup) bool {
		if pg == nil || pg.Spec.MinMember != least {
			return false
		}
		c := meta.FindStatusCondition(pg.Status.Conditions, podgroup.ConditionValid)
		return c != nil && c.Message == want
	})
}

// untilBound waits until the status of a running PodGroup shows three pods on nodes.
func (e *env) untilBound(name string) {
	e.Helper()
	e.until(name, "3 of its pods are bound", func(pg *scheduling.PodGroup) bool {
		return pg != nil && pg.Status.Phase == scheduling.PodGroupRunning && pg.Status.Scheduled == 3
	})
}

// onlyGroups fails unless these are all PodGroups of the test.
func (e *env) onlyGroups(want ...string) {
	e.Helper()
	var list scheduling.PodGroupList
	if err := e.client.List(e.ctx, &list, client.InNamespace(e.ns)); err != nil {
		e.Fatal(err)
	}
	var got []string
	for _, pg := range list.Items {
		got = append(got, pg.Name)
	}
	if len(got) != len(want) {
		e.Errorf("PodGroups %q, want %q", got, want)
	}
}

// quickDelay is the time between two statuses of a controller that is quick.
const quickDelay = 200 * time.Millisecond

func quick(c *podgroup.Config) { c.CountDelay, c.StatusDelay = quickDelay, quickDelay }

func TestADeploymentIsOneGroupOverItsReplicaSets(t *testing.T) {
	t.Parallel()
	e := newEnv(t, quick)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: selector("web"), Template: e.template("web")},
	}
	e.create(d)
	name := nameFor("apps/v1", "Deployment", d)
	pg := e.untilSized(name, 1, 3)
	if o := pg.OwnerReferences; len(o) != 1 || o[0].UID != d.UID || o[0].Kind != "Deployment" {
		t.Errorf("owners %+v, want the Deployment", o)
	}
	e.bindAll()
	e.untilBound(name)
	e.fewWrites(3, quickDelay)
	old := e.replicaSets(1)
	e.patch(d, `{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
	sets := e.replicaSets(2)
	if sets[0].UID != old[0].UID && sets[1].UID != old[0].UID {
		t.Errorf("the update made %+v", sets)
	}
	e.untilBound(name)
	e.onlyGroups(name)
	e.patch(d, `{"spec":{"replicas":5}}`)
	e.untilSized(name, 1, 5)
	// By now all pods are of the second ReplicaSet.
	e.until(name, "all five pods are counted", func(pg *scheduling.PodGroup) bool { return pg.Status.Scheduled == 5 && pg.Status.Desired == 5 })
	e.patch(d, `{"spec":{"replicas":0}}`)
	e.until(name, "it wants no pods", func(pg *scheduling.PodGroup) bool {
		c := meta.FindStatusCondition(pg.Status.Conditions, scheduling.ConditionMembersExpected)
		return pg.Status.Phase == scheduling.PodGroupIdle && pg.Status.Desired == 0 && pg.Status.Scheduled == 0 && c != nil && c.Reason == reason.Suspended
	})
	e.delete(d)
	e.untilGone(name)
}

// replicaSets waits until the test has this many ReplicaSets.
func (e *env) replicaSets(n int) []appsv1.ReplicaSet {
	e.Helper()
	w, err := e.client.Watch(e.ctx, &appsv1.ReplicaSetList{}, client.InNamespace(e.ns))
	if err != nil {
		e.Fatalf("watch replica sets: %v", err)
	}
	defer w.Stop()
	var sets []appsv1.ReplicaSet
	for ev := range w.ResultChan() {
		if set, is := ev.Object.(*appsv1.ReplicaSet); is && ev.Type == "ADDED" {
			sets = append(sets, *set)
		}
		if len(sets) == n {
			return sets
		}
	}
	e.Fatalf("%d replica sets, want %d", len(sets), n)
	return nil
}

func TestAReplicaSetOfNobodysIsAGroup(t *testing.T) {
	t.Parallel()
	e := newEnv(t, quick)
	template := e.template("web")
	template.Labels[group.SizeLabel], template.Labels[group.MinLabel] = "3", "2"
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: "web"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: selector("web"), Template: template},
	}
	e.create(set)
	name := nameFor("apps/v1", "ReplicaSet", set)
	e.untilSized(name, 2, 3)
	e.bindAll()
	e.untilBound(name)
	e.delete(set)
	e.untilGone(name)
}

func TestStatefulSets(t *testing.T) {
	t.Parallel()
	e := newEnv(t, quick)
	make := func(name string, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: name},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(3)), PodManagementPolicy: policy, Selector: selector(name), Template: e.template(name),
			},
		}
		e.create(set)
		return set
	}
	ordered, parallel := make("ordered", appsv1.OrderedReadyPodManagement), make("parallel", appsv1.ParallelPodManagement)
	one, all := nameFor("apps/v1", "StatefulSet", ordered), nameFor("apps/v1", "StatefulSet", parallel)
	e.untilSized(one, 1, 3)
	made := e.untilSized(all, 3, 3)
	e.bindAll()
	e.untilBound(one)
	e.untilBound(all)
	for _, n := range []int32{5, 2} {
		e.patch(parallel, `{"spec":{"replicas":%d}}`, n)
		e.untilSized(all, n, n)
	}
	e.patch(parallel, `{"spec":{"replicas":0}}`)
	pg := e.until(all, "its pods are gone", func(pg *scheduling.PodGroup) bool { return pg != nil && pg.Status.Scheduled == 0 })
	if pg.Spec.MinMember != 2 {
		t.Errorf("scaled to nothing its minMember is %d, want 2 as before", pg.Spec.MinMember)
	}
	e.patch(parallel, `{"spec":{"replicas":3}}`)
	if pg := e.untilSized(all, 3, 3); pg.UID != made.UID {
		t.Error("scaling made another PodGroup")
	}
}

// Every Job of a CronJob is a separate group.
func TestCronJob(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	template := e.template("nightly")
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	e.create(&batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: "nightly"},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 0 1 1 *", Suspend: new(true),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Parallelism: new(int32(2)), Completions: new(int32(2)), Template: template}},
		},
	})
	var names []string
	for _, name := range []string{"monday", "tuesday"} {
		if _, _, err := shared.Kubectl(e.ctx, "-n", e.ns, "create", "job", name, "--from=cronjob/nightly"); err != nil {
			t.Fatal(err)
		}
		var job batchv1.Job
		if err := e.client.Get(e.ctx, client.ObjectKey{Namespace: e.ns, Name: name}, &job); err != nil {
			t.Fatal(err)
		}
		if metav1.GetControllerOf(&job) == nil {
			t.Fatalf("Job %s is not the CronJob's", name)
		}
		names = append(names, nameFor("batch/v1", "Job", &job))
		if pg := e.untilSized(names[len(names)-1], 2, 2); len(pg.OwnerReferences) != 1 || pg.OwnerReferences[0].UID != job.UID {
			t.Errorf("owners %+v, want the Job", pg.OwnerReferences)
		}
	}
	e.onlyGroups(names...)
}

// foreign creates an object of a kind that Kubernetes does not have.
func (e *env) foreign(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	e.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"namespace": e.ns, "name": name},
		"spec":     spec,
	}}
	e.create(obj)
	return obj
}

// by returns the owner reference of a controller.
func by(apiVersion, kind string, of client.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: apiVersion, Kind: kind, Name: of.GetName(), UID: of.GetUID(),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
}

func TestAJobSetIsOneGroupOverItsJobs(t *testing.T) {
	t.Parallel()
	const apiVersion = "jobset.x-k8s.io/v1alpha2"
	e := newEnv(t, nil)
	replicated := func(replicas, pods int) map[string]any {
		return map[string]any{
			"replicas": int64(replicas),
			"template": map[string]any{"spec": map[string]any{"parallelism": int64(pods), "completions": int64(pods)}},
		}
	}
	set := e.foreign(apiVersion, "JobSet", "train", map[string]any{"replicatedJobs": []any{replicated(1, 1), replicated(2, 2)}})
	name := nameFor(apiVersion, "JobSet", set)
	var jobs []*batchv1.Job
	for i, pods := range []int32{1, 2, 2} {
		jobs = append(jobs, e.job(fmt.Sprintf("train-%d", i), pods, "1s", func(j *batchv1.Job) { j.OwnerReferences = by(apiVersion, "JobSet", set) }))
	}
	pg := e.untilSized(name, 5, 5)
	if o := pg.OwnerReferences; len(o) != 1 || o[0].UID != set.GetUID() || o[0].APIVersion != apiVersion {
		t.Errorf("owners %+v, want the JobSet", o)
	}
	for i, job := range jobs {
		e.bind(e.podsOf(job, []int{1, 2, 2}[i])...)
	}
	e.untilPhase(name, scheduling.PodGroupRunning)
	e.fewWrites(3, time.Second)
	e.patch(set, `{"status":{"conditions":[{"type":"Completed","status":"True","reason":"AllJobsCompleted","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	e.untilPhase(name, scheduling.PodGroupFinished)
	e.onlyGroups(name)
	e.delete(set)
	e.untilGone(name)
}

func TestAnMPIJobIsOneGroupOfLauncherAndWorkers(t *testing.T) {
	t.Parallel()
	const apiVersion = "kubeflow.org/v2beta1"
	e := newEnv(t, nil)
	mpi := e.foreign(apiVersion, "MPIJob", "solve", map[string]any{"mpiReplicaSpecs": map[string]any{
		"Launcher": map[string]any{"replicas": int64(1)}, "Worker": map[string]any{"replicas": int64(2)},
	}})
	name := nameFor(apiVersion, "MPIJob", mpi)
	for i := range 2 {
		template := e.template("solve")
		e.create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: fmt.Sprintf("solve-worker-%d", i), Labels: template.Labels, OwnerReferences: by(apiVersion, "MPIJob", mpi)},
			Spec:       template.Spec,
		})
	}
	pg := e.untilSized(name, 3, 3)
	if o := pg.OwnerReferences; len(o) != 1 || o[0].UID != mpi.GetUID() {
		t.Errorf("owners %+v, want the MPIJob", o)
	}
	e.job("solve-launcher", 1, "", func(j *batchv1.Job) { j.OwnerReferences = by(apiVersion, "MPIJob", mpi) })
	e.bindAll()
	e.untilPhase(name, scheduling.PodGroupRunning)
	e.onlyGroups(name)
}

// Head and workers of a RayCluster are one group. Its end is not known, and it may be suspended.
func TestARayClusterIsOneGroupOfHeadAndWorkers(t *testing.T) {
	t.Parallel()
	const apiVersion = "ray.io/v1"
	e := newEnv(t, nil)
	ray := e.foreign(apiVersion, "RayCluster", "rl", map[string]any{
		"headGroupSpec": map[string]any{}, "workerGroupSpecs": []any{map[string]any{"groupName": "a", "replicas": int64(1), "numOfHosts": int64(2)}},
	})
	name := nameFor(apiVersion, "RayCluster", ray)
	for i := range 3 {
		template := e.template("rl")
		e.create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: fmt.Sprintf("rl-%d", i), Labels: template.Labels, OwnerReferences: by(apiVersion, "RayCluster", ray)},
			Spec:       template.Spec,
		})
	}
	pg := e.untilSized(name, 3, 3)
	if o := pg.OwnerReferences; len(o) != 1 || o[0].UID != ray.GetUID() {
		t.Errorf("owners %+v, want the RayCluster", o)
	}
	e.bindAll()
	e.untilPhase(name, scheduling.PodGroupRunning)
	e.onlyGroups(name)
	// The operator deletes the pods of a suspended cluster.
	e.patch(ray, `{"spec":{"suspend":true}}`)
	if err := e.client.DeleteAllOf(e.ctx, &corev1.Pod{}, client.InNamespace(e.ns), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	e.until(name, "it says that the RayCluster is suspended", func(pg *scheduling.PodGroup) bool {
		c := meta.FindStatusCondition(pg.Status.Conditions, scheduling.ConditionMembersExpected)
		return c != nil && c.Status == metav1.ConditionFalse && c.Message == "RayCluster/rl is suspended"
	})
	e.delete(ray)
	e.untilGone(name)
}

// A launcher without schedulerName goes to the default scheduler. The workers do not wait for it.
func TestAPodOfAnotherSchedulerIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	const apiVersion = "kubeflow.org/v2beta1"
	e := newEnv(t, nil)
	mpi := e.foreign(apiVersion, "MPIJob", "solve", map[string]any{"mpiReplicaSpecs": map[string]any{
		"Launcher": map[string]any{"replicas": int64(1)},
		"Worker":   map[string]any{"replicas": int64(2), "template": map[string]any{"spec": map[string]any{"schedulerName": e.ns}}},
	}})
	name := nameFor(apiVersion, "MPIJob", mpi)
	e.job("solve-launcher", 1, "", func(j *batchv1.Job) {
		j.OwnerReferences = by(apiVersion, "MPIJob", mpi)
		j.Spec.Template.Spec.SchedulerName = corev1.DefaultSchedulerName
	})
	for i := range 2 {
		template := e.template("solve")
		e.create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: fmt.Sprintf("solve-worker-%d", i), Labels: template.Labels, OwnerReferences: by(apiVersion, "MPIJob", mpi)},
			Spec:       template.Spec,
		})
	}
	const others = "1 pod of MPIJob/solve, Launcher, has schedulerName default-scheduler"
	pg := e.untilSays(name, 2, "minMember 2, size 2; not counted: "+others)
	e.patch(pg, `{"spec":{"minMember":3}}`)
	if text, want := e.event("PodGroup", name, reason.OtherScheduler), "minMember is 3, and only 2 pods will ask for this scheduler: "+others; text != want {
		t.Errorf("the event says %q, want %q", text, want)
	}
	e.onlyGroups(name)
}

func TestEveryUnitOfALeaderWorkerSetIsAGroup(t *testing.T) {
	t.Parallel()
	const apiVersion = "leaderworkerset.x-k8s.io/v1"
	e := newEnv(t, nil)
	set := e.foreign(apiVersion, "LeaderWorkerSet", "serve", map[string]any{
		"replicas": int64(2), "leaderWorkerTemplate": map[string]any{"size": int64(3)},
	})
	make := func(name string, n int32, owners []metav1.OwnerReference) {
		e.create(&appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: name, OwnerReferences: owners},
			Spec: appsv1.StatefulSetSpec{
				Replicas: &n, PodManagementPolicy: appsv1.ParallelPodManagement,
				Selector: selector(name), Template: e.template(name),
			},
		})
	}
	make("serve", 2, by(apiVersion, "LeaderWorkerSet", set))
	var names []string
	for _, leader := range e.podsWith("serve", 2) {
		unit := nameFor(apiVersion, "LeaderWorkerSet", leader)
		names = append(names, unit)
		pg := e.untilSized(unit, 3, 3)
		if o := pg.OwnerReferences; len(o) != 1 || o[0].UID != leader.UID || o[0].Kind != "Pod" {
			t.Errorf("owners %+v, want the leader", o)
		}
		make(leader.Name, 2, by("v1", "Pod", leader))
	}
	e.bindAll()
	for _, name := range names {
		e.untilPhase(name, scheduling.PodGroupRunning)
	}
	e.onlyGroups(names...)
	var leader corev1.Pod
	if err := e.client.Get(e.ctx, client.ObjectKey{Namespace: e.ns, Name: "serve-0"}, &leader); err != nil {
		t.Fatal(err)
	}
	e.delete(&leader)
	e.untilGone(nameFor(apiVersion, "LeaderWorkerSet", &leader))
}

// podsWith waits until an app has this many pods.
func (e *env) podsWith(app string, n int) []*corev1.Pod {
	e.Helper()
	w, err := e.client.Watch(e.ctx, &corev1.PodList{}, client.InNamespace(e.ns), client.MatchingLabels{"app": app})
	if err != nil {
		e.Fatalf("watch pods: %v", err)
	}
	defer w.Stop()
	var pods []*corev1.Pod
	for ev := range w.ResultChan() {
		if pod, is := ev.Object.(*corev1.Pod); is && ev.Type == "ADDED" {
			pods = append(pods, pod)
		}
		if len(pods) == n {
			return pods
		}
	}
	e.Fatalf("%d pods of %s, want %d", len(pods), app, n)
	return nil
}

// A kind that is not served breaks nothing. Pods whose labels give a size
// are a group, and the others get an event that says what they lack.
func TestAKindThatIsNotInstalled(t *testing.T) {
	t.Parallel()
	const apiVersion = "kubeflow.org/v1"
	e := newEnv(t, nil)
	// The garbage collector must know the kind. The controller looks for another version of it.
	mpi := e.foreign("kubeflow.org/v2beta1", "MPIJob", "solve", map[string]any{})
	name := nameFor(apiVersion, "MPIJob", mpi)
	pod := func(name string, size string) *corev1.Pod {
		template := e.template("solve")
		if size != "" {
			template.Labels[group.SizeLabel] = size
		}
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: name, Labels: template.Labels, OwnerReferences: by(apiVersion, "MPIJob", mpi)},
			Spec:       template.Spec,
		}
		e.create(p)
		return p
	}
	a := pod("a", "")
	if text := e.event("Pod", a.Name, reason.OwnerUnreadable); !strings.Contains(text, "the API server does not serve MPIJob in kubeflow.org/v1") {
		t.Errorf("the event says %q", text)
	}
	pod("b", "2")
	e.untilSized(name, 2, 2)
}

// Two Jobs whose pods have one label are one group. Its PodGroup is deleted with the last Job.
func TestAGroupOfTwoOwnersGoesWithTheLast(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	together := func(j *batchv1.Job) {
		j.Spec.Template.Labels = map[string]string{group.Label: "crew"}
	}
	first := e.job("first", 2, "", together)
	e.untilSized("crew", 2, 2)
	second := e.job("second", 3, "", together)
	pg := e.untilSized("crew", 5, 5)
	if len(pg.OwnerReferences) != 2 {
		t.Errorf("owners %+v, want both Jobs", pg.OwnerReferences)
	}
	e.delete(first)
	e.until("crew", "only the second Job owns it", func(pg *scheduling.PodGroup) bool {
		return len(pg.OwnerReferences) == 1 && pg.OwnerReferences[0].UID == second.UID
	})
	e.untilSized("crew", 3, 3)
	e.delete(second)
	e.untilGone("crew")
}
