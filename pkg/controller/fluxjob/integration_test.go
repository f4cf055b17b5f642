package fluxjob_test

import (
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/objects"
)

// nameOf returns the name of the FluxJob of a workload.
func nameOf(obj client.Object) string {
	o := group.Owner{Kind: "Pod", Name: obj.GetName(), UID: obj.GetUID()}
	if _, is := obj.(*batchv1.Job); is {
		o.Group, o.Kind = batchv1.GroupName, "Job"
	}
	return o.PodGroupName()
}

func lastingAnHour() func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: "1h"}
	}
}

// The controller started before the CRDs were there. The webhook has not seen the Job.
func TestAJobWaitsRunsAndEnds(t *testing.T) {
	e := newEnv(t, nil)
	job := e.job("solver", 2, lastingAnHour(), func(j *batchv1.Job) { j.Spec.Template.Annotations[kubelet.RunFor] = "1s" })
	name := nameOf(job)
	fj := e.untilPhase(name, v1alpha1.Requested)
	if fj.Spec.Queue != e.ns || fj.Spec.Duration != "1h" || fj.Spec.Pods != 2 || fj.Status.CreationTime == nil {
		t.Errorf("FluxJob %+v", fj)
	}
	waiting := e.untilJob("solver", true)
	e.podsOf("solver", 0)
	e.event("Job", "solver", "Queued")
	if waiting.Annotations[group.QueuedAnnotation] == "" {
		t.Errorf("annotations %v", waiting.Annotations)
	}
	e.admit(name, time.Hour)
	running := e.untilPhase(name, v1alpha1.Running)
	if c := meta.FindStatusCondition(running.Status.Conditions, v1alpha1.ConditionAdmitted); c == nil || c.Status != metav1.ConditionTrue || running.Status.Allocation.Seats[0].Hosts != "node-0000" {
		t.Errorf("status %+v, want what the scheduler wrote as it was", running.Status)
	}
	started := e.untilJob("solver", false)
	if d := started.Spec.ActiveDeadlineSeconds; d == nil || *d != 3600 || started.Annotations[group.DeadlineAnnotation] != "none/3600" {
		t.Errorf("deadline %v, annotations %v", d, started.Annotations)
	}
	e.event("Job", "solver", "Released")
	until(e, &scheduling.PodGroupList{}, name, "it exists", func(pg *scheduling.PodGroup) bool { return pg != nil })
	e.bind(e.podsOf("solver", 2)...)
	done := e.untilPhase(name, v1alpha1.Finished)
	if done.Status.Result != v1alpha1.Succeeded || done.Status.Ended == nil || done.Status.Allocation == nil {
		t.Errorf("status %+v", done.Status)
	}
	if n, story := e.writes(); n != 4 {
		t.Errorf("%d writes, want that it is made, valid, running and finished:\n%s", n, story)
	}
	if err := e.client.Delete(e.ctx, started, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	e.untilGone(name)
}

func TestTheTimeOfAJobIsUp(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(q *v1alpha1.QueueSpec) { q.Defaults.Duration = "3s" })
	job := e.job("endless", 1)
	name := nameOf(job)
	e.admit(name, 3*time.Second)
	e.bind(e.podsOf("endless", 1)...)
	done := e.untilPhase(name, v1alpha1.Finished)
	if done.Status.Result != v1alpha1.WalltimeExceeded {
		t.Errorf("status %+v, want that its time was up", done.Status)
	}
}

func TestADurationIsEditedWhileTheJobRuns(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("longer", 1, lastingAnHour())
	name := nameOf(job)
	e.admit(name, time.Hour)
	fj := e.untilPhase(name, v1alpha1.Running).DeepCopy()
	e.patch(fj, `{"spec":{"duration":"2h"}}`)
	fj.Status.Allocation.End = new(metav1.NewTime(fj.Status.Allocation.At.Add(2*time.Hour + 30*time.Second)))
	if err := e.client.Status().Update(e.ctx, fj); err != nil {
		t.Fatal(err)
	}
	until(e, &batchv1.JobList{}, "longer", "it has two hours", func(j *batchv1.Job) bool { return *j.Spec.ActiveDeadlineSeconds == 7200 })
	e.patch(fj, `{"spec":{"duration":"1m"}}`)
	until(e, &batchv1.JobList{}, "longer", "it has a minute", func(j *batchv1.Job) bool { return *j.Spec.ActiveDeadlineSeconds == 60 })
}

func TestAPodWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	pod := objects.Pod("one", objects.In(e.ns), objects.Asking(), func(p *corev1.Pod) {
		p.Labels, p.Spec.SchedulerName = map[string]string{group.QueueLabel: e.ns}, e.ns
		p.Annotations = map[string]string{group.DurationAnnotation: "90s", kubelet.RunFor: "1s"}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.QueueGate}}
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: apiresource.MustParse("1Gi")}
	})
	e.create(pod)
	name := nameOf(pod)
	if fj := e.untilValid(name); fj.Spec.Requests.Memory().Value() != 1<<30 || !strings.Contains(fj.Spec.Jobspec, "1073741824") {
		t.Errorf("requests %v, want the limit", fj.Spec.Requests)
	}
	e.admit(name, 90*time.Second)
	let := until(e, &corev1.PodList{}, "one", "it has no gate", func(p *corev1.Pod) bool { return p != nil && len(p.Spec.SchedulingGates) == 0 })
	if d := let.Spec.ActiveDeadlineSeconds; d == nil || *d != 90 {
		t.Errorf("deadline %v, want 90 s", d)
	}
	e.untilPhase(name, v1alpha1.Running)
	e.bind(let)
	if done := e.untilPhase(name, v1alpha1.Finished); done.Status.Result != v1alpha1.Succeeded {
		t.Errorf("status %+v", done.Status)
	}
}

// A pod that has lost its label while it runs stays in its queue until it ends, and nothing is written again and again.
func TestAPodLosesItsLabelWhileItRuns(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	pod := objects.Pod("plain", objects.In(e.ns), objects.Asking(), func(p *corev1.Pod) {
		p.Labels, p.Spec.SchedulerName = map[string]string{group.QueueLabel: e.ns}, e.ns
		p.Annotations = map[string]string{group.DurationAnnotation: "1h"}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.QueueGate}}
	})
	e.create(pod)
	name := nameOf(pod)
	e.untilValid(name)
	e.admit(name, time.Hour)
	e.untilPhase(name, v1alpha1.Running)
	let := until(e, &corev1.PodList{}, "plain", "it has no gate", func(p *corev1.Pod) bool { return p != nil && len(p.Spec.SchedulingGates) == 0 })
	e.bind(let)
	e.patch(pod, `{"metadata":{"labels":null}}`)
	fj := e.untilPhase(name, v1alpha1.Running).DeepCopy()
	e.patch(fj, `{"spec":{"duration":"30m"}}`) // a deadline that is less can be written once
	until(e, &corev1.PodList{}, "plain", "it has half an hour", func(p *corev1.Pod) bool { return *p.Spec.ActiveDeadlineSeconds == 1800 })
	if err := e.client.Status().Patch(e.ctx, let.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))); err != nil {
		t.Fatal(err)
	}
	if done := e.untilPhase(name, v1alpha1.Finished); done.Status.Result != v1alpha1.Succeeded {
		t.Errorf("status %+v", done.Status)
	}
}

