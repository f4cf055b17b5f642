package admission

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// takeOver does what the plugin does when pods come to a job: a match takes slots over, and the pods have nodes.
func (r *rig) takeOver(key types.NamespacedName, pods int) {
	r.Helper()
	t, ok := r.d.Allocation(key)
	if !ok || len(t.Slots) < pods {
		r.Fatalf("Allocation(%s) = %+v, %v, want %d slots", key.Name, t, ok, pods)
	}
	var keys []string
	for _, s := range t.Slots[:pods] {
		keys = append(keys, s.Key)
		r.placed[key] = append(r.placed[key], s.Node)
	}
	r.must(r.engine.Release(r.Context(), r.epoch, t.Job, keys...))
	r.d.TakenOver(key, keys)
	r.step()
}

// podsEnd takes the first pods of a job from their nodes, and says how many have succeeded by now.
func (r *rig) podsEnd(key types.NamespacedName, pods, succeeded int) {
	r.Helper()
	r.placed[key] = r.placed[key][pods:]
	r.editJob(key, func(job *batchv1.Job) { job.Status.Succeeded = int32(succeeded) })
}

// editJob changes the Job of a FluxJob.
func (r *rig) editJob(key types.NamespacedName, edit func(*batchv1.Job)) {
	r.Helper()
	obj, _, err := r.d.cfg.Cluster.Jobs.GetStore().GetByKey(key.String())
	r.must(err)
	job := obj.(*batchv1.Job).DeepCopy()
	edit(job)
	r.must(r.d.cfg.Cluster.Jobs.GetStore().Update(job))
	r.d.batchJobChanged(job)
	r.step()
}

func TestPodsTakeTheRoomOfTheirJobOver(t *testing.T) {
	r := newRig(t, 4, easy("batch"))
	a := r.submit("a", "batch", 4, 4, "1h")
	r.step()
	r.release(a)
	r.holds("a@n1,n2,n3,n4")
	r.takeOver(a, 2)
	r.holds("a@n3,n4")
	// A pod that has lost its node gets it back, and one that has succeeded needs none.
	r.placed[a] = []string{"n2"}
	r.d.Recheck(a)
	r.step()
	r.holds("a@n1,n3,n4")
	r.takeOver(a, 3)
	r.holds("")
	r.podsEnd(a, 1, 1)
	r.holds("")
	// A pod has failed, and another one is to come.
	r.podsEnd(a, 1, 1)
	if got, _ := r.d.Allocation(a); len(got.Slots) != 1 {
		t.Errorf("Allocation() = %+v, want one slot for the pod that is to come", got)
	}
}

func TestRoomIsTheJobsAgainAfterTakeoversThatWereRefused(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 2, 4, "1h")
	r.step()
	r.release(a)
	for range 2 {
		// The pods get nodes, and are refused before the loop has looked.
		got, _ := r.d.Allocation(a)
		keys := []string{got.Slots[0].Key, got.Slots[1].Key}
		r.must(r.engine.Release(r.Context(), r.epoch, got.Job, keys...))
		r.d.TakenOver(a, keys)
		r.d.Recheck(a)
		r.step()
		r.holds("a@n1,n2")
	}
	// The loop has booked them again before it hears of the takeover.
	r.d.jobs.doubtful = append(r.d.jobs.doubtful, match.SlotRef{Job: r.d.jobs.byKey[a].room.id, Keys: v1alpha1.SlotKeys(r.d.jobs.byKey[a].room.id, 2)})
	r.step()
	r.holds("a@n1,n2")
}

func TestTheGraphIsLoadedWithoutRoomThatPodsHaveTaken(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 2, 4, "1h")
	r.step()
	r.release(a)
	r.takeOver(a, 1)
	r.build()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer refuses.Close()
	client, err := v1alpha1.RESTClientFor(&rest.Config{Host: refuses.URL})
	r.must(err)
	r.d.queuesRead.client, r.d.jobsRead.client = client, client
	ctx, cancel := context.WithCancel(r.Context())
	r.d.Run(ctx, func() {
		cancel()
		if all := r.d.Jobs(); len(all) != 1 || len(all[0].Slots) != 1 || all[0].Slots[0].Node != "n2" {
			t.Errorf("Jobs() = %+v, want the slot on n2", all)
		}
	})
}

