package eviction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/preemption"
)

// fakeAPI records requests. fail answers a request with an error.
type fakeAPI struct {
	mu        sync.Mutex
	requests  []string
	pods      map[string]*corev1.Pod
	suspended types.UID
	fail      func(request string, nth int) error
}

func (f *fakeAPI) record(request string, then func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, request)
	if f.fail != nil {
		nth := 0
		for _, r := range f.requests {
			if r == request {
				nth++
			}
		}
		if err := f.fail(request, nth); err != nil {
			return err
		}
	}
	if then != nil {
		then()
	}
	return nil
}

func (f *fakeAPI) Mark(_ context.Context, v preemption.Victim, _ Mark) error {
	return f.record("mark "+v.Name, nil)
}
func (f *fakeAPI) TakeBack(_ context.Context, v preemption.Victim) error {
	return f.record("take back "+v.Name, nil)
}
func (f *fakeAPI) TakeBackPod(_ context.Context, _ string, p preemption.VictimPod) error {
	return f.record("take back pod "+p.Name, nil)
}
func (f *fakeAPI) Close(_ context.Context, v preemption.Victim, _ Mark) error {
	return f.record("close "+v.Name, nil)
}
func (f *fakeAPI) Suspend(_ context.Context, v preemption.Victim, m Mark) error {
	return f.record("suspend "+v.Name, func() { f.suspended = m.For.UID })
}
func (f *fakeAPI) SuspendedBy(context.Context, preemption.Victim) (types.UID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.suspended, nil
}
func (f *fakeAPI) MarkPod(_ context.Context, _ preemption.Victim, p preemption.VictimPod, _ Mark) error {
	return f.record("mark pod "+p.Name, nil)
}
func (f *fakeAPI) Delete(_ context.Context, _ string, p preemption.VictimPod) error {
	return f.record("delete "+p.Name, func() { delete(f.pods, p.Name) })
}

func (f *fakeAPI) pod(_, name string) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods[name]
}

// end gives pods a deletionTimestamp, as the API server does when they are deleted.
func (f *fakeAPI) end(names ...string) {
	now := metav1.Now()
	for _, name := range names {
		pod := f.pods[name].DeepCopy()
		pod.DeletionTimestamp = &now
		f.pods[name] = pod
	}
}

// victim returns a group of two pods, which exist.
func (f *fakeAPI) victim(name string) preemption.Victim {
	v := preemption.Victim{Kind: preemption.Group, Namespace: "lab", Name: name, UID: types.UID(name), Priority: 10}
	for _, suffix := range []string{"-0", "-1"} {
		v.Pods = append(v.Pods, preemption.VictimPod{Name: name + suffix, UID: types.UID(name + suffix)})
		f.pods[name+suffix] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + suffix, UID: types.UID(name + suffix)}}
	}
	return v
}

var urgent = preemption.Preemptor{Kind: preemption.Group, Namespace: "lab", Name: "urgent", UID: "urgent", Priority: 1000}

// run carries out what set up asks for until nothing happens any more, and returns the requests.
func run(t *testing.T, setUp func(*fakeAPI, *Evictor), later func(*fakeAPI, *Evictor)) (requests []string) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAPI{pods: map[string]*corev1.Pod{}}
		e := New(Config{API: f, Leading: func() bool { return true }, PodOf: f.pod})
		setUp(f, e)
		ctx, cancel := context.WithTimeout(t.Context(), 60e9)
		defer cancel()
		var running sync.WaitGroup
		running.Go(func() { e.Run(ctx) })
		synctest.Wait()
		if later != nil {
			later(f, e)
		}
		running.Wait()
		requests = f.requests
	})
	return requests
}