// Users see what the API server refuses, and it is tried again.
func TestARefusalOfTheAPIServerIsTold(t *testing.T) {
	e := newEnv(t, nil)
	deny := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: e.ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
			}}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "object.spec.suspend == true", Message: "not on Saturdays"}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: e.ns},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: e.ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.ns}}},
		},
	}
	job := e.job("solver", 1)
	name := nameOf(job)
	e.untilValid(name)
	e.create(deny)
	e.create(binding)
	probe := e.untilJob("solver", true).DeepCopy()
	for err := error(nil); err == nil; { // until the policy counts
		err = e.client.Patch(e.ctx, probe, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`)), client.DryRunAll)
	}
	e.admit(name, time.Hour)
	e.untilFluxJob(name, "it says that it was refused", func(fj *v1alpha1.FluxJob) bool {
		c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionReleased)
		return c != nil && c.Reason == v1alpha1.ReasonWriteRefused && strings.Contains(c.Message, "not on Saturdays")
	})
	e.event("Job", "solver", v1alpha1.ReasonWriteRefused)
	if err := e.client.Delete(e.ctx, binding); err != nil {
		t.Fatal(err)
	}
	e.untilPhase(name, v1alpha1.Running)
}

// A Job that is deleted without what it owns leaves no FluxJob with room.
func TestAJobIsDeletedWithoutItsPods(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("solver", 1)
	name := nameOf(job)
	e.admit(name, time.Hour)
	e.untilPhase(name, v1alpha1.Running)
	if err := e.client.Delete(e.ctx, job, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	e.untilGone(name)
}

// Between any two of these steps the controller ends, and another one goes on.
func TestAUserTakesAJobOutOfTheQueueAndPutsItBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	again := func() { e.stop(); e.run() }
	job := e.job("solver", 2, lastingAnHour())
	name := nameOf(job)
	e.untilValid(name)
	again()
	e.patch(job, `{"spec":{"suspend":false}}`)
	e.untilJob("solver", true)
	e.event("Job", "solver", "Suspended")
	e.admit(name, time.Hour)
	again()
	e.untilPhase(name, v1alpha1.Running)
	e.bind(e.podsOf("solver", 2)...)
	again()
	e.patch(job, `{"spec":{"suspend":true}}`)
	held := e.untilFluxJob(name, "it is held", func(fj *v1alpha1.FluxJob) bool {
		return fj.Spec.Held && fj.Status.Phase == v1alpha1.Waiting && fj.Status.Allocation == nil
	})
	if c := meta.FindStatusCondition(held.Status.Conditions, v1alpha1.ConditionAdmitted); c == nil || c.Reason != v1alpha1.ReasonHeld {
		t.Errorf("conditions %+v", held.Status.Conditions)
	}
	e.podsOf("solver", 0)
	again()
	e.patch(job, `{"spec":{"suspend":false}}`)
	e.untilFluxJob(name, "it is not held", func(fj *v1alpha1.FluxJob) bool { return !fj.Spec.Held })
	e.untilJob("solver", true)
	e.admit(name, time.Hour)
	e.untilPhase(name, v1alpha1.Running)
	if j := e.untilJob("solver", false); *j.Spec.ActiveDeadlineSeconds != 3600 || j.Annotations[group.DeadlineAnnotation] != "none/3600" {
		t.Errorf("deadline %d, annotations %v", *j.Spec.ActiveDeadlineSeconds, j.Annotations)
	}
}

// The scheduler suspends a Job whose pods make room. It is the queue's to resume.
func TestAnEvictedJobWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("low", 1)
	name := nameOf(job)
	e.admit(name, 0)
	e.bind(e.podsOf("low", 1)...)
	e.untilPhase(name, v1alpha1.Running)
	e.patch(job, `{"metadata":{"annotations":{%q:%q}},"spec":{"suspend":true}}`, group.SuspendedForAnnotation, group.SuspensionFor("u-1", job.UID))
	waiting := until(e, &batchv1.JobList{}, "low", "it waits", func(j *batchv1.Job) bool {
		return j.Annotations[group.QueuedAnnotation] != "" && j.Annotations[group.SuspendedForAnnotation] == ""
	})
	if !*waiting.Spec.Suspend {
		t.Error("it is resumed before its turn")
	}
	fj := e.untilPhase(name, v1alpha1.Waiting)
	if fj.Status.Allocation != nil || fj.Spec.Held {
		t.Errorf("%+v, want no allocation, and that nobody holds it", fj)
	}
	e.admit(name, 0)
	e.untilJob("low", false)
}

func TestAJobLeavesTheQueue(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("impatient", 1, func(j *batchv1.Job) {
		j.Spec.Suspend, j.Spec.Template.Labels = new(true), map[string]string{group.QueueLabel: e.ns}
		j.Annotations = map[string]string{group.QueuedAnnotation: group.Queued{Since: time.Now()}.String()}
	})
	name := nameOf(job)
	e.untilValid(name)
	e.patch(job, `{"metadata":{"labels":{%q:""}}}`, group.QueueLabel)
	e.untilJob("impatient", false)
	e.untilGone(name)
	if pod := e.podsOf("impatient", 1)[0]; pod.Labels[group.QueueLabel] != "" {
		t.Errorf("labels %v, want none of a queue", pod.Labels)
	}
}

// Limits of the queue, and PriorityClasses that come later, decide whether a job is valid.
func TestValidityFollowsTheQueueAndTheClass(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(q *v1alpha1.QueueSpec) { q.Limits.Duration = "30m" })
	job := e.job("long", 1, lastingAnHour(), func(j *batchv1.Job) { j.Spec.Template.Spec.PriorityClassName = e.ns })
	name := nameOf(job)
	because := func(reason string) *v1alpha1.FluxJob {
		return e.untilFluxJob(name, reason, func(fj *v1alpha1.FluxJob) bool {
			c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid)
			return c != nil && c.Reason == reason
		})
	}
	because(v1alpha1.ReasonNoPriorityClass)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: e.ns}, Value: 77}
	e.create(class)
	t.Cleanup(func() { _ = e.client.Delete(e.ctx, class) })
	if fj := because(v1alpha1.ReasonDurationOverLimit); fj.Spec.Priority != 77 {
		t.Errorf("priority %d, want that of the class", fj.Spec.Priority)
	}
	e.event("Job", "long", v1alpha1.ReasonDurationOverLimit)
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: e.ns}}
	e.patch(queue, `{"spec":{"limits":{"duration":"2h"}}}`)
	because(v1alpha1.ReasonValid)
}

// Users can make FluxJobs where they are allowed to. One that is not its workload's is deleted. One that has its name, and asks for
// something else, is made anew.
func TestAFluxJobThatSomebodyElseHasMade(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("mine", 1)
	own := e.untilValid(nameOf(job))
	forged := func(name string) *v1alpha1.FluxJob {
		fj := &v1alpha1.FluxJob{ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: name}, Spec: *own.Spec.DeepCopy()}
		fj.Spec.Pods = 7
		return fj
	}
	e.create(forged("forged"))
	e.untilGone("forged")
	e.event("FluxJob", "forged", v1alpha1.ReasonNotAllowed)
	e.stop()
	if err := e.client.Delete(e.ctx, own); err != nil {
		t.Fatal(err)
	}
	e.create(forged(own.Name))
	e.run()
	e.untilFluxJob(own.Name, "it asks for one pod", func(fj *v1alpha1.FluxJob) bool { return fj.Spec.Pods == 1 && fj.Status.CreationTime != nil })
}

func TestJobsOfANamespaceWithADefaultQueue(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	unlabelled := func(j *batchv1.Job) { j.Labels = nil }
	e.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.ns}}, `{"metadata":{"labels":{"team":%q}}}`, e.ns)
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: e.ns}}
	e.patch(queue, `{"spec":{"defaultFor":{"matchLabels":{"team":%q}}}}`, e.ns)
	labelledFor := e.job("own", 1)
	e.untilValid(nameOf(labelledFor))
	after := e.job("after", 1, unlabelled)
	if fj := e.untilValid(nameOf(after)); fj.Spec.Queue != e.ns {
		t.Errorf("queue %q, want the default", fj.Spec.Queue)
	}
	if j := e.untilJob("after", true); j.Labels[group.QueueLabel] != e.ns {
		t.Errorf("labels %v, want the queue", j.Labels)
	}
	e.job("free", 1, func(j *batchv1.Job) { j.Labels[group.QueueLabel] = "" })
	e.podsOf("free", 1)
}

// The cache has no more of a Job in a queue than is read, and a hash of the jobspec.
func TestTheCacheKeepsLittle(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("slim", 1, func(j *batchv1.Job) {
		j.Labels["a"] = "b"
		j.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", Value: strings.Repeat("x", 1000)}}
	})
	e.untilValid(nameOf(job))
	var cached batchv1.Job
	if err := e.cache.Get(e.ctx, client.ObjectKeyFromObject(job), &cached); err != nil {
		t.Fatal(err)
	}
	if len(cached.Labels) != 1 || len(cached.Spec.Template.Spec.Containers) != 1 || cached.Spec.Template.Spec.Containers[0].Env != nil || cached.Spec.Template.Spec.Containers[0].Image != "" {
		t.Errorf("the cache has %+v", cached)
	}
	var fj v1alpha1.FluxJob
	if err := e.cache.Get(e.ctx, client.ObjectKey{Namespace: e.ns, Name: nameOf(job)}, &fj); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(fj.Spec.Jobspec, "sha256:") || fj.ManagedFields != nil {
		t.Errorf("the cache has %+v", fj)
	}
}
