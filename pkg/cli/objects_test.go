package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/statusmap"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// noon is the time of the tests.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// node has 8 cores and 32Gi, in a zone and a rack.
func node(name, zone, rack string, change ...func(*corev1.Node)) *corev1.Node {
	return objects.ReadyNode(name, 8, objects.Having("cpu", "8", "memory", "32Gi", "pods", "110"), objects.InZone(zone),
		func(n *corev1.Node) { n.Labels["example.com/rack"] = rack }, objects.All(change...))
}

func cordoned(n *corev1.Node) {
	n.Spec.Unschedulable = true
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
}

func gpus(n *corev1.Node) {
	n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("4")
}

// pod is a pod of namespace lab. It is on a node unless node is empty.
func pod(name, on, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	phase, bound := corev1.PodPending, func(*corev1.Pod) {}
	if on != "" {
		phase, bound = corev1.PodRunning, boundAt(ago(4*time.Minute))
	}
	return objects.Pod(name, objects.In("lab"), func(p *corev1.Pod) { p.UID = "uid-" + p.UID }, objects.Created(noon.Add(-5*time.Minute)),
		objects.CreatedOn(on), objects.InPhase(phase), bound, objects.Asking("cpu", cpu, "memory", "1Gi"), objects.All(change...))
}

// boundAt gives a pod the condition that the API server writes when it is bound.
func boundAt(at metav1.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at}}
	}
}

// endedAt ends a pod in a phase.
func endedAt(phase corev1.PodPhase, at metav1.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at}}}}
	}
}

// queued has groups of different priorities that wait, run and have ended.
func queued() []runtime.Object {
	prior := func(p int32) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Priority = &p
			pod.Labels = map[string]string{"app": "solver"}
		}
	}
	low, high, elastic, done, failed, paused, cut := job("low"), job("high"), job("elastic"), job("done"), job("failed"), job("paused"), job("cut")
	paused.Spec.Suspend = new(true)
	late := job("late")
	late.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded, LastTransitionTime: ago(8 * time.Second)}}
	older := podGroup(low, 2, 0, "Pending", scheduled(metav1.ConditionFalse, "NoRoom", "needs 2 pods with cpu 8; room for 1"))
	older.CreationTimestamp = ago(10 * time.Minute)
	older.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "fluence-scheduler", Subresource: "status", Time: new(ago(2 * time.Minute))}}
	running := podGroup(elastic, 2, 0, "Pending", scheduled(metav1.ConditionTrue, "Placed", "3 pods on 2 nodes (node-0: 2, node-9: 1); 1 more pod is without a node: NoRoom: needs 1 pod with cpu 8; room for 0"))
	ended := podGroup(cut, 2, 0, "Failed", metav1.Condition{Type: conditionFinished, Status: metav1.ConditionTrue, Reason: "DeadlineExceeded", Message: "0 pods succeeded", LastTransitionTime: ago(4 * time.Second)})
	all := []runtime.Object{
		low, high, elastic, done, failed, paused, cut, late, podGroup(late, 2, 0, "Failed"), node("node-0", "a", "r0"), node("node-1", "a", "r0"),
		older, podGroup(high, 1, 0, "Pending"), running, podGroup(done, 2, 2, "Finished"), podGroup(failed, 1, 1, "Failed"), ended,
		podGroup(paused, 3, 0, "Pending", metav1.Condition{Type: "MembersExpected", Status: metav1.ConditionFalse, Reason: "Suspended", Message: "Job paused is suspended", LastTransitionTime: ago(time.Minute)}),
		pod("low-0", "", "8", ofJob(low)), pod("low-1", "", "8", ofJob(low)), pod("high-0", "", "8", ofJob(high), prior(1000)),
		pod("failed-0", "node-0", "1", ofJob(failed), endedAt(corev1.PodFailed, ago(time.Minute))),
	}
	for i, on := range []string{"node-0", "node-0", "node-9", "", ""} {
		all = append(all, pod(fmt.Sprintf("elastic-%d", i), on, "1", ofJob(elastic), prior(10)))
	}
	for i := range 2 {
		all = append(all, pod(fmt.Sprintf("done-%d", i), "node-1", "1", ofJob(done), endedAt(corev1.PodSucceeded, ago(2*time.Minute))))
	}
	return append(all, pod("single", "node-1", "1"))
}

