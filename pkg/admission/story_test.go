package admission

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/gang"
)

// valid returns what the controller says of a job that can run as it is.
func valid() []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonValid, LastTransitionTime: metav1.NewTime(begin)}}
}

// A job of which the controller has not said whether it can run does not start. An adopted one that waits again is such a job.
func TestAJobWaitsUntilItWasChecked(t *testing.T) {
	for name, conditions := range map[string][]metav1.Condition{
		"nothing is said": nil, "it is not known": {{Type: v1alpha1.ConditionValid, Status: metav1.ConditionUnknown}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, easy("batch"))
			a := r.submit("a", "batch", 1, 4, "1h", func(fj *v1alpha1.FluxJob) { fj.Status.Conditions = conditions })
			r.step()
			r.shows("a: Requested")
			if held, why := r.d.Status(a, ""); !held || why != "waits for the controller to check its FluxJob" {
				t.Errorf("Status() = %v, %q", held, why)
			}
			r.edit(a, func(fj *v1alpha1.FluxJob) { fj.Status.Conditions = valid() })
			r.step()
			r.shows("a: Ready Admitted n1*1")
		})
	}
}

func TestOneQueueStartsItsJobsInTheirOrder(t *testing.T) {
	r := newRig(t, 2, fcfs("batch"))
	a := r.submit("a", "batch", 2, 4, "10m")
	b := r.submit("b", "batch", 1, 4, "10m")
	r.step()
	r.shows("a: Ready Admitted n[1-2]*1", "b: Waiting NoRoom")
	r.holds("a@n1,n2")
	if held, why := r.d.Status(b, ""); !held || why == "" {
		t.Errorf("Status(b) = %v, %q, want it held and why", held, why)
	}
	if held, why := r.d.Status(a, "batch"); held {
		t.Errorf("Status(a) = held: %s", why)
	}
	r.release(a)
	r.finish(a)
	r.shows("a: Finished Admitted n[1-2]*1", "b: Ready Admitted n1*1")
	r.holds("b@n1")
}

func TestAFirstJobIsPromisedRoomAndOthersPassItThatEndBefore(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "10m")
	r.step()
	wide := r.submit("b", "batch", 2, 4, "30m")
	r.submit("c", "batch", 1, 4, "20m")
	d := r.submit("d", "batch", 1, 4, "5m")
	r.step()
	r.shows("a: Ready Admitted n1*1", "b: Waiting Promised 2 from 10m1s", "c: Waiting NoRoom", "d: Ready Admitted n2*1")
	r.holds("(b)@n1,n2 a@n1 d@n2")
	if got := r.message(wide); !strings.HasPrefix(got, "promised 2 nodes from 12:10:01Z") {
		t.Errorf("the message of b is %q", got)
	}
	since := r.job(wide).Status.Promise.Since
	r.release(a, d)
	r.finish(d)
	r.after(5 * time.Minute)
	if p := r.job(wide).Status.Promise; p == nil || !p.Since.Equal(&since) {
		t.Errorf("the promise is %+v, want it since %s", p, since)
	}
	r.finish(a)
	r.shows("a: Finished Admitted n1*1", "b: Ready Admitted n[1-2]*1", "c: Waiting Promised 1 from 35m1s", "d: Finished Admitted n2*1")
}

func TestAfterARestartRoomAndPromisesAreThereAgain(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "10m")
	wide := r.submit("b", "batch", 2, 4, "30m")
	r.step()
	r.release(a)
	before := r.job(wide)
	r.build()
	r.putQueue(easy("batch"))
	r.reload()
	if r.d.Restored() {
		t.Error("it says that all have their promises before it has asked")
	}
	r.holds("a@n1")
	r.after(3 * time.Second)
	r.holds("(b)@n1,n2 a@n1")
	if after := r.job(wide); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the promise was written again: %+v, before %+v", after.Status, before.Status)
	}
	if !r.d.Restored() {
		t.Error("it does not say that all have their promises")
	}
	if got, ok := r.d.Allocation(a); !ok || len(got.Slots) != 1 || got.Slots[0].Node != "n1" {
		t.Errorf("Allocation(a) = %+v, %v", got, ok)
	}
}