func TestRoomThatAJobHasAgainIsNotReleased(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 2, 4, "1h")
	r.step()
	r.release(a)
	r.d.jobs.mu.Lock()
	r.d.jobs.giveUp(r.d.jobs.byKey[a])
	r.d.jobs.mu.Unlock()
	r.must(r.d.jobs.Update(r.job(a)))
	lost := &unreleased{Engine: r.engine, fail: true}
	r.d.cfg.Engine = lost
	r.step()
	r.holds("a@n1,n2")
	lost.fail = false
	r.step()
	r.holds("a@n1,n2")
}

// unreleased is an engine that does not release while fail is set.
type unreleased struct {
	match.Engine
	fail bool
}

func (u *unreleased) Release(ctx context.Context, at match.Epoch, id match.JobID, keys ...string) error {
	if u.fail {
		return errors.New("connection refused")
	}
	return u.Engine.Release(ctx, at, id, keys...)
}

func TestRoomIsKeptForPodsToComeOnly(t *testing.T) {
	cases := map[string]struct {
		edit   func(*batchv1.Job)
		placed []string
		want   string
	}{
		"none has come":               {want: "a@n1,n2,n3,n4"},
		"some have nodes":             {placed: []string{"n1", "n3"}, want: "a@n2,n4"},
		"one is on another node":      {placed: []string{"n9"}, want: "a@n1,n2,n3"},
		"most have succeeded":         {edit: func(j *batchv1.Job) { j.Status.Succeeded = 3 }, want: "a@n1"},
		"fewer run at a time":         {edit: func(j *batchv1.Job) { *j.Spec.Parallelism = 2 }, placed: []string{"n2"}, want: "a@n1"},
		"more run at a time":          {edit: func(j *batchv1.Job) { *j.Spec.Parallelism, *j.Spec.Completions = 9, 9 }, placed: []string{"n2"}, want: "a@n1,n3,n4"},
		"a work queue":                {edit: func(j *batchv1.Job) { j.Spec.Completions = nil }, placed: []string{"n2"}, want: "a@n1,n3,n4"},
		"a work queue that is empty":  {edit: func(j *batchv1.Job) { j.Spec.Completions, j.Status.Succeeded = nil, 1 }, placed: []string{"n2"}, want: ""},
		"the Job is complete":         {edit: ended(batchv1.JobComplete), want: ""},
		"the Job is about to fail":    {edit: ended(batchv1.JobFailureTarget), placed: []string{"n1"}, want: ""},
		"it is suspended until later": {edit: func(j *batchv1.Job) { j.Spec.Suspend = new(true) }, want: "a@n1,n2,n3,n4"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 4, easy("batch"))
			a := r.submit("a", "batch", 4, 4, "1h")
			r.step()
			r.placed[a] = tc.placed
			r.d.Recheck(a)
			if tc.edit != nil {
				r.editJob(a, tc.edit)
			}
			r.step()
			r.holds(tc.want)
			// The same after a restart.
			r.build()
			r.putQueue(easy("batch"))
			r.reload()
			r.step()
			r.holds(tc.want)
		})
	}
}

func ended(as batchv1.JobConditionType) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: as, Status: corev1.ConditionTrue}}
	}
}