func TestAllMarksComeBeforeTheFirstDeletion(t *testing.T) {
	got := run(t, func(f *fakeAPI, e *Evictor) {
		f.fail = func(r string, nth int) error {
			if r == "mark b" && nth <= 3 {
				return apierrors.NewInternalError(context.DeadlineExceeded)
			}
			return nil
		}
		if !e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{f.victim("a"), f.victim("b")}}) {
			t.Fatal("the plan is not accepted")
		}
		if !e.IsMarked(types.NamespacedName{Namespace: "lab", Name: "b"}) {
			t.Error("a victim of an accepted plan does not count as marked")
		}
	}, nil)
	first := slices.IndexFunc(got, func(r string) bool { return strings.HasPrefix(r, "delete") })
	if first < 0 || slices.Contains(got[first:], "mark b") || slices.Contains(got[first:], "mark a") {
		t.Errorf("a pod was deleted before all marks were written: %q", got)
	}
	for _, want := range []string{"delete a-0", "delete a-1", "delete b-0", "delete b-1", "close a", "close b"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

func TestADeletionThatFailsIsTriedAgain(t *testing.T) {
	got := run(t, func(f *fakeAPI, e *Evictor) {
		f.fail = func(r string, nth int) error {
			if r == "delete a-1" && nth == 1 {
				return apierrors.NewInternalError(context.DeadlineExceeded)
			}
			return nil
		}
		e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{f.victim("a")}})
	}, func(_ *fakeAPI, e *Evictor) { e.Cancel(urgent.UID, Abandoned) })
	if !slices.Contains(got, "close a") || slices.Contains(got, "take back a") {
		t.Errorf("the victim was not evicted to its end: %q", got)
	}
}

// A deletion may be carried out although its answer is an error. Its pod is not deleted twice, and waits for its end.
func TestAPodThatEndsIsNotDeletedAgain(t *testing.T) {
	got := run(t, func(f *fakeAPI, e *Evictor) {
		f.fail = func(r string, nth int) error {
			if strings.HasPrefix(r, "delete") && nth == 1 {
				f.end(strings.TrimPrefix(r, "delete "))
				return apierrors.NewInternalError(context.DeadlineExceeded)
			}
			return nil
		}
		e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{f.victim("a")}})
	}, func(f *fakeAPI, e *Evictor) {
		time.Sleep(maxBackoff)
		if v := e.Of(urgent.UID)[0]; v.State != Ending || v.Problem != "" {
			t.Errorf("while its pods end the victim is %s with the problem %q", v.State, v.Problem)
		}
		f.mu.Lock()
		clear(f.pods)
		f.mu.Unlock()
		e.PodChanged()
	})
	slices.Sort(got)
	if want := []string{"close a", "delete a-0", "delete a-1", "mark a", "mark pod a-0", "mark pod a-1"}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

// A victim that goes by itself before its mark is written needs none, and the others do not wait for it.
func TestVictimsDoNotWaitForTheMarkOfOneThatHasGone(t *testing.T) {
	got := run(t, func(f *fakeAPI, e *Evictor) {
		f.fail = func(request string, _ int) error {
			if request == "mark b" {
				return apierrors.NewForbidden(schema.GroupResource{}, "b", nil)
			}
			return nil
		}
		e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{f.victim("a"), f.victim("b")}})
	}, func(f *fakeAPI, e *Evictor) {
		f.mu.Lock()
		delete(f.pods, "b-0")
		delete(f.pods, "b-1")
		f.mu.Unlock()
		e.PodChanged()
	})
	for _, want := range []string{"delete a-0", "delete a-1"} {
		if !slices.Contains(got, want) {
			t.Errorf("requests %q, want %q among them", got, want)
		}
	}
}