func TestAPromiseThatIsLaterAfterARestartSaysWhy(t *testing.T) {
	r := newRig(t, 3, easy("batch"))
	a, c := r.submit("a", "batch", 1, 4, "10m"), r.submit("c", "batch", 1, 4, "60m")
	r.step()
	r.release(a, c)
	wide := r.submit("w", "batch", 2, 4, "10m")
	r.step()
	said := r.job(wide).Status.Promise
	if said == nil || said.Why != "" {
		t.Fatalf("the promise is %+v, want one without a reason", said)
	}
	r.changeNode("n3", cordoned) // the scheduler that hears of it ends before it has looked at it
	restart := func() *v1alpha1.JobPromise {
		r.build()
		r.putQueue(easy("batch"))
		r.reload()
		r.after(3 * time.Second)
		return r.job(wide).Status.Promise
	}
	later := restart()
	if later == nil || !later.At.After(said.At.Time) || later.Why != whyRestarted {
		t.Fatalf("the promise is %+v, want a later one than at %s with the reason %q", later, said.At, whyRestarted)
	}
	if again := restart(); again == nil || *again != *later {
		t.Errorf("after another restart the promise is %+v, want %+v", again, later)
	}
}

func TestGroupsInNoQueueDoNotWaitForPromisesForEver(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	r.submit("a", "batch", 1, 4, "10m")
	r.submit("b", "batch", 1, 4, "10m")
	r.step()
	r.build() // its loop does not run
	told := 0
	r.d.cfg.Groups.Changed = func(groups ...types.NamespacedName) {
		if len(groups) == 0 {
			told++
		}
	}
	if r.d.Restored() {
		t.Error("it says that all have their promises before it has asked")
	}
	r.d.GiveUpRestoring()
	if !r.d.Restored() || told != 1 {
		t.Errorf("Restored() = %v, and all groups were told %d times, want once", r.d.Restored(), told)
	}
}

// A job that came while no scheduler led was promised nothing. It asks before groups in no queue all the same.
func TestAJobThatCameMeanwhileAsksFirst(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	r.submit("a", "batch", 2, 4, "10m") // no scheduler looks at it
	r.build()
	r.putQueue(easy("batch"))
	if r.d.Restored() {
		t.Error("groups in no queue may ask before the job has asked")
	}
	r.reload()
	r.step()
	r.shows("a: Ready Admitted n[1-2]*1")
	if !r.d.Restored() {
		t.Error("groups in no queue may not ask, but the job has asked")
	}
}

func TestAnAllocationThatCannotBeWrittenIsGivenBack(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	r.api.fail = func(a *applied) error {
		r.api.fail = nil
		r.api.edit(keyOf(ns, "a"), func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = "20m" })
		return nil
	}
	a := r.submit("a", "batch", 1, 4, "10m")
	r.step()
	r.shows("a: Ready Admitted n1*1")
	if end := r.job(a).Status.Allocation.End.Sub(r.job(a).Status.Allocation.At.Time).Round(time.Minute); end != 20*time.Minute {
		t.Errorf("it has room for %s, want that of its newer duration", end)
	}
	r.holds("a@n1")
}

func TestAnAllocationIsWrittenOnceThoughItsAnswerWasLost(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	lost := 0
	r.api.lost = func(*applied) error {
		if lost++; lost == 1 {
			return errors.New("connection reset")
		}
		return nil
	}
	a := r.submit("a", "batch", 1, 4, "10m")
	r.step()
	r.d.writer.urgent.Add(a) // the queue does so after its backoff
	r.step()
	r.shows("a: Ready Admitted n1*1")
	if n := r.job(a).Status.Allocation.Attempt; n != 1 {
		t.Errorf("it is allocation %d, want the first", n)
	}
	r.holds("a@n1")
}