func TestTheRoomOfPodsThatHaveSucceededIsTheNextJobs(t *testing.T) {
	r := newRig(t, 4, easy("batch"))
	a := r.submit("a", "batch", 4, 4, "1h")
	r.submit("b", "batch", 3, 4, "1h")
	r.step()
	r.release(a)
	r.takeOver(a, 4)
	// The pods hold their nodes in the matcher by themselves.
	pods := match.Job{ID: 7}
	set := r.d.jobs.byKey[a].room.set
	for _, node := range r.placed[a] {
		pods.Slots = append(pods.Slots, match.Slot{Key: node, Node: node, R: set})
	}
	r.must(r.engine.Update(r.Context(), r.epoch, pods))
	r.step()
	r.shows("a: Running Admitted n[1-4]*1", "b: Waiting Promised 3 from 1h0m1s")
	// Their status says so before that of the Job.
	for i, node := range r.placed[a][:3] {
		pod := objects.Pod("a"+node, objects.In(ns), objects.OnNode(node), objects.InPhase(corev1.PodSucceeded), func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "a", UID: "job-a", Controller: new(true)}}
		})
		r.must(r.d.cfg.Cluster.Pods.GetStore().Add(pod))
		r.placed[a] = slices.DeleteFunc(slices.Clone(r.placed[a]), func(n string) bool { return n == node })
		r.must(r.engine.Release(r.Context(), r.epoch, 7, node))
		r.d.podChanged(nil, pod)
		r.d.RoomFreed()
		r.step()
		if got, _ := r.d.Allocation(a); len(got.Slots) != 0 {
			t.Errorf("after %d pods have succeeded room is kept for others: %+v", i+1, got)
		}
	}
	r.shows("a: Running Admitted n[1-4]*1", "b: Ready Admitted n[1-3]*1")
}

func TestALonePodTakesItsRoom(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "1h", func(fj *v1alpha1.FluxJob) { fj.Spec.Workload.Kind, fj.Spec.Workload.APIVersion = "Pod", "v1" })
	pod := objects.Pod("a", objects.In(ns), func(p *corev1.Pod) { p.UID = "job-a" })
	r.must(r.d.cfg.Cluster.Pods.GetStore().Add(pod))
	r.step()
	r.release(a)
	r.step()
	r.holds("a@n1")
	r.takeOver(a, 1)
	r.holds("")
	r.placed[a] = nil
	over := pod.DeepCopy()
	over.Spec.NodeName, over.Status.Phase = "n1", corev1.PodSucceeded
	r.must(r.d.cfg.Cluster.Pods.GetStore().Update(over))
	r.d.podChanged(pod, over)
	r.step()
	r.holds("")
}

// A pod without a node has no kubelet that ends it, and a Job that was not let go has no time that runs. Their room is free again at
// its end, with the grace of the queue.
func TestRoomIsFreeAtItsEndThoughNothingHasBegun(t *testing.T) {
	const requeued, stays = 1, 0
	cases := map[string]struct {
		isJob, letGo, onNode bool
		placed               []string
		want                 int32
	}{
		"a pod without a node":         {letGo: true, want: requeued},
		"a pod that has an assignment": {letGo: true, placed: []string{"n1"}, want: stays},
		"a pod on a node":              {letGo: true, onNode: true, want: stays},
		"a pod that was not let go":    {want: requeued},
		"a Job that was not let go":    {isJob: true, want: requeued},
		"a Job that was":               {isJob: true, letGo: true, want: stays},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, fcfs("batch", func(q *v1alpha1.Queue) { q.Spec.Grace = "1m" }))
			a := r.submit("a", "batch", 1, 4, "1h", func(fj *v1alpha1.FluxJob) {
				if !tc.isJob {
					fj.Spec.Workload.Kind, fj.Spec.Workload.APIVersion = "Pod", "v1"
				}
			})
			r.must(r.d.cfg.Cluster.Pods.GetStore().Add(objects.Pod("a", objects.In(ns), func(p *corev1.Pod) {
				p.UID = "job-a"
				if tc.onNode {
					p.Spec.NodeName = "n1"
				}
			})))
			r.step()
			if tc.letGo {
				r.release(a)
			}
			r.placed[a] = tc.placed
			r.after(time.Hour + 40*time.Second)
			if n := r.job(a).Status.Requeues; n != 0 {
				t.Fatalf("it was requeued %d times before the end of its room", n)
			}
			r.after(30 * time.Second)
			if n := r.job(a).Status.Requeues; n != tc.want {
				t.Errorf("it was requeued %d times, want %d", n, tc.want)
			}
		})
	}
}