// oversized has an array that is larger than the cluster. Two of its pods run, and two are the first in the queue. A Job
// waits behind them.
func oversized() []runtime.Object {
	sweep, behind := job("sweep"), job("behind")
	all := []runtime.Object{
		node("node-0", "a", "r0"), sweep, behind,
		podGroup(sweep, 1, 2, "Running", scheduled(metav1.ConditionTrue, "Placed", "2 pods on 1 node (node-0: 2); 2 more pods are without a node: NoRoom: needs 1 pod with cpu 4; room for 0")),
		podGroup(behind, 1, 0, "Pending", scheduled(metav1.ConditionFalse, "NoRoom", "needs 1 pod with cpu 4; room for 0")),
		pod("behind-0", "", "4", ofJob(behind), objects.Created(noon.Add(-time.Minute))),
	}
	for i, on := range []string{"node-0", "node-0", "", ""} {
		all = append(all, pod(fmt.Sprint("sweep-", i), on, "4", ofJob(sweep)))
	}
	return all
}

// resting has a Deployment that wants no pods. The controller has written that also as a condition.
func resting() []runtime.Object {
	pg := podGroup(job("web"), 1, 0, "Idle", metav1.Condition{Type: "MembersExpected", Status: metav1.ConditionFalse, Reason: "Suspended", Message: "Deployment/web wants no pods for now", LastTransitionTime: ago(time.Minute)})
	pg.Name = group.Owner{Group: "apps", Kind: "Deployment", Name: "web", UID: "uid-web"}.PodGroupName()
	pg.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-web"}}
	return []runtime.Object{node("node-0", "a", "r0"), pg}
}

// malicious has a group whose owner and whose condition have escape sequences of a terminal and lines of their own.
func malicious() []runtime.Object {
	j := job("evil")
	pg := podGroup(j, 1, 0, "Pending", scheduled(metav1.ConditionFalse, "NoRoom", "room\x1b[2J\nfor \u009b1m0\tpods"))
	pg.OwnerReferences[0].Name = "evil\x1b]0;x\a\n$(touch x)"
	return []runtime.Object{node("node-0", "a", "r0"), j, pg, pod("evil-0", "", "1", ofJob(j)), pod("good-0", "node-0", "1", ofDefaultScheduler)}
}

// nightly has a CronJob that has made two Jobs. The second waits.
func nightly() []runtime.Object {
	first, second := job("nightly-1"), job("nightly-2")
	first.CreationTimestamp, second.CreationTimestamp = ago(25*time.Hour), ago(time.Hour)
	for _, j := range []*batchv1.Job{first, second} {
		j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "nightly", UID: "uid-nightly", Controller: new(true)}}
	}
	return []runtime.Object{node("node-0", "a", "r0"), first, second, podGroup(second, 1, 0, "Pending"), pod("nightly-2-0", "", "9", ofJob(second))}
}

// past has a Job that has ended, and whose pods are gone.
func past() []runtime.Object {
	j := job("past")
	pg := podGroup(j, 2, 0, "Finished", scheduled(metav1.ConditionTrue, "Placed", "2 pods on 1 node"),
		metav1.Condition{Type: conditionFinished, Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "2 pods succeeded", LastTransitionTime: ago(time.Minute)})
	pg.Status.Succeeded = 2
	return []runtime.Object{j, pg}
}

// mixed has a group that runs with a high priority. Its further pod waits with a low one.
func mixed() []runtime.Object {
	j := job("mixed")
	of := func(priority int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &priority } }
	return []runtime.Object{
		node("node-0", "a", "r0"), j, podGroup(j, 1, 1, "Running", scheduled(metav1.ConditionTrue, "Placed", "1 pod on 1 node")),
		pod("mixed-0", "node-0", "1", ofJob(j), of(1000)), pod("mixed-1", "", "8", ofJob(j), of(5)),
	}
}