// A plan that was stopped does not keep its preemptor from the next one, and has an outcome.
func TestAPlanCanFollowOneThatWasStopped(t *testing.T) {
	cases := map[string]struct {
		then func(f *fakeAPI, e *Evictor)
		want []Outcome
	}{
		"the preemptor starts": {then: func(_ *fakeAPI, e *Evictor) { e.Cancel(urgent.UID, Started) }, want: []Outcome{Accepted, Started}},
		"it evicts others instead": {want: []Outcome{Accepted, Unhelpful, Accepted}, then: func(f *fakeAPI, e *Evictor) {
			f.mu.Lock()
			b := f.victim("b")
			f.mu.Unlock()
			if !e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{b}}) {
				t.Error("the plan is not accepted")
			}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var outcomes []Outcome
			run(t, func(f *fakeAPI, e *Evictor) {
				e.Observe = func(c Change) {
					if c.Outcome != "" {
						outcomes = append(outcomes, c.Outcome)
					}
				}
				e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{f.victim("a")}})
			}, func(f *fakeAPI, e *Evictor) {
				e.Stop(urgent.UID)
				tc.then(f, e)
			})
			if !slices.Equal(outcomes, tc.want) {
				t.Errorf("outcomes: %v, want %v", outcomes, tc.want)
			}
		})
	}
}

func TestACanceledPlanTakesBackTheMarksOfWhoWasNotTouched(t *testing.T) {
	got := run(t, func(f *fakeAPI, e *Evictor) {
		f.fail = func(r string, _ int) error {
			if strings.HasPrefix(r, "delete") {
				return apierrors.NewTooManyRequests("busy", 1)
			}
			return nil
		}
		e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{f.victim("a")}})
	}, func(_ *fakeAPI, e *Evictor) { e.Cancel(urgent.UID, Abandoned) })
	if got[len(got)-1] != "take back a" {
		t.Errorf("the mark was not taken back at the end: %q", got)
	}
}

func TestMarksThatWereFound(t *testing.T) {
	owner := group.Owner{Group: "batch", Kind: "Job", Name: "a", UID: "job"}
	cases := map[string]struct {
		change func(*fakeAPI, *Found)
		want   []string
	}{
		"no pod was touched: the mark is taken back": {func(*fakeAPI, *Found) {}, []string{"take back a"}},
		"a pod is gone: the others are evicted": {func(f *fakeAPI, v *Found) {
			delete(f.pods, "a-0")
			v.Victim.Pods = v.Victim.Pods[1:]
		}, []string{"mark pod a-1", "delete a-1", "close a"}},
		"a pod is ending: the others are evicted, and it is not deleted twice": {func(f *fakeAPI, _ *Found) {
			f.end("a-0")
		}, []string{"mark pod a-1", "delete a-1"}},
		"all pods are ending: none of them is deleted again": {func(f *fakeAPI, _ *Found) {
			f.end("a-0", "a-1")
		}, nil},
		"the owner is not suspended: the mark is taken back": {func(_ *fakeAPI, v *Found) {
			v.Victim.Suspend, v.Mark.Suspends = owner, owner.UID
		}, []string{"take back a"}},
		"the owner is suspended, and its pods do not end: they are deleted": {func(f *fakeAPI, v *Found) {
			v.Victim.Suspend, v.Mark.Suspends, f.suspended = owner, owner.UID, urgent.UID
		}, []string{"mark pod a-0", "delete a-0", "mark pod a-1", "delete a-1", "close a"}},
		"the owner is suspended, and its pods are ending: none of them is deleted again": {func(f *fakeAPI, v *Found) {
			v.Victim.Suspend, v.Mark.Suspends, f.suspended = owner, owner.UID, urgent.UID
			f.end("a-0", "a-1")
		}, nil},
		"somebody has resumed the owner while its pods were deleted: the others are evicted": {func(f *fakeAPI, v *Found) {
			v.Victim.Suspend, v.Mark.Suspends = owner, owner.UID
			f.end("a-0")
			f.pods["a-0"].Status.Conditions = []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: v.Mark.Message("lab"),
			}}
		}, []string{"mark pod a-1", "delete a-1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var evictor *Evictor
			got := run(t, func(f *fakeAPI, e *Evictor) {
				found := Found{Victim: f.victim("a")}
				found.Mark = markOf(urgent, found.Victim)
				tc.change(f, &found)
				e.Resume(found)
				// Before any request is sent, others leave the room of a victim that is going to end.
				if got, want := len(e.Pending()) > 0, len(found.Victim.Pods) < found.Mark.Pods; got != want {
					t.Errorf("the victim is going to end: %t, want %t", got, want)
				}
				// If that is not known, no other victim is chosen in its place.
				if (len(e.Undecided(urgent.UID)) > 0) == (len(e.Pending()) > 0) || e.Undecided("another") != nil {
					t.Error("the preemptor has to wait for an answer if, and only if, it is not known whether the eviction has begun")
				}
				evictor = e
			}, nil)
			if left := evictor.Undecided(urgent.UID); left != nil {
				t.Errorf("the preemptor still waits for an answer: %v", left)
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("requests %q, want %q", got, tc.want)
			}
		})
	}
}