func TestNodesThatFiltersRefuseAreLeftOut(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "1h")
	r.step()
	r.release(a)
	r.d.Refused(a, []string{"n1"}, "0/2 nodes: a volume is not there")
	if held, why := r.d.Status(a, ""); !held || !strings.Contains(why, "a volume is not there") {
		t.Errorf("Status() = %v, %s", held, why)
	}
	r.step()
	r.shows("a: Ready Admitted n2*1")
	if fj := r.job(a); fj.Status.Requeues != 1 || fj.Status.Allocation.Attempt != 2 {
		t.Errorf("it was requeued %d times and has allocation %d, want 1 and 2", fj.Status.Requeues, fj.Status.Allocation.Attempt)
	}
	r.holds("a@n2")
	r.release(a)
	r.d.Refused(a, []string{"n2"}, "no")
	r.step()
	r.shows("a: Waiting Unplaceable")
	r.holds("")
	// The class may use a node again that has changed.
	r.changeNode("n1", func(n *corev1.Node) { n.Labels = map[string]string{"volume": "yes"} })
	r.step()
	r.shows("a: Ready Admitted n1*1")
	r.release(a)
	r.d.Refused(a, []string{"n1"}, "no")
	r.step()
	r.after(refusedFor + time.Minute)
	r.shows("a: Waiting Unplaceable")
	if got := r.message(a); !strings.Contains(got, "3 allocations") {
		t.Errorf("the message is %q", got)
	}
	r.edit(a, func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = "2h" })
	r.step()
	r.shows("a: Ready Admitted n1*1")
	if !slices.Contains(r.events, "Requeued Job a") || !slices.Contains(r.events, "Admitted FluxJob a") {
		t.Errorf("the events are %q", r.events)
	}
	// Each has its own note.
	if all := len(r.about); len(slices.Compact(slices.Sorted(slices.Values(r.about)))) != all {
		t.Errorf("the recorder takes some of these events for equal: %q", r.about)
	}
}

func TestAStandbyTellsThatTheEndOfARoomHasChanged(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "1h")
	r.step()
	r.release(a)
	r.step()
	r.told = nil
	// The one that leads knows what it has written itself: it tells once, when the matcher has that end.
	r.edit(a, func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = "2h" })
	r.step()
	if now := r.job(a).Status.Allocation; now.End.Sub(now.At.Time) < 2*time.Hour || len(r.told) > 1 {
		t.Errorf("the allocation is %v, and these groups were told: %v", now, r.told)
	}
	r.d.state.leads.Store(false)
	r.step()
	r.told = nil
	later := func(by time.Duration) {
		r.edit(a, func(fj *v1alpha1.FluxJob) {
			fj.Status.Allocation.End = &metav1.Time{Time: fj.Status.Allocation.End.Add(by)}
		})
		r.step()
	}
	later(0)
	if len(r.told) > 0 {
		t.Errorf("these groups were told though nothing changed: %v", r.told)
	}
	later(time.Minute)
	if !slices.Contains(r.told, a) {
		t.Errorf("these groups were told: %v, want %v", r.told, a)
	}
}

func TestAStartedJobLosesOnlyTheRefusedNode(t *testing.T) {
	r := newRig(t, 3, easy("batch"))
	a := r.submit("a", "batch", 3, 4, "1h")
	r.step()
	r.release(a)
	r.takeOver(a, 1)
	r.d.Refused(a, []string{"n2"}, "no")
	r.step()
	r.shows("a: Running Admitted n[1,3]*1")
	r.holds("a@n3")
	if !slices.Contains(r.events, "Unplaceable Job a") {
		t.Errorf("the events are %q, want one that the job loses room", r.events)
	}
	r.events = nil
	r.d.Refused(a, []string{"n1"}, "it has no room there that is left")
	r.step()
	r.holds("a@n3")
	if len(r.events) > 0 {
		t.Errorf("the events are %q, want none: it loses nothing", r.events)
	}
}