// foreign has a Job of another scheduler that runs.
func foreign() []runtime.Object {
	j := job("dflt")
	return []runtime.Object{j, node("node-0", "a", "r0"), pod("dflt-0", "node-0", "1", ofJob(j), ofDefaultScheduler)}
}

// fresh has a group that was created a second ago.
func fresh() []runtime.Object {
	all := promised()
	for _, o := range all {
		o.(metav1.Object).SetCreationTimestamp(ago(time.Second))
	}
	return all
}

func ofDefaultScheduler(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }

func ofJob(j *batchv1.Job) func(*corev1.Pod) {
	return objects.OwnedBy(group.Owner{Group: "batch", Kind: "Job", Name: j.Name, UID: j.UID})
}

func job(name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name, UID: types.UID("uid-" + name)}}
}

// podGroup is the PodGroup of a Job.
func podGroup(j *batchv1.Job, size, bound int32, phase string, conditions ...metav1.Condition) *scheduling.PodGroup {
	pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: j.Namespace, Name: group.Owner{Group: "batch", Kind: "Job", Name: j.Name, UID: j.UID}.PodGroupName(),
		UID: "group-" + j.UID, CreationTimestamp: ago(5 * time.Minute),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID}},
	}}
	pg.Spec.MinMember = size
	pg.Status.Scheduled, pg.Status.Conditions = bound, conditions
	pg.Status.Phase = scheduling.PodGroupPhase(phase)
	return pg
}

func scheduled(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: "Scheduled", Status: status, Reason: reason, Message: message, LastTransitionTime: ago(3 * time.Minute)}
}

// cluster has two zones with two racks each. One group runs in a
// rack, another waits, and a single pod is too large for all nodes.
func cluster() []runtime.Object {
	runs, waits := job("solver"), job("training")
	all := []runtime.Object{runs, waits, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}}
	for i := range 8 {
		name, change := fmt.Sprintf("node-%d", i), []func(*corev1.Node){}
		switch i {
		case 6:
			change = append(change, gpus)
		case 7:
			change = append(change, cordoned)
		}
		all = append(all, node(name, string(rune('a'+i/4)), fmt.Sprintf("r%d", i/2), change...))
	}
	for i := range 4 {
		all = append(all, pod(fmt.Sprintf("solver-%d", i), fmt.Sprintf("node-%d", i), "6", ofJob(runs)))
	}
	for i := range 8 {
		all = append(all, pod(fmt.Sprintf("training-%d", i), "", "6", ofJob(waits)))
	}
	huge := pod("huge", "", "64", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no node is large enough: cpu 64 wanted, largest node has 8"}}
	})
	return append(all, huge, pod("web", "node-4", "500m", ofDefaultScheduler),
		podGroup(runs, 4, 4, "Running", scheduled(metav1.ConditionTrue, "Placed", "4 pods on 4 nodes")),
		podGroup(waits, 8, 0, "Pending", scheduled(metav1.ConditionFalse, "NoRoom", "needs 8 pods with cpu 6; room for 3")))
}

// timed has a group that runs on three of four nodes, with this annotation duration, and one that waits for all four, for half
// an hour.
func timed(duration string) []runtime.Object {
	runs, waits := job("solver"), job("training")
	running := podGroup(runs, 3, 3, "Running", scheduled(metav1.ConditionTrue, "Placed", "3 pods on 3 nodes"))
	why := "needs 4 pods with cpu 6; room for 1"
	if duration != "" {
		why = "promised 4 nodes from 12:12:00Z; " + why
		running.Annotations = map[string]string{group.DurationAnnotation: duration}
	}
	all := []runtime.Object{runs, waits, running, podGroup(waits, 4, 0, "Pending", scheduled(metav1.ConditionFalse, "NoRoom", why))}
	for i := range 4 {
		name := fmt.Sprintf("node-%d", i)
		all = append(all, node(name, "a", "r0"), pod(fmt.Sprintf("training-%d", i), "", "6", ofJob(waits), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1800)) }))
		if i < 3 {
			all = append(all, pod(fmt.Sprintf("solver-%d", i), name, "6", ofJob(runs)))
		}
	}
	return all
}

