// Package eviction carries out plans of preemption, so that a victim is evicted as a whole or not at all,
// even if the process ends in between.
//
// All victims of a plan are marked before the first pod is touched. A mark is a condition of the victim's own
// object and names the preemptor. A scheduler that begins to lead reads the marks: a victim whose eviction has
// begun is evicted to its end, and any other mark is taken back.
//
//	planned --all marks written--> marked --first request sent--> ending --last pod gone--> gone
//	   |                             |                              (never back)
//	   +---------canceled------------+--> the mark is taken back
//
//	mark.go      What does a mark say, and how is it read?
//	eviction.go  What does a caller ask for, and what is the state of a plan?
//	run.go       Which request is next, and what follows from its answer?
//	pending.go   Which victims are going to end?
//	resume.go    What follows from the marks that an earlier process has left?
//	refuse.go    What follows from requests that are refused again and again?
//	client.go    How are marks, suspensions and deletions written to the API server?
//	told.go      Which events do users see?
package eviction

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// A State is how far the eviction of a victim has come.
type State string

// The states of a victim.
const (
	// Planned: the mark is not written yet.
	Planned State = "Planned"
	// Marked: the mark is written, and no pod of the victim was touched.
	Marked State = "Marked"
	// Ending: requests that end its pods were sent, or a pod of it is ending.
	Ending State = "Ending"
	// Gone: its pods have ended or are gone.
	Gone State = "Gone"
	// TakenBack: the plan was canceled before a pod of the victim was touched. Its mark is gone, or is being removed.
	TakenBack State = "TakenBack"
)

// A Progress is how far the eviction of one victim has come.
type Progress struct {
	preemption.Victim
	State State
	// Since is when its pods began to end. It is zero before that.
	Since time.Time
	// Problem is why the last request failed, in words fit for a user. It is empty if it did not.
	Problem string
	// Refused is true if a request for it was refused again and again, until one succeeds. Its pods may never end.
	Refused bool
}

// API is what an Evictor writes. Each call has a deadline. Each returns nil if the object is gone, or is
// another one of the same name: then there is nothing to write.
type API interface {
	// Mark writes the mark onto the victim's PodGroup, or onto the pod if it is alone.
	Mark(ctx context.Context, v preemption.Victim, m Mark) error
	// TakeBack removes the mark.
	TakeBack(ctx context.Context, v preemption.Victim) error
	// Close turns the mark of a PodGroup into a condition that says what has been.
	Close(ctx context.Context, v preemption.Victim, m Mark) error
	// Suspend suspends the owner of the victim, unless it is suspended already. Pods that do not end by that are deleted.
	Suspend(ctx context.Context, v preemption.Victim, m Mark) error
	// SuspendedBy returns for which preemptor the owner is suspended. It is empty if it is not suspended by Fluence.
	SuspendedBy(ctx context.Context, v preemption.Victim) (types.UID, error)
	// TakeBackPod removes what MarkPod has written.
	TakeBackPod(ctx context.Context, namespace string, pod preemption.VictimPod) error
	// MarkPod writes onto a pod that it is going to be deleted, and why.
	MarkPod(ctx context.Context, v preemption.Victim, pod preemption.VictimPod, m Mark) error
	// Delete deletes a pod, with its grace period.
	Delete(ctx context.Context, namespace string, pod preemption.VictimPod) error
}