func TestAJobThatIsPreemptedWaitsAgain(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "1h")
	r.step()
	r.release(a)
	r.takeOver(a, 1)
	r.must(r.d.Preempt(r.Context(), keyOf(ns, "other"), "nobody's"))
	r.api.fail = func(*applied) error {
		r.api.fail = nil
		r.api.edit(a, func(fj *v1alpha1.FluxJob) { fj.Status.Started = &metav1.Time{Time: r.now} })
		return nil
	}
	r.must(r.d.Preempt(r.Context(), a, "evicted for ns/urgent"))
	r.shows("a: Waiting Preempted")
	if held, _ := r.d.Status(a, ""); !held {
		t.Error("new pods of it may enter")
	}
	r.after(tick)
	r.shows("a: Waiting Preempted")
	r.build() // another scheduler knows it too
	r.putQueue(easy("batch"))
	r.reload()
	r.after(tick)
	r.shows("a: Waiting Preempted")
	r.placed[a] = nil
	r.after(tick)
	r.shows("a: Ready Admitted n1*1")
	r.release(a)
	r.api.fail = func(*applied) error { return errors.New("connection refused") }
	if err := r.d.Preempt(r.Context(), a, "once more"); err == nil {
		t.Error("Preempt() succeeds though nothing was written")
	}
	r.api.fail = nil
	r.must(r.d.Preempt(r.Context(), a, "once more"))
	r.shows("a: Waiting Preempted")
}

func TestATimeLimitThatIsEdited(t *testing.T) {
	minutes := func(r *rig, key types.NamespacedName) float64 {
		a := r.job(key).Status.Allocation
		if a == nil || a.End == nil {
			return 0
		}
		return a.End.Sub(a.At.Time).Round(time.Minute).Minutes()
	}
	r := newRig(t, 2, easy("batch", func(q *v1alpha1.Queue) { q.Spec.Limits.Duration = "3h" }))
	a := r.submit("a", "batch", 1, 4, "1h")
	r.step()
	r.release(a)
	set := func(d string) {
		r.edit(a, func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = d })
		r.step()
	}
	set("40m")
	if got := minutes(r, a); got != 40 {
		t.Errorf("a shorter limit gives %v minutes", got)
	}
	r.holds("a@n1")
	set("2h")
	if got := minutes(r, a); got != 120 || len(r.ends) != 2 {
		t.Errorf("a longer limit gives %v minutes, want 120; the plugin was told %v", got, r.ends)
	}
	for _, d := range []string{"4h", "inf"} {
		if set(d); minutes(r, a) != 120 {
			t.Errorf("limit %s, beyond the queue's, gives %v minutes though nobody is promised the nodes", d, minutes(r, a))
		}
	}
	set("2h")
	wide := r.submit("b", "batch", 2, 4, "1h")
	r.step()
	from := r.job(wide).Status.Promise.At
	set("150m")
	if got := minutes(r, a); got != 120 {
		t.Errorf("a limit that delays a promise gives %v minutes, want 120", got)
	}
	valid := func() string {
		for _, c := range r.job(a).Status.Conditions {
			if c.Type == v1alpha1.ConditionValid {
				return string(c.Status) + " " + c.Reason + " " + c.Message
			}
		}
		return ""
	}
	if got := valid(); !strings.HasPrefix(got, "False WouldDelay") || !strings.Contains(got, "b, to whom its nodes are promised, by 29m") && !strings.Contains(got, "by 30m") {
		t.Errorf("the condition Valid is %q", got)
	}
	if p := r.job(wide).Status.Promise; !p.At.Equal(&from) {
		t.Errorf("the promise has moved from %s to %s", from, p.At)
	}
	set("30m")
	if got := valid(); got != "True Valid " {
		t.Errorf("the condition Valid is %q after a shorter limit", got)
	}
	if p := r.job(wide).Status.Promise; !p.At.Before(&from) {
		t.Errorf("the promise of the next is still from %s", p.At)
	}
	set("4h")
	if got := minutes(r, a); got != 30 {
		t.Errorf("a limit beyond the queue's gives %v minutes", got)
	}
}