// unpromised is timed where the matcher's engine has no reservations.
func unpromised() []runtime.Object {
	all := timed("16m")
	all[3].(*scheduling.PodGroup).Status.Conditions[0].Message = "needs 4 pods with cpu 6; room for 1; no room is promised: the matcher's engine has no reservations"
	return all
}

// neighbours are in another namespace: a group of pods that nothing makes again, a pod alone, and a budget for it.
func neighbours() []runtime.Object {
	of := func(p *corev1.Pod) { p.Namespace = "other" }
	pg := podGroup(job("band"), 2, 2, "Running", scheduled(metav1.ConditionTrue, "Placed", "2 pods on 2 nodes"))
	pg.Namespace, pg.Name, pg.OwnerReferences = "other", "band", nil
	guarded := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "guarded"} }
	return []runtime.Object{
		pg, pod("band-0", "node-4", "6", objects.InGroup("band"), of), pod("band-1", "node-5", "6", objects.InGroup("band"), of),
		pod("guarded", "node-6", "6", of, guarded), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "guard"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
		},
	}
}

// inJobSet is a cluster whose group that runs is a Job of a JobSet.
func inJobSet() []runtime.Object {
	all := cluster()
	set := group.Owner{Group: "jobset.x-k8s.io", Kind: "JobSet", Name: "set", UID: "uid-set"}
	ref := metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: set.Kind, Name: set.Name, UID: set.UID, Controller: new(true)}
	all[0].(*batchv1.Job).OwnerReferences = []metav1.OwnerReference{ref}
	for _, pg := range all {
		if pg, ok := pg.(*scheduling.PodGroup); ok && pg.Status.Phase == "Running" {
			pg.Name, pg.OwnerReferences = set.PodGroupName(), []metav1.OwnerReference{ref}
		}
	}
	return append(all, &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: ref.APIVersion, Kind: set.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: set.Name, UID: set.UID},
	})
}

// crowd has many pods alone on the nodes of a cluster.
func crowd() []runtime.Object {
	all := cluster()
	for i := range 39 {
		all = append(all, pod(fmt.Sprintf("small-%02d", i), fmt.Sprintf("node-%d", 4+i%3), "500m"))
	}
	return all
}

// preempting is a cluster with a group of a high priority that waits.
func preempting() []runtime.Object {
	j := job("now")
	all := append(cluster(), j, podGroup(j, 5, 0, "Pending"))
	for i := range 5 {
		all = append(all, pod(fmt.Sprintf("now-%d", i), "", "6", ofJob(j), func(p *corev1.Pod) { p.Spec.Priority = new(int32(1000)) }))
	}
	return all
}

// evicted is a cluster whose groups that run are being evicted, and a pod alone. One of the four pods of one group has gone.
func evicted() []runtime.Object {
	mark := func(kind, text string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Preempted", Message: text + "; preemptor uid-urgent", LastTransitionTime: ago(time.Second)}
	}
	all := slices.DeleteFunc(natives(), func(o runtime.Object) bool {
		pod, is := o.(*corev1.Pod)
		return is && pod.Name == "solver-3"
	})
	all = append(all, pod("alone", "node-4", "1", func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
			Message: "1 pod evicted for pod lab/urgent-0 (priority 1000, this one has 0); preemptor uid-urgent",
		})
	}))
	for _, o := range all {
		switch o := o.(type) {
		case *corev1.Pod:
			if o.Spec.NodeName != "" {
				o.DeletionTimestamp = new(ago(-20 * time.Second))
			}
		case *scheduling.PodGroup:
			if o.Status.Phase == "Running" {
				o.Status.Conditions = append(o.Status.Conditions, mark("Preempted", "4 pods evicted for group lab/urgent (priority 1000, this one has 0)"))
			}
		case *schedulingv1beta1.PodGroup:
			if o.Name == "pair" {
				o.Status.Conditions = append(o.Status.Conditions, mark("DisruptionTarget", "2 pods evicted for a group of another namespace (priority 1000, this one has 0)"))
			}
		}
	}
	return all
}

