package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// promiseSlack is by how much a promise may move later that nothing moves. It is written in whole seconds.
const promiseSlack = time.Second

// A diary has what becomes of Jobs of a queue, change by change, and what was wrong with it. Each pod of them takes a whole node.
type diary struct {
	mu sync.Mutex
	// order are the names of the Jobs, in the order in which they are to start.
	order []string
	turns map[string]*turn
	wrong []string
}

// A turn is what was seen of one Job.
type turn struct {
	// pods is how many pods it runs, each of them once.
	pods int
	// suspend is spec.suspend, and resumed is how often the Job was let go.
	suspend bool
	resumed int
	// on has the node of each pod that ever had one, and holds those pods that have not ended.
	on    map[types.UID]string
	holds map[types.UID]struct{}
	// made are the pods that exist without a node.
	made map[types.UID]struct{}

	fluxJob     *v1alpha1.FluxJob
	allocations []string
	promise     *v1alpha1.JobPromise
}

// write begins to write a diary of the story's namespace.
func (s *story) write() *diary {
	s.Helper()
	d := &diary{turns: map[string]*turn{}}
	client, err := v1alpha1.RESTClientFor(s.RESTConfig())
	if err != nil {
		s.Fatal(err)
	}
	all := informers.NewSharedInformerFactoryWithOptions(s.Client(), 0, informers.WithNamespace(s.ns))
	fluxJobs := cache.NewSharedInformer(cache.NewListWatchFromClient(client, v1alpha1.FluxJobs.Resource, s.ns, fields.Everything()), &v1alpha1.FluxJob{}, 0)
	for informer, seen := range map[cache.SharedInformer]func(obj any, gone bool){
		all.Core().V1().Pods().Informer():  func(obj any, gone bool) { d.podSeen(obj.(*corev1.Pod), gone) },
		all.Batch().V1().Jobs().Informer(): func(obj any, _ bool) { d.jobSeen(obj.(*batchv1.Job)) },
		fluxJobs:                           func(obj any, _ bool) { d.fluxJobSeen(obj.(*v1alpha1.FluxJob)) },
	} {
		locked := func(obj any, gone bool) {
			if last, is := obj.(cache.DeletedFinalStateUnknown); is {
				obj = last.Obj
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			seen(obj, gone)
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { locked(obj, false) }, UpdateFunc: func(_, obj any) { locked(obj, false) }, DeleteFunc: func(obj any) { locked(obj, true) },
		}); err != nil {
			s.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
		s.Cleanup(cancel)
		go informer.RunWithContext(ctx)
		if !cache.WaitForCacheSync(s.Context().Done(), informer.HasSynced) {
			s.Fatal("the diary was not begun")
		}
	}
	return d
}

// expect says that a Job of n pods is to start after those that were expected before.
func (d *diary) expect(job string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order = append(d.order, job)
	d.turns[job] = &turn{pods: n, on: map[types.UID]string{}, holds: map[types.UID]struct{}{}, made: map[types.UID]struct{}{}}
}

// forget ends what is written of a Job.
func (d *diary) forget(job string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order = slices.DeleteFunc(d.order, func(name string) bool { return name == job })
	delete(d.turns, job)
}

// note notes what is wrong.
func (d *diary) note(format string, args ...any) {
	d.wrong = append(d.wrong, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// takeWrong returns what was wrong since the last call.
func (d *diary) takeWrong() (wrong []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wrong, d.wrong = d.wrong, nil
	return wrong
}

// of calls f with what is known of a Job.
func (d *diary) of(job string, f func(*turn)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.turns[job]; t != nil {
		f(t)
	}
}

func (d *diary) podSeen(pod *corev1.Pod, gone bool) {
	job := pod.Labels[batchv1.JobNameLabel]
	t := d.turns[job]
	if t == nil {
		return
	}
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	node := pod.Spec.NodeName
	_, had := t.on[pod.UID]
	switch {
	case node == "" && gone:
		delete(t.made, pod.UID)
		return
	case node == "":
		t.made[pod.UID] = struct{}{}
		return
	case !had:
		delete(t.made, pod.UID)
		t.on[pod.UID], t.holds[pod.UID] = node, struct{}{}
		d.started(job, pod)
	}
	if _, holds := t.holds[pod.UID]; !holds {
		return
	}
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		d.note("pod %s has failed: %s, %s", pod.Name, pod.Status.Reason, pod.Status.Message)
	case !ended && (gone || pod.DeletionTimestamp != nil):
		d.note("pod %s is deleted, and has not ended", pod.Name)
	}
	if ended || gone || pod.DeletionTimestamp != nil {
		delete(t.holds, pod.UID)
	}
}

// started judges a pod that has just come to a node.
func (d *diary) started(job string, pod *corev1.Pod) {
	if t := d.turns[job]; len(t.on) > t.pods {
		d.note("pod %s is the %dth of %s with a node, want %d", pod.Name, len(t.on), job, t.pods)
	}
	own := false
	for _, name := range d.order {
		other := d.turns[name]
		if own = own || name == job; !own && len(other.on) < other.pods {
			d.note("pod %s has a node, and only %d of %d pods of %s have had one, whose turn is before", pod.Name, len(other.on), other.pods, name)
		}
		for uid := range other.holds {
			if uid != pod.UID && other.on[uid] == pod.Spec.NodeName {
				d.note("pod %s is on %s, which a pod of %s has", pod.Name, pod.Spec.NodeName, name)
			}
		}
	}
}

func (d *diary) jobSeen(job *batchv1.Job) {
	t := d.turns[job.Name]
	if t == nil {
		return
	}
	was := t.suspend
	t.suspend = ptr.Deref(job.Spec.Suspend, false)
	switch {
	case was && !t.suspend:
		if t.resumed++; t.resumed > 1 {
			d.note("Job %s is let go for the %dth time", job.Name, t.resumed)
		}
	case t.suspend && t.resumed > 0 && !was:
		d.note("Job %s is suspended after it was let go", job.Name)
	}
}

func (d *diary) fluxJobSeen(fj *v1alpha1.FluxJob) {
	t := d.turns[fj.Spec.Workload.Name]
	if t == nil {
		return
	}
	if t.fluxJob != nil && t.fluxJob.UID != fj.UID {
		d.note("%s has a second FluxJob", fj.Spec.Workload.Name)
	}
	t.fluxJob = fj
	if a := fj.Status.Allocation; a == nil && len(t.allocations) > 0 {
		d.note("%s has lost its allocation: %+v", fj.Name, fj.Status)
	} else if a != nil {
		text, err := json.Marshal(a.Seats)
		if now := fmt.Sprintf("attempt %d: %s", a.Attempt, text); err != nil || !slices.Contains(t.allocations, now) {
			if t.allocations = append(t.allocations, now); len(t.allocations) > 1 {
				d.note("%s has the allocations %v, %v", fj.Name, t.allocations, err)
			}
		}
	}
	if p := fj.Status.Promise; p != nil && d.restsOnWhatIsWritten(fj.Spec.Workload.Name) {
		if t.promise != nil && p.At.Sub(t.promise.At.Time) > promiseSlack {
			d.note("what is promised to %s has moved from %s to %s: %q", fj.Name, t.promise.At, p.At, p.Why)
		}
		t.promise = p
	}
}

// restsOnWhatIsWritten reports whether all Jobs before a Job have their allocations. What was promised to it before that may move:
// if a scheduler is killed before it has written an allocation, the next one decides anew, and a moment later.
func (d *diary) restsOnWhatIsWritten(job string) bool {
	before := d.order[:slices.Index(d.order, job)]
	return !slices.ContainsFunc(before, func(name string) bool { return len(d.turns[name].allocations) == 0 })
}

// condition returns the reason and the message of a condition of the FluxJob.
func (t *turn) condition(kind string) string {
	if t.fluxJob == nil {
		return "no FluxJob"
	}
	c := meta.FindStatusCondition(t.fluxJob.Status.Conditions, kind)
	if c == nil {
		return "no condition"
	}
	return c.Reason + ": " + c.Message
}

// String says how far the Job has come.
func (t *turn) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "suspend %t, let go %d times, %d pods wait, %d had nodes, %d have them", t.suspend, t.resumed, len(t.made), len(t.on), len(t.holds))
	if fj := t.fluxJob; fj != nil {
		fmt.Fprintf(&text, "; FluxJob %s %s, promise %v, allocations %v, %s", fj.Status.Phase, fj.Status.Result, fj.Status.Promise, t.allocations, t.condition(v1alpha1.ConditionAdmitted))
	}
	return text.String()
}