// A pod of a Job may end by itself before the Job is suspended.
func TestAnOwnerIsSuspendedAlthoughAPodHasEnded(t *testing.T) {
	got := run(t, func(f *fakeAPI, e *Evictor) {
		v := f.victim("a")
		v.Suspend = group.Owner{Group: "batch", Kind: "Job", Name: "a", UID: "job"}
		delete(f.pods, "a-0")
		e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{v}})
	}, nil)
	if !slices.Equal(got[:2], []string{"mark a", "suspend a"}) {
		t.Errorf("requests %q", got)
	}
}

// The controller of an owner may be down, or somebody may resume the owner before its pods end.
func TestPodsThatGoOnAfterTheSuspensionAreDeletedOnce(t *testing.T) {
	var before []string
	got := run(t, func(f *fakeAPI, e *Evictor) {
		v := f.victim("a")
		v.Suspend = group.Owner{Group: "batch", Kind: "Job", Name: "a", UID: "job"}
		v.Pods = append(v.Pods, preemption.VictimPod{Name: "a-2", UID: "a-2"})
		f.pods["a-2"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-2", UID: "a-2"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
		e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{v}})
	}, func(f *fakeAPI, _ *Evictor) {
		f.mu.Lock()
		f.end("a-1") // the controller has deleted one
		f.mu.Unlock()
		time.Sleep(maxSuspendWait - time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		before = slices.Clone(f.requests)
	})
	if want := []string{"mark a", "suspend a"}; !slices.Equal(before, want) {
		t.Errorf("while the controller may delete the pods: requests %q, want %q", before, want)
	}
	if want := []string{"mark a", "suspend a", "mark pod a-0", "delete a-0"}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

// Nobody is touched for a plan that was canceled, also if a pod of a Job has ended by itself.
func TestAJobIsNotSuspendedForACanceledPlan(t *testing.T) {
	got := run(t, func(f *fakeAPI, e *Evictor) {
		f.fail = func(r string, _ int) error {
			if r == "suspend a" {
				return apierrors.NewConflict(schema.GroupResource{Resource: "jobs"}, "a", nil)
			}
			return nil
		}
		v := f.victim("a")
		v.Suspend = group.Owner{Group: "batch", Kind: "Job", Name: "a", UID: "job"}
		e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{v}})
	}, func(f *fakeAPI, e *Evictor) {
		f.mu.Lock()
		delete(f.pods, "a-0")
		f.mu.Unlock()
		e.Cancel(urgent.UID, Abandoned)
	})
	if got[len(got)-1] != "take back a" {
		t.Errorf("the mark was not taken back at the end: %q", got)
	}
}