// wasEvicted is a cluster with a group that was evicted, and that waits for room since.
func wasEvicted() []runtime.Object {
	j := job("solver")
	all := []runtime.Object{
		node("node-0", "a", "r0"), j,
		podGroup(j, 2, 0, "Pending", scheduled(metav1.ConditionFalse, "NoRoom", "needs 2 pods with cpu 6; room for 0"), metav1.Condition{
			Type: "Preempted", Status: metav1.ConditionFalse, Reason: "Preempted", LastTransitionTime: ago(time.Minute),
			Message: "2 pods evicted for group lab/urgent (priority 1000, this one has 0)",
		}),
	}
	for i := range 2 {
		all = append(all, pod(fmt.Sprintf("solver-%d", i), "", "6", ofJob(j)))
	}
	return all
}

// wholly is a cluster with a group, and with a pod that is scheduled alone, that have their nodes to themselves.
func wholly() []runtime.Object {
	j := job("whole")
	pg := podGroup(j, 1, 1, "Running", scheduled(metav1.ConditionTrue, "Placed", "1 pod on 1 node"),
		metav1.Condition{Type: "WholeNodes", Status: metav1.ConditionTrue, Reason: "Matched"})
	return []runtime.Object{
		node("node-0", "a", "r0"), node("node-1", "a", "r0"), node("node-2", "a", "r0"), j, pg, pod("whole-0", "node-0", "2", ofJob(j)),
		pod("single", "node-1", "1", func(p *corev1.Pod) { p.Annotations = map[string]string{group.ExclusiveAnnotation: "true"} }),
	}
}

// misspelt has a Job and a pod whose annotations have no effect.
func misspelt() []runtime.Object {
	j := job("typo")
	j.Annotations = map[string]string{group.ExclusiveAnnotation: "true"}
	required := func(p *corev1.Pod) {
		p.Annotations = map[string]string{"fluence.flux-framework.org/topology-require": "rack"}
	}
	return []runtime.Object{
		j, podGroup(j, 2, 0, "Pending", scheduled(metav1.ConditionFalse, "NoRoom", "needs 2 pods with cpu 6; room for 1")),
		pod("typo-0", "", "6", ofJob(j), required), pod("typo-1", "", "6", ofJob(j), required), pod("single", "", "6", required),
	}
}

// lab is the namespace of the tests. It may have whole nodes.
func lab() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab", Labels: map[string]string{group.WholeNodesLabel: group.WholeNodesAllowed}}}
}

// troubled has what users often get wrong, and names that two objects have.
func troubled() []runtime.Object {
	held := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}} }
	labelled := objects.InGroup("band")
	susp, stranger, gatedJob, dup, lost, wide := job("susp"), job("stranger"), job("gated"), job("dup"), job("lost"), job("wide")
	susp.Spec.Suspend = new(true)
	done := job("done")
	done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	all := []runtime.Object{
		susp, stranger, gatedJob, dup, lost, wide, done, job("empty"),
		pod("stranger-0", "", "1", ofJob(stranger), ofDefaultScheduler), pod("stranger-1", "", "1", ofJob(stranger), ofDefaultScheduler),
		pod("alone", "", "1", ofDefaultScheduler), pod("unheard", "", "1"),
		pod("band-0", "", "1", labelled), pod("band-1", "", "1", labelled),
		podGroup(gatedJob, 2, 0, "Pending"), pod("gated-0", "", "1", ofJob(gatedJob), held), pod("gated-1", "", "1", ofJob(gatedJob), held), pod("gated", "", "1", held),
		podGroup(dup, 1, 1, "Running", scheduled(metav1.ConditionTrue, "Placed", "1 pod on 1 node")), pod("dup-0", "node-0", "1", ofJob(dup)), pod("dup", "", "1"),
		podGroup(lost, 3, 1, "Unknown", scheduled(metav1.ConditionTrue, "Placed", "3 pods on 1 node")), pod("lost-0", "node-0", "1", ofJob(lost)),
		podGroup(wide, 1, 2, "Running", scheduled(metav1.ConditionTrue, "Placed", "1 pod on 1 node")),
	}
	for i, on := range []string{"node-0", "node-1", ""} {
		all = append(all, pod(fmt.Sprintf("wide-%d", i), on, "1", ofJob(wide)))
	}
	odd := job("odd")
	going := pod("going", "", "1", func(p *corev1.Pod) {
		p.DeletionTimestamp = new(ago(time.Second))
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "cpu 64"}}
	})
	return append(all, odd, node("node-0", "a", "r0"), node("node-1", "a", "r0"), going,
		pod("misnamed", "", "1", objects.InGroup("My_Band")),
		podGroup(odd, 1, 1, "Running", scheduled(metav1.ConditionTrue, "Placed", "1 pod on 1 node"),
			metav1.Condition{Type: "Valid", Status: metav1.ConditionFalse, Reason: "InvalidAnnotation", Message: `annotation incomplete-policy: "foo"`}),
		pod("odd-0", "node-1", "1", ofJob(odd)), pod("odd-1", "", "1", ofJob(odd), objects.InPhase(corev1.PodSucceeded)))
}

