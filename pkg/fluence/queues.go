package fluence

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/admission"
	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/flowcontrol"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// queues is what the plugin has to do with queues of jobs: the driver that decides which job is next, and what is known of the
// workloads that the jobs are of. A job and its group have names that follow from the workload alone, so that each is found
// by the other.
type queues struct {
	*admission.Driver
	owners *owners
	// pods are the pods with the index lonePodsByJob.
	pods cache.Indexer
	// room is what filters have refused of the room of jobs.
	room roomRefusals
	// leaving is the room that pods of jobs have just left.
	leaving leavingRooms
	// forJobs is the room for which jobs may not have asked yet.
	forJobs freedForJobs
	// letAsk is true if a group was refused because jobs that wait are to ask first.
	letAsk atomic.Bool
}

// mustLetAsk reports whether groups in no queue let jobs ask first that waited when this scheduler began to lead. Then
// queuedChanged tells when that is over.
func (q *queues) mustLetAsk() bool {
	if q.Restored() {
		return false
	}
	q.letAsk.Store(true)
	return !q.Restored()
}

// lonePodsByJob is the name of the index of pods that nothing controls by the FluxJob that each would have.
const lonePodsByJob = "fluence.lonePodsByJob"

// indexLonePods adds the index lonePodsByJob to an informer of pods, unless it has it from an attempt before.
func indexLonePods(pods cache.SharedIndexInformer) error {
	if pods.GetIndexer().GetIndexers()[lonePodsByJob] != nil {
		return nil
	}
	err := pods.AddIndexers(cache.Indexers{lonePodsByJob: func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok || group.ControllerOf(pod) != (group.Owner{}) {
			return nil, nil
		}
		return []string{pod.Namespace + "/" + ownerOf(pod).PodGroupName()}, nil
	}})
	if err != nil {
		return fmt.Errorf("index pods that nothing controls: %w", err)
	}
	return nil
}

// ownerOf returns a pod as the owner that it is of itself.
func ownerOf(pod *corev1.Pod) group.Owner {
	return group.Owner{Kind: "Pod", Name: pod.Name, UID: pod.UID}
}

// initQueues builds the driver. It does nothing until run is called.
func initQueues(pl *Fluence, matcher match.Engine, leading func() bool) error {
	// The driver bounds its requests in flight.
	client, err := v1alpha1.RESTClientFor(flowcontrol.Unlimited(pl.handle.KubeConfig()))
	if err != nil {
		return err
	}
	core := pl.handle.SharedInformerFactory().Core().V1()
	b := pl.base
	b.queues.owners, b.queues.pods = pl.owners, core.Pods().Informer().GetIndexer()
	b.queues.Driver, err = admission.New(admission.Config{
		API: client,
		Cluster: admission.Cluster{
			Nodes: core.Nodes().Informer(), Namespaces: core.Namespaces().Informer(), Pods: core.Pods().Informer(), PodsByJob: podsByJob,
			Jobs: pl.owners.jobs(),
		},
		Groups: admission.Groups{
			Rules:  pl.placementRules,
			Claims: func(rank gang.Rank) admission.Claims { return claimsBefore(&pl.groupPlacer, rank) },
			Placed: func(job types.NamespacedName) []string { return placedOfJob(b, job) },
			Names: func(r match.Reason, reader types.NamespacedName) (blocker, promised string) {
				return namesFor(b, r, reader)
			},
			FirstPromise: b.promises.firstOn,
			Changed:      func(jobs ...types.NamespacedName) { queuedChanged(b, jobs) },
			RoomFreed:    func() { b.observeEvent(gang.Released) }, // the driver knows
			Asked:        func() { jobsAsked(b) },
			EndChanged:   func(job types.NamespacedName) { jobEndChanged(b, job) },
		},
		Engine: matcher, Epoch: pl.inventory.Epoch, Recorder: pl.recorder, Leading: leading,
		MaxBypass: max(1, pl.args.MaxBypass.Duration), // zero means for ever there, and no time at all here
		Timeout:   pl.args.MatchTimeout.Duration, Now: func() time.Time { return pl.now() },
	})
	return err
}

// run works until ctx ends. It adds the lists of Queues and FluxJobs to l: the matcher's graph is loaded with the room of
// jobs that have no pods yet.
func (q *queues) run(ctx context.Context, l *initialSync) {
	listed := l.addSource()
	late := time.AfterFunc(syncTimeout, func() {
		klog.FromContext(ctx).Info("Objects were not listed in time; groups are placed without them", "resource", v1alpha1.FluxJobs.Resource, "after", syncTimeout)
		listed()
		q.GiveUpRestoring()
	})
	go func() {
		defer late.Stop()
		q.Run(ctx, func() {
			late.Stop()
			listed()
		})
	}()
}

// A workload is what a pod belongs to, as queues see it.
type workload struct {
	// job is the key of the FluxJob that it has if it is in a queue. It is zero if it can have none.
	job types.NamespacedName
	// queue is the queue that its labels name. It is empty if they name none.
	queue string
	// foreign says why it cannot wait in a queue, in words fit for a user. It is empty if it can.
	foreign string
}