func TestAMarkIsReadAsItWasWritten(t *testing.T) {
	for _, m := range []Mark{{For: urgent, Priority: -10, Pods: 8, Suspends: "u-2"}, {For: urgent, Pods: 1}} {
		for _, namespace := range []string{"lab", "other"} {
			read, _ := Parse(m.Message(namespace))
			if got, want := read.Message("lab"), m.Message(namespace); got != want {
				t.Errorf("a mark that was read is written as %q, want %q", got, want)
			}
		}
	}
	m := Mark{For: urgent, Priority: -10, Pods: 8, Suspends: "u-2"}
	if got, want := m.Evicted("lab"), "8 pods evicted for group lab/urgent (priority 1000, this one has -10)"; got != want {
		t.Errorf("Evicted = %q, want %q", got, want)
	}
	if text := m.Message("other"); strings.Contains(text, "lab/") {
		t.Errorf("%q names a group of another namespace", text)
	}
	for _, namespace := range []string{"lab", "other"} {
		got, ok := Parse(m.Message(namespace))
		want := m
		want.For, want.sentence = preemption.Preemptor{UID: "urgent", Priority: 1000}, m.Evicted(namespace)
		if !ok || got != want {
			t.Errorf("Parse = %+v, %v, want %+v", got, ok, want)
		}
	}
	if _, ok := Parse("evicted by hand"); ok {
		t.Error("another message is read as a mark")
	}
}

// The first pod ends soon although many are evicted, and a busy API server does not get many requests at once after its pause.
func TestTheFirstRequestsAreFew(t *testing.T) {
	f := &fakeAPI{pods: map[string]*corev1.Pod{}}
	v := f.victim("a")
	for i := range 100 {
		v.Pods = append(v.Pods, preemption.VictimPod{Name: fmt.Sprintf("b-%d", i), UID: types.UID(fmt.Sprintf("b-%d", i))})
		f.pods[fmt.Sprintf("b-%d", i)] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprintf("b-%d", i))}}
	}
	now := time.Now()
	e := New(Config{API: f, Leading: func() bool { return true }, PodOf: f.pod, Now: func() time.Time { return now }})
	e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{v}})
	var inFlight []call
	send := func() int {
		for c, _, ok := e.next(); ok; c, _, ok = e.next() {
			inFlight = append(inFlight, c)
		}
		return len(inFlight)
	}
	answer := func(errs ...error) {
		for i, c := range inFlight {
			e.answered(t.Context(), c, errs[min(i, len(errs)-1)])
		}
		inFlight = nil
	}
	for i, want := range []int{1, 3, 6, 12, 16} { // the first is the mark
		if got := send(); got != want {
			t.Errorf("%d requests are in flight after %d answers, want %d", got, i, want)
		}
		answer(nil)
	}
	send()
	answer(apierrors.NewTooManyRequests("busy", 1), nil)
	now = now.Add(time.Minute)
	if got := send(); got != 2 {
		t.Errorf("%d requests are in flight after the API server was too busy, want 2", got)
	}
	for _, want := range []int{3, 4} {
		if _, again, _ := e.next(); !again.Equal(now.Add(stuckAfter)) {
			t.Errorf("it goes on %v after the last request, want %v", again.Sub(now), stuckAfter)
		}
		now = now.Add(stuckAfter)
		if got := send(); got != want {
			t.Errorf("%d requests are in flight when none was answered for %v, want %d", got, stuckAfter, want)
		}
	}
}

// Users have groups of thousands of pods, and callers wait for the lock meanwhile.
func TestAPodIsNotLookedUpForEachRequest(t *testing.T) {
	const pods = 1000
	f := &fakeAPI{pods: map[string]*corev1.Pod{}}
	v := preemption.Victim{Kind: preemption.Group, Namespace: "lab", Name: "a", UID: "a"}
	for i := range pods {
		name := fmt.Sprintf("a-%d", i)
		v.Pods = append(v.Pods, preemption.VictimPod{Name: name, UID: types.UID(name)})
		f.pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	}
	lookups := 0
	e := New(Config{API: f, Leading: func() bool { return true }, PodOf: func(namespace, name string) *corev1.Pod {
		lookups++
		return f.pod(namespace, name)
	}})
	e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{v}})
	requests := 0
	for c, _, ok := e.next(); ok; c, _, ok = e.next() {
		requests++
		e.answered(t.Context(), c, nil)
	}
	if requests != pods+1 || lookups > 10*pods {
		t.Errorf("%d lookups for %d requests, want at most %d for %d", lookups, requests, 10*pods, pods+1)
	}
}