// served has a LeaderWorkerSet with two units of two pods. One of them waits.
func served() []runtime.Object {
	leaders := group.Owner{Group: "apps", Kind: "StatefulSet", Name: "vllm", UID: "uid-sts-vllm"}
	named := func(p *corev1.Pod) { p.Labels = map[string]string{leaderWorkerSetLabel: "vllm"} }
	all := []runtime.Object{node("node-0", "a", "r0"), set(leaders, group.Owner{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet", Name: "vllm", UID: "uid-vllm"})}
	for i, on := range []string{"node-0", ""} {
		leader := pod(fmt.Sprint("vllm-", i), on, "4", named, objects.OwnedBy(leaders))
		workers := group.Owner{Group: "apps", Kind: "StatefulSet", Name: leader.Name, UID: "uid-sts-" + leader.UID}
		pg := unitOf(leader)
		pg.Spec.MinMember, pg.Status.Phase = 2, scheduling.PodGroupPending
		pg.Status.Conditions = []metav1.Condition{scheduled(metav1.ConditionFalse, "NoRoom", "needs 2 pods with cpu 4; room for 0")}
		if on != "" {
			pg.Status.Phase, pg.Status.Scheduled = scheduling.PodGroupRunning, 2
			pg.Status.Conditions = []metav1.Condition{scheduled(metav1.ConditionTrue, "Placed", "2 pods on 1 node")}
		}
		all = append(all, leader, set(workers, group.Owner{Kind: "Pod", Name: leader.Name, UID: leader.UID}), pod(leader.Name+"-1", on, "4", named, objects.OwnedBy(workers)), pg)
	}
	return all
}

// unitOf is the PodGroup of a unit of a LeaderWorkerSet.
func unitOf(leader *corev1.Pod) *scheduling.PodGroup {
	return &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "lab", Name: group.Owner{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet", Name: leader.Name, UID: leader.UID}.PodGroupName(),
		UID: "group-" + leader.UID, CreationTimestamp: ago(5 * time.Minute), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: leader.Name, UID: leader.UID}},
	}}
}