// Config is what an Evictor needs. API, Leading and PodOf must be set.
type Config struct {
	API API
	// Leading reports whether this scheduler leads. Others write nothing.
	Leading func() bool
	// PodOf returns a pod as last seen. It returns nil if there is no pod of this name.
	PodOf func(namespace, name string) *corev1.Pod
	// MayGo returns a channel that is closed while no binds wait: they go first, for at most maxBindWait.
	MayGo func() <-chan struct{}
	// Failed is called for each request that has failed, and with true if the API server was too busy. It must not
	// call the Evictor.
	Failed func(busy bool)
	// Observe is called by Run for each change of a plan, in order and with no lock held.
	Observe func(Change)
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// A Change is what became of a plan, or of a victim of it.
type Change struct {
	For preemption.Preemptor
	// Outcome is set if the plan as a whole has changed.
	Outcome Outcome
	// Victims are the victims of the plan. They are set if Outcome is Accepted.
	Victims []preemption.Victim
	// Victim is set, and its state is new, if Outcome is empty.
	Victim Progress
	// Resumed is true if an earlier process has made the plan.
	Resumed bool
	// Refusal is set if the plan was stopped because a request was refused again and again, and says why it was. Cancel
	// says later what has become of the plan.
	Refusal string
}

// An Outcome is what becomes of a plan.
type Outcome string

// The outcomes of plans. The caller of Cancel says whether it is Started, Unhelpful or Abandoned.
const (
	// Accepted: the plan was accepted.
	Accepted Outcome = "planned"
	// Started: the preemptor was given nodes.
	Started Outcome = "started"
	// Unhelpful: all victims have gone, and the preemptor has no room, or has lost it again before it started.
	Unhelpful Outcome = "unhelpful"
	// Abandoned: the preemptor needs the plan no more, or has gone.
	Abandoned Outcome = "abandoned"
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Accepted, Started, Unhelpful, Abandoned} }

// An Evictor carries out plans. It is safe for use by many goroutines. Run does the work.
type Evictor struct {
	Config
	wakeup chan struct{}

	mu sync.Mutex
	// plans has the plans of which Cancel has not said what has become, by their preemptors.
	plans map[types.UID]*plan
	// order has these plans in the order in which they were accepted, and those of which something is left to write.
	order []*plan
	// pausedUntil is the time before which nothing is sent, as the API server asked.
	pausedUntil time.Time
	// inFlight is the number of requests in flight. mayFly is how many may be now. movedAt is when one was last sent or answered.
	inFlight, mayFly int
	movedAt          time.Time
	// changes are the changes that were not observed yet.
	changes []Change
	// refused has the victims that are in no plan until a time, by UID.
	refused map[types.UID]time.Time
}

// New returns an Evictor without plans.
func New(c Config) *Evictor {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MayGo == nil {
		idle := make(chan struct{})
		close(idle)
		c.MayGo = func() <-chan struct{} { return idle }
	}
	if c.Failed == nil {
		c.Failed = func(bool) {}
	}
	if c.Observe == nil {
		c.Observe = func(Change) {}
	}
	return &Evictor{Config: c, wakeup: make(chan struct{}, 1), mayFly: minInFlight, plans: map[types.UID]*plan{}, refused: map[types.UID]time.Time{}}
}

// Start accepts a plan. It sends nothing itself, so it may be called in a scheduling cycle. It returns false if
// a plan for this preemptor is carried out already, or if a victim is being evicted already for another one. A plan for
// it that was stopped was unhelpful then.
func (e *Evictor) Start(p preemption.Plan) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.plans[p.For.UID]
	if was != nil && !was.canceled || len(p.Victims) == 0 || e.takesAny(p.Victims) {
		return false
	}
	if was != nil {
		e.changes = append(e.changes, Change{For: was.preemptor, Outcome: Unhelpful})
	}
	made := newPlan(p.For, p.Victims, e.Now())
	e.plans[p.For.UID] = made
	e.order = append(e.order, made)
	e.changes = append(e.changes, Change{For: p.For, Outcome: Accepted, Victims: p.Victims})
	signal.Send(e.wakeup)
	return true
}

// Stop ends the eviction of further victims. The marks of victims that were not touched are taken back. The eviction of
// the others goes on to its end. Cancel says later what has become of the plan. It does nothing if there is no plan for
// the preemptor.
func (e *Evictor) Stop(preemptor types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.plans[preemptor]; p != nil {
		p.canceled = true
		signal.Send(e.wakeup)
	}
}