func TestAJobWhoseStatusIsNotTakenAsksAgainAfterAPause(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	tries := 0
	r.api.fail = func(*applied) error {
		tries++
		return apierrors.NewForbidden(v1alpha1.FluxJobs.GroupResource(), "a", errors.New("no"))
	}
	a := r.submit("a", "batch", 1, 4, "10m")
	b := r.submit("b", "batch", 1, 4, "10m")
	for range 20 {
		r.after(tick / 4)
	}
	if tries > 4 {
		t.Errorf("%d writes within five seconds", tries)
	}
	r.api.fail = nil
	r.after(retryAfter)
	r.after(retryAfter)
	if r.job(a).Status.Allocation == nil && r.job(b).Status.Allocation == nil {
		t.Error("none of them has started")
	}
}

func TestAFinishedOrDeletedJobFreesItsRoom(t *testing.T) {
	r := newRig(t, 1, fcfs("batch"))
	a := r.submit("a", "batch", 1, 4, "")
	r.submit("b", "batch", 1, 4, "")
	r.submit("c", "batch", 1, 4, "")
	r.step()
	r.must(r.d.jobs.Delete(r.job(a)))
	delete(r.api.objects, a)
	r.step()
	r.shows("b: Ready Admitted n1*1", "c: Waiting NoRoom")
	r.holds("b@n1")
}

func TestOtherGroupsAreToldOfRoomThatIsFreed(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 1, 4, "1h")
	wide := r.submit("b", "batch", 2, 4, "1h")
	r.step()
	r.release(a)
	r.step()
	told := func(why string, f func()) {
		t.Helper()
		before := r.freed
		f()
		if r.freed != before+1 {
			t.Errorf("%s: the plugin was told %d times, want once", why, r.freed-before)
		}
		r.step()
	}
	told("a promise that is not kept", func() {
		r.edit(wide, func(fj *v1alpha1.FluxJob) { fj.Spec.Held = true })
		r.step()
	})
	told("a Job that is complete", func() {
		r.editJob(a, ended(batchv1.JobComplete))
	})
	b := r.submit("c", "batch", 1, 4, "1h")
	r.step()
	told("a job that is deleted", func() {
		r.must(r.d.jobs.Delete(r.job(b)))
		delete(r.api.objects, b)
		r.step()
	})
	before := r.freed
	r.after(tick)
	if r.freed != before {
		t.Error("the plugin is told though nothing was freed")
	}
}

func TestAListOfAllJobsChangesOnlyWhatIsNew(t *testing.T) {
	r := newRig(t, 1, fcfs("batch"))
	var all []any
	for i := range 2*replaceAtOnce + 1 {
		all = append(all, r.api.objects[r.submit("j"+strconv.Itoa(i), "batch", 1, 4, "")])
	}
	r.d.jobs.take()
	again := r.job(keyOf(ns, "j1"))
	again.UID = "another"
	edited := r.job(keyOf(ns, "j2"))
	edited.ResourceVersion = "100000"
	r.must(r.d.jobs.Replace(append([]any{again, edited}, all[3:]...), ""))
	want := []types.NamespacedName{keyOf(ns, "j0"), keyOf(ns, "j1"), keyOf(ns, "j2")}
	if got := r.d.jobs.take(); !slices.Equal(got, want) {
		t.Errorf("the loop looks at %v, want %v", got, want)
	}
	if n := len(r.d.jobs.byKey); n != len(all)-1 || r.d.jobs.byKey[want[0]] != nil {
		t.Errorf("it knows %d jobs, want %d, without the first", n, len(all)-1)
	}
}

func TestAnAnswerBringsNoDeletedJobBack(t *testing.T) {
	r := newRig(t, 1, fcfs("batch"))
	a := r.submit("a", "batch", 1, 4, "")
	b := r.submit("b", "batch", 1, 4, "")
	gone := func(key types.NamespacedName) {
		r.must(r.d.jobs.Delete(r.job(key)))
		delete(r.api.objects, key)
	}
	// The watch tells of the end before the write has its answer.
	r.api.lost = func(*applied) error {
		r.api.lost = nil
		gone(a)
		return nil
	}
	r.step()
	r.shows("b: Ready Admitted n1*1")
	r.holds("b@n1")
	r.release(b)
	r.api.lost = func(*applied) error {
		gone(b)
		return nil
	}
	r.must(r.d.Preempt(r.Context(), b, "evicted"))
	if n := len(r.d.jobs.byKey); n != 0 {
		t.Errorf("it knows %d jobs after all were deleted", n)
	}
}