// seated has a unit of a LeaderWorkerSet whose leader and first worker run. Two more workers have seats.
func seated() []runtime.Object {
	leaders := group.Owner{Group: "apps", Kind: "StatefulSet", Name: "vllm", UID: "uid-sts-vllm"}
	numbered := func(n string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels = map[string]string{leaderWorkerSetLabel: "vllm", "leaderworkerset.sigs.k8s.io/worker-index": n}
		}
	}
	leader := pod("vllm-0", "node-0", "4", numbered("0"), objects.OwnedBy(leaders))
	workers := group.Owner{Group: "apps", Kind: "StatefulSet", Name: leader.Name, UID: "uid-sts-" + leader.UID}
	pg := unitOf(leader)
	pg.Spec.MinMember, pg.Status.Phase, pg.Status.Scheduled = 1, scheduling.PodGroupRunning, 2
	pg.Spec.Templates = []scheduling.PodsOfTemplate{{Name: "leader", Coming: 1}, {
		Name: "worker", Expected: 3, After: string(group.AfterReady),
		Pod: &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"3"}}}]}}`)},
	}}
	pg.Status.Seats = map[string]map[string]int32{"leader": {"node-0": 1}, "worker": {"node-0": 1, "node-1": 2}}
	pg.Status.Conditions = []metav1.Condition{scheduled(metav1.ConditionTrue, "Expecting", "2 of 4 bound, 2 expected, seats until 12:05Z: 2 pods on 2 nodes (node-0: 1, node-1: 1)")}
	return []runtime.Object{
		node("node-0", "a", "r0"), node("node-1", "a", "r0"), pg, leader, pod("vllm-0-1", "node-1", "3", numbered("1"), objects.OwnedBy(workers)),
		set(leaders, group.Owner{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet", Name: "vllm", UID: "uid-vllm"}),
		set(workers, group.Owner{Kind: "Pod", Name: leader.Name, UID: leader.UID}),
	}
}

// withoutSeats is the same group after its seats were given back.
func withoutSeats() []runtime.Object {
	all := seated()
	for _, o := range all {
		if pg, ok := o.(*scheduling.PodGroup); ok {
			pg.Status.Conditions = []metav1.Condition{scheduled(metav1.ConditionTrue, "Placed", "2 pods on 2 nodes (node-0: 1, node-1: 1)")}
		}
	}
	return all
}

// set is a StatefulSet that another object controls.
func set(o, controller group.Owner) *appsv1.StatefulSet {
	apiVersion := strings.TrimPrefix(controller.Group+"/v1", "/")
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "lab", Name: o.Name, UID: o.UID,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: controller.Kind, Name: controller.Name, UID: controller.UID, Controller: new(true)}},
	}}
}

// figures is the ConfigMap with the status of a scheduler.
func figures(f statusmap.Status) *corev1.ConfigMap {
	data, err := f.Data()
	if err != nil {
		panic(err)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "fluence-system", Name: statusmap.Name}, Data: data}
}

// lease is the Lease of a program whose first replica leads, and renewed it some time ago.
func lease(name string, renewed time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(noon.Add(-renewed))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fluence-system", Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(name + "-0_8d6f"), LeaseDurationSeconds: new(int32(15)), RenewTime: &at},
	}
}

// acquired sets how long ago the holder of a Lease got it.
func acquired(l *coordinationv1.Lease, ago time.Duration) *coordinationv1.Lease {
	l.Spec.AcquireTime = new(metav1.NewMicroTime(noon.Add(-ago)))
	return l
}

// free is a Lease that its holder has given up.
func free(name string) *coordinationv1.Lease {
	l := lease(name, time.Second)
	l.Spec.HolderIdentity = new("")
	return l
}

// healthy is a status beside leases that are held.
func healthy(f statusmap.Status) []runtime.Object {
	return []runtime.Object{figures(f), lease("fluence-scheduler", time.Second), lease("fluence-controller", 2*time.Second)}
}

// unanswered is a PodGroup that waits for the matcher. The scheduler wrote its condition at a time.
func unanswered(at time.Time) *scheduling.PodGroup {
	pg := podGroup(job("training"), 8, 0, "Pending", scheduled(metav1.ConditionFalse, "MatcherUnavailable", "the matcher does not answer"))
	pg.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "fluence-scheduler", Time: new(metav1.NewTime(at))}, {Manager: "fluence-controller", Time: new(metav1.NewTime(noon))}}
	return pg
}

// standingBy is this ConfigMap if no scheduler has led yet.
func standingBy() *corev1.ConfigMap {
	cm := figures(statusmap.Status{})
	cm.Data = map[string]string{statusmap.StandbyKey("fluence-scheduler-1", "id"): "{}"}
	return cm
}

func well() statusmap.Status {
	matched := noon.Add(-4 * time.Minute)
	return statusmap.Status{
		Epoch: 0xcafe, Nodes: 8, GroupsByPhase: map[string]int{"complete": 2, "held": 1}, WaitingByReason: map[string]int{"NoRoom": 1, "NeverFits": 1},
		PodsWithRoom: 4, MatcherAnswers: true, LastMatch: &matched, Leader: "fluence-scheduler-0", Version: "v0.7.0", Updated: noon.Add(-time.Minute),
	}
}

// promised is a group without a reason why it waits.
func promised() []runtime.Object {
	j := job("fresh")
	return []runtime.Object{j, podGroup(j, 1, 0, ""), pod("fresh-0", "", "1", ofJob(j))}
}