// Cancel ends a plan as Stop does, and says what has become of it. It does nothing if there is no plan for the
// preemptor.
func (e *Evictor) Cancel(preemptor types.UID, o Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.plans[preemptor]
	if p == nil {
		return
	}
	p.canceled = true
	delete(e.plans, preemptor)
	e.changes = append(e.changes, Change{For: p.preemptor, Outcome: o})
	signal.Send(e.wakeup)
}

// Of returns how far the plan for a preemptor has come, with its victims in the order of the plan. It returns
// nil if there is none, or if it was stopped or canceled.
func (e *Evictor) Of(preemptor types.UID) []Progress {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.plans[preemptor]
	if p == nil || p.canceled {
		return nil
	}
	var all []Progress
	for _, v := range p.victims {
		all = append(all, v.Progress)
	}
	return all
}

// IsMarked reports whether a group is a victim that has not gone yet: its late members and the replacements of
// its pods wait. The key is that of package gang: for a native PodGroup it is group.NativeKey.
func (e *Evictor) IsMarked(key types.NamespacedName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.order {
		for _, v := range p.victims {
			if KeyOf(v.Victim) == key && v.State != TakenBack && v.State != Gone {
				return true
			}
		}
	}
	return false
}

// PodChanged wakes the Evictor after a pod has ended, has begun to end or has gone.
func (e *Evictor) PodChanged() { signal.Send(e.wakeup) }

// KeyOf returns the key of a victim that is a group. It is zero for a pod alone.
func KeyOf(v preemption.Victim) types.NamespacedName {
	switch v.Kind {
	case preemption.Group:
		return types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
	case preemption.NativeGroup:
		return group.NativeKey(v.Namespace, v.Name)
	default:
		return types.NamespacedName{}
	}
}

// A plan is a plan that is carried out.
type plan struct {
	preemptor preemption.Preemptor
	victims   []*victim
	// canceled says that no further victim is touched, by Stop or Cancel. resumed says that an earlier process has made the marks.
	canceled, resumed bool
	// accepted is when this process has accepted the plan. mayGoAt is until when binds go first.
	accepted, mayGoAt time.Time
	// refusal is why it was stopped, if a request was refused again and again.
	refusal string
}

// A victim is a victim of a plan that is carried out.
type victim struct {
	Progress
	mark Mark
	// markSent is true once the mark may be written. begun is true once a request that ends pods has succeeded.
	markSent, begun bool
	// sent has the pods whose deletion succeeded, or is in flight.
	sent map[types.UID]bool
	// handled is the number of pods at the head of Pods that need no request.
	handled int
	// settled is true if nothing is left to write.
	settled  bool
	inFlight int
	attempts int
	// refusals counts the refusals in a row, of which the first was at refusedSince.
	refusals     int
	refusedSince time.Time
	// retryAt is the time before which nothing is sent. doubtUntil is see doubtFor.
	retryAt, doubtUntil time.Time
	// deleteAt is when its pods are deleted although its owner is suspended. It is zero before that.
	deleteAt time.Time
}

func newPlan(p preemption.Preemptor, victims []preemption.Victim, now time.Time) *plan {
	made := &plan{preemptor: p, accepted: now, mayGoAt: now.Add(maxBindWait)}
	for _, v := range victims {
		made.victims = append(made.victims, &victim{Progress: Progress{Victim: v, State: Planned}, mark: markOf(p, v), sent: map[types.UID]bool{}})
	}
	return made
}

// takesAny reports whether one of these victims is a victim of another plan. The caller holds mu.
func (e *Evictor) takesAny(victims []preemption.Victim) bool {
	for _, p := range e.order {
		for _, v := range p.victims {
			taken := !v.settled && slices.ContainsFunc(victims, func(o preemption.Victim) bool { return o.UID == v.UID })
			if taken {
				return true
			}
		}
	}
	return false
}