func TestJobsOfSeveralQueuesAreInOneOrder(t *testing.T) {
	r := newRig(t, 1, easy("low"), easy("high", func(q *v1alpha1.Queue) { q.Spec.Priority = 10 }))
	run := r.submit("a", "low", 1, 4, "10m")
	r.step()
	r.submit("b", "low", 1, 4, "10m")
	r.submit("c", "high", 1, 4, "10m")
	r.step()
	r.shows("a: Ready Admitted n1*1", "b: Waiting Promised 1 from 20m2s", "c: Waiting Promised 1 from 10m1s")
	r.release(run)
	r.finish(run)
	r.shows("a: Finished Admitted n1*1", "b: Waiting Promised 1 from 10m1s", "c: Ready Admitted n1*1")
}

func TestADirectGroupOverlooksPromisesOfJobsAfterIt(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	r.submit("a", "batch", 1, 4, "10m")
	r.step()
	b := r.submit("b", "batch", 1, 4, "10m", func(fj *v1alpha1.FluxJob) { fj.Spec.Priority = 5 })
	r.step()
	for name, tc := range map[string]struct {
		rank gang.Rank
		want int
	}{
		"of a lower priority":       {gang.Rank{Priority: 4}, 0},
		"of a higher priority":      {gang.Rank{Priority: 6, Since: r.now}, 1},
		"of the same, made later":   {gang.Rank{Priority: 5, Since: r.now}, 0},
		"of the same, made earlier": {gang.Rank{Priority: 5, Since: begin}, 1},
	} {
		got := r.d.Promises(tc.rank)
		if len(got) != tc.want {
			t.Errorf("a group %s overlooks %d promises, want %d", name, len(got), tc.want)
		}
		for _, id := range got {
			if o, ok := r.d.Owner(id); !ok || o.Job != b || o.Workload != "Job team/b" {
				t.Errorf("Owner() = %+v, %v", o, ok)
			}
		}
	}
	// A job before a direct promise overlooks it, and keeps away from nodes that are kept for groups before it.
	r.claims.Nodes = []string{"n1"}
	r.finish(keyOf(ns, "a"))
	r.shows("a: Finished Admitted n1*1", "b: Waiting NoRoom")
}