// workloadOf returns the workload of a pod.
func (q *queues) workloadOf(pod *corev1.Pod) (w workload) {
	of, labels := group.ControllerOf(pod), []map[string]string{pod.Labels}
	switch {
	case of == (group.Owner{}):
		of = ownerOf(pod)
	case !isJob(of):
		w.foreign = q.whyNoJob(pod.Namespace, of)
	default:
		if job, ok := q.owners.find(pod.Namespace, of).(*batchv1.Job); ok {
			labels = append([]map[string]string{job.Labels}, labels...)
			w.foreign = group.WhyOthers(job)
		}
	}
	w.queue, _ = group.QueueOf(labels...)
	for _, l := range labels {
		if queue, is := l[group.KueueLabel]; is && w.foreign == "" {
			w.foreign = fmt.Sprintf("label %s: %q: Kueue manages it", group.KueueLabel, queue)
		}
	}
	if w.foreign == "" {
		w.job = types.NamespacedName{Namespace: pod.Namespace, Name: of.PodGroupName()}
	}
	return w
}

// hasLabel reports whether a pod or its Job has the label of a queue.
func (q *queues) hasLabel(pod *corev1.Pod) bool {
	if _, is := pod.Labels[group.QueueLabel]; is {
		return true
	}
	of := group.ControllerOf(pod)
	if !isJob(of) {
		return false
	}
	job, ok := q.owners.find(pod.Namespace, of).(*batchv1.Job)
	if !ok {
		return false
	}
	_, is := job.Labels[group.QueueLabel]
	return is
}

// whyNoJob says why pods that an object controls which is no Job cannot wait in a queue.
func (q *queues) whyNoJob(namespace string, of group.Owner) string {
	if of.Watched() {
		if above, ok := q.owners.ControllerOf(namespace, of); ok && above != (group.Owner{}) {
			of = above
		}
	}
	why := ""
	if of.Group == "apps" {
		why = fmt.Sprintf("a %s does not end: ", of.Kind)
	}
	return fmt.Sprintf("%s%s %s controls the pods, and only Jobs that nothing controls, and single pods, wait in queues", why, of.Kind, of.Name)
}

// jobOf returns the key of the FluxJob that a group has if it is in a queue.
func jobOf(ofGroup types.NamespacedName) types.NamespacedName {
	if pod, alone := group.Alone(ofGroup); alone {
		return types.NamespacedName{Namespace: ofGroup.Namespace, Name: pod.PodGroupName()}
	}
	return ofGroup
}

// groupOf returns the group of a FluxJob.
func groupOf(b *base, job types.NamespacedName) types.NamespacedName {
	// An index that was added does not fail.
	if pods, _ := b.queues.pods.ByIndex(lonePodsByJob, job.String()); len(pods) > 0 {
		if key, ok := b.groups.KeyOf(pods[0].(*corev1.Pod).UID); ok {
			return key
		}
	}
	return job
}

// whyQueued returns why a group waits for its turn in a queue, or because of its queue label, as gang.Groups.SetWhyQueued has
// it. It is called with the lock of the groups held, and under the lock of the scheduling queue.
func whyQueued(b *base, key types.NamespacedName, pod *corev1.Pod) (why, message string) {
	if b.args.Unqueued || b.queues.Empty() && (pod == nil || !b.queues.hasLabel(pod)) {
		return "", ""
	}
	job := jobOf(key)
	if pod == nil {
		return asQueued(b.queues.Status(job, ""))
	}
	w := b.queues.workloadOf(pod)
	if w.foreign != "" && w.queue != "" {
		return reason.NotAllowed, fmt.Sprintf("label %s: %q: %s", group.QueueLabel, w.queue, w.foreign)
	}
	if w.job == (types.NamespacedName{}) || w.job == job {
		return asQueued(b.queues.Status(job, w.queue))
	}
	// The pod is in another group than that of its workload, which others may share. That group may have a job that waits.
	if held, text := b.queues.Status(job, ""); held {
		return asQueued(held, text)
	}
	held, _ := b.queues.Status(w.job, w.queue)
	if _, admitted := b.queues.End(w.job); held || admitted {
		return reason.NotAllowed, fmt.Sprintf("the pod is in %s, and only Jobs and single pods that name no group wait in queues", group.KeyText(key))
	}
	return "", ""
}

// whyPlanQueued returns why pods of a plan wait for a turn in a queue, or may not start because of it. PreEnqueue has asked for the
// representative only. It returns nil if all may start.
func whyPlanQueued(b *base, plan gang.Plan) *gang.Refusal {
	asked := map[string]bool{}
	for _, pod := range slices.Concat(plan.Required, plan.Optional) {
		// Pods with one controller and one label have one answer, and so have all pods with neither.
		of, queue := group.ControllerOf(pod), pod.Labels[group.QueueLabel]
		alike := string(of.UID) + "/" + queue
		if asked[alike] && (of != (group.Owner{}) || queue == "") {
			continue
		}
		asked[alike] = true
		if why, message := whyQueued(b, plan.Key, pod); why != "" {
			return &gang.Refusal{Reason: why, Message: message, RetryOn: gang.ClusterEvents(), Backoff: true}
		}
	}
	return nil
}

// asQueued returns the reason of a group that is held, and its message.
func asQueued(held bool, message string) (why, text string) {
	if !held {
		return "", ""
	}
	return reason.Queued, message
}

// queuedChanged lets the groups of jobs ask that may be held no longer. Without jobs it is all groups.
func queuedChanged(b *base, jobs []types.NamespacedName) {
	if len(jobs) == 0 {
		b.activator.activateAll()
		if b.queues.letAsk.Swap(false) {
			b.observeEvent(gang.Released)
		}
		return
	}
	for _, job := range jobs {
		key := groupOf(b, job)
		if held, _ := b.queues.Status(job, ""); !held {
			// It was refused another room, or its room lately.
			b.groups.ExpireBackoff(key)
		}
		b.activator.activateGroups(key)
		jobEndChanged(b, job)
		if _, admitted := b.queues.End(job); !admitted && b.queues.leaving.drop(job) {
			roomFreed(b, gang.Released)
		}
	}
}
