package fluence

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// What a group is told that is too hard. A user can act on each of them.
const (
	whyTooHard      = "finding nodes takes more work than one group may have: fewer kinds of pods, affinity terms or spread constraints take less"
	whyTooManyApart = "its pods keep apart in more than 1024 different ways, by anti-affinity or host ports: one term for all of them is one"
	whyTooManyHosts = "its pods are kept from, or apart on, too many nodes one by one: fewer kinds of pods, affinity terms or spread constraints make the lists shorter"
	whyTimeout      = "the matcher answers others, and twice gave no answer for this group in time: fewer kinds of pods, affinity terms or spread constraints take less"
)

// tooHard is the refusal of such a group. It asks again after a while that grows, or once it
// has changed.
func tooHard(why string) *gang.Refusal {
	return &gang.Refusal{Reason: reason.TooHard, Message: why, Backoff: true, Hard: true}
}

// An allowance is what one enquiry may take of the scheduling loop. What it waits for others, and
// what the filters take for the sake of others, is not in it.
type allowance struct {
	ctx    context.Context
	now    func() time.Time
	began  time.Time
	most   time.Duration
	waited time.Duration
	// foreign is what one run of the PreFilter plugins takes for the sake of pods that are there;
	// 0 until that is known.
	foreign time.Duration
}

// took is what the enquiry has taken.
func (a *allowance) took() time.Duration { return a.now().Sub(a.began) - a.waited }

// left is what the enquiry may still take.
func (a *allowance) left() time.Duration { return a.most - a.took() }

// over says that the enquiry is to end.
func (a *allowance) over() bool { return a.took() > a.most || a.ctx.Err() != nil }

// dearPreFilter is from when on it is found out whom a run of the PreFilter plugins is for.
const dearPreFilter = 2 * time.Millisecond

// preFilter runs the PreFilter plugins for a pod of a group. They compare the pod with the terms of
// all running pods, also of other namespaces. The time for that is not taken from the group's
// allowance, and its namespace does not pay for it.
func (pl *Fluence) preFilter(ctx context.Context, may *allowance, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	began := pl.now()
	result, status, _ := pl.filters.RunPreFilterPlugins(ctx, state, pod)
	took := pl.now().Sub(began)
	if took < dearPreFilter {
		return result, status
	}
	if may.foreign == 0 {
		// A pod that asks for nothing itself takes what all others take.
		bare := pod.DeepCopy()
		bare.Spec.Affinity, bare.Spec.TopologySpreadConstraints = nil, nil
		bare.Spec.Volumes, bare.Spec.ResourceClaims = nil, nil
		of := schedulerframework.NewCycleState()
		of.Write(probeKey, probe{})
		again := pl.now()
		pl.filters.RunPreFilterPlugins(ctx, of, bare)
		may.foreign = max(pl.now().Sub(again), 1)
		may.waited += may.foreign
	}
	may.waited += min(took, may.foreign)
	return result, status
}

const (
	// suspicion is how long a match that ended at its deadline is held against a namespace.
	suspicion = 10 * time.Minute
	// mostSuspect is how many such matches of a namespace, in so long, are its own fault
	// whatever became of the groups.
	mostSuspect = 3
)

// suspects are the namespaces of which a match ended at its deadline. The matcher may have
// been at fault, or the group. The zero value is ready for use.
type suspects struct {
	mu sync.Mutex
	of map[string]*suspect
}

// A suspect is a namespace.
type suspect struct {
	// group is whose match it was last, unless it was answered since, and answered how often
	// the matcher had been found to answer by then.
	group    types.NamespacedName
	answered uint64
	at       time.Time
	// count is how many matches there were, each but the first with an answer of the matcher
	// to others before it, and owed what they took that is not charged yet.
	count int
	owed  time.Duration
}

// timedOut takes note of a match that ended at its deadline after a while. It says whether
// the group's namespace is to blame, which the first time it never is: its match before ended
// so as well, or those of other groups of it have, and the matcher has answered in between.
// Owed is what the matches before have taken.
func (s *suspects) timedOut(key types.NamespacedName, answered uint64, took time.Duration, now time.Time) (blame bool, owed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]*suspect{}
	}
	maps.DeleteFunc(s.of, func(_ string, x *suspect) bool { return now.Sub(x.at) > suspicion })
	x := s.of[key.Namespace]
	if x == nil {
		x = &suspect{}
		s.of[key.Namespace] = x
	}
	again := x.group == key
	x.group, x.at = key, now
	if x.count > 0 && x.answered >= answered {
		x.answered = answered
		return false, 0
	}
	x.answered = answered
	if x.count++; again || x.count >= mostSuspect {
		owed, x.owed = x.owed, 0
		return true, owed
	}
	x.owed += took
	return false, 0
}

// clear takes note that a group was answered.
func (s *suspects) clear(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.of[key.Namespace]; x != nil && x.group == key {
		x.group = types.NamespacedName{}
	}
}

// tellHard logs what took a group long, or too long.
func (pl *Fluence) tellHard(plan gang.Plan, refused *gang.Refusal, took time.Duration) {
	hard := refused != nil && refused.Reason == reason.TooHard
	if hard || took >= pl.args.MaxAsk.Duration {
		pl.log.Info("A group took much work", "group", plan.Key, "pods", len(plan.Required)+len(plan.Optional), "took", took, "tooHard", hard)
	}
}