func TestWhyAJobWaits(t *testing.T) {
	stopped := false
	r := newRig(t, 2, easy("batch"), easy("stopped", func(q *v1alpha1.Queue) { q.Spec.Started = &stopped }),
		easy("others", func(q *v1alpha1.Queue) {
			q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
		}),
		easy("gpus", func(q *v1alpha1.Queue) {
			q.Spec.Requires = &metav1.LabelSelector{MatchLabels: map[string]string{"gpu": "yes"}}
		}),
		easy("off", func(q *v1alpha1.Queue) { q.Spec.Enabled = &stopped }),
		easy("bounded", func(q *v1alpha1.Queue) {
			q.Spec.Limits.Duration, q.Spec.Limits.JobSize.Max.Pods = "1h", new(int32(3))
			q.Spec.Limits.JobSize.Max.Requests = corev1.ResourceList{}
		}),
		easy("wrong", func(q *v1alpha1.Queue) { q.Spec.Defaults.Duration = "soon" }),
	)
	cases := map[string]struct {
		queue    string
		pods     int32
		cores    int64
		duration string
		edit     func(*v1alpha1.FluxJob)
		reason   string
		message  string
	}{
		"held":        {queue: "batch", edit: func(fj *v1alpha1.FluxJob) { fj.Spec.Held = true }, reason: "Held", message: "spec.held"},
		"large":       {queue: "batch", cores: 5, reason: "NeverFits", message: "no node is large enough: cpu 5 wanted"},
		"wide":        {queue: "batch", pods: 9, cores: 1, reason: "NeverFits", message: "needs 9 pods"},
		"stopped":     {queue: "stopped", reason: "QueueStopped", message: "spec.started is false"},
		"no queue":    {queue: "none", reason: "NoQueue", message: "there is no Queue none"},
		"not allowed": {queue: "others", reason: "NotAllowed", message: "namespace team may not use Queue others"},
		"no nodes":    {queue: "gpus", reason: "QueueStopped", message: "no node has the labels gpu=yes"},
		"off":         {queue: "off", reason: "NotAllowed", message: "spec.enabled is false"},
		"too long":    {queue: "bounded", duration: "2h", reason: "DurationOverLimit", message: `spec.duration: "2h": Queue bounded allows at most 1h`},
		"endless":     {queue: "bounded", reason: "NoDuration", message: "only jobs with a time limit"},
		"too many":    {queue: "bounded", duration: "1h", pods: 4, reason: "TooLarge", message: "spec.pods: 4: Queue bounded allows at most 3"},
		"wrong queue": {queue: "wrong", reason: "QueueStopped", message: `spec.defaults.duration: "soon"`},
		"bad time":    {queue: "batch", duration: "-1s", reason: "InvalidDuration", message: `spec.duration: "-1s"`},
		"no jobspec":  {queue: "batch", edit: func(fj *v1alpha1.FluxJob) { fj.Spec.Jobspec = "{" }, reason: "InvalidJobspec", message: "spec.jobspec: "},
		"other count": {queue: "batch", edit: func(fj *v1alpha1.FluxJob) { fj.Spec.Pods = 7 }, reason: "InvalidJobspec", message: "as spec.pods"},
		"bad rules": {queue: "batch", edit: func(fj *v1alpha1.FluxJob) {
			fj.Spec.Nodes.Affinity = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Like"}}}}}
		}, reason: "InvalidJobspec", message: "spec.nodes.affinity"},
		"not valid": {queue: "batch", edit: func(fj *v1alpha1.FluxJob) {
			fj.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionValid, Status: metav1.ConditionFalse, Reason: "X", Message: "as the controller says"}}
		}, reason: "X", message: "as the controller says"},
	}
	for name, tc := range cases {
		name = strings.ReplaceAll(name, " ", "-")
		edit := tc.edit
		if edit == nil {
			edit = func(*v1alpha1.FluxJob) {}
		}
		r.submit(name, tc.queue, max(tc.pods, 1), max(tc.cores, 1), tc.duration, edit)
	}
	r.step()
	for name, tc := range cases {
		key := keyOf(ns, strings.ReplaceAll(name, " ", "-"))
		fj := r.job(key)
		if len(fj.Status.Conditions) == 0 {
			t.Errorf("%s: it says nothing", name)
			continue
		}
		c := fj.Status.Conditions[len(fj.Status.Conditions)-1]
		if c.Reason != tc.reason || !strings.Contains(c.Message, tc.message) || c.Status != metav1.ConditionFalse {
			t.Errorf("%s: %s %s: %s\nwant %s: %s", name, c.Status, c.Reason, c.Message, tc.reason, tc.message)
		}
		if held, why := r.d.Status(key, ""); !held || !strings.Contains(why, tc.message) {
			t.Errorf("%s: Status() = %v, %s", name, held, why)
		}
	}
	r.holds("")
}

func TestAnAllocationIsKeptWhileOnlyTheStatusChanges(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	tries := 0
	r.api.fail = func(a *applied) error {
		if tries++; tries <= 3 {
			r.api.edit(keyOf(ns, "a"), func(fj *v1alpha1.FluxJob) { fj.Status.Requeues = 7 })
		}
		return nil
	}
	a := r.submit("a", "batch", 1, 4, "10m")
	r.step()
	r.shows("a: Ready Admitted n1*1")
	if fj := r.job(a); fj.Status.Allocation.Attempt != 1 || fj.Status.Requeues != 7 {
		t.Errorf("the status is %+v", fj.Status)
	}
	r.holds("a@n1")
}
