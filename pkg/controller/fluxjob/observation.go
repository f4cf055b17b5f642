package fluxjob

import (
	"maps"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// An observation is what is known of one workload.
type observation struct {
	now time.Time
	// owner names the workload.
	owner group.Owner
	// workload is nil if it is gone.
	workload *workload
	// fluxJob is nil if there is none.
	fluxJob *v1alpha1.FluxJob
	// queue is the Queue of the FluxJob, or the one that the workload wants. It is nil if there is no such Queue.
	queue *v1alpha1.Queue
	// byDefault is the name of the queue that the Job's namespace has for Jobs that name none. It is empty if there is none, or
	// if it is newer than the Job.
	byDefault string
	// priority is that of the pods' PriorityClass. noClass is the name of the class if there is no such class.
	priority int32
	noClass  string
	// seats returns the nodes on which a Job has pods that have not ended.
	seats func() []v1alpha1.Seats
	// allowed reports whether the workload's namespace may use the queue. others returns what other jobs have of the queue.
	allowed func() bool
	others  func() (usage, error)
}

// wantedQueue returns the queue in which the workload is to wait, and "" if it is to wait in none.
func (o *observation) wantedQueue() string {
	if o.workload.labelled || !o.workload.isJob() {
		return o.workload.queue
	}
	return o.byDefault
}

// wanted returns the FluxJob as it is to be by what the workload says, what is wrong with the duration that it says, and what is wrong with
// its request. before is the one that is there, or an empty one.
func (o *observation) wanted(before *v1alpha1.FluxJob) (fj *v1alpha1.FluxJob, durationErr, requestErr error) {
	fj = before.DeepCopy()
	fj.Spec.Queue, fj.Spec.Workload = o.wantedQueue(), o.workload.reference()
	if o.noClass == "" {
		fj.Spec.Priority = o.priority
	}
	requestErr = o.workload.asked.write(fj)
	said, durationErr := saidBy(o.workload)
	sayDuration(fj, said)
	return fj, durationErr, requestErr
}

// seatsOn returns the seats of pods on nodes, of which on has the numbers.
func seatsOn(on map[string]int32) []v1alpha1.Seats {
	var nodes []string
	for _, node := range slices.Sorted(maps.Keys(on)) {
		for range on[node] {
			nodes = append(nodes, node)
		}
	}
	return v1alpha1.SeatsOf(nodes)
}
