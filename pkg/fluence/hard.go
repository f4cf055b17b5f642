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

	"github.com/flux-k8s/fluence/pkg/group"
)

// reasonTooHard is that to place a group takes more work than one group may have.
const reasonTooHard = "TooHard"

// What a group is told that is too hard. A user can act on each of them.
const (
	whyTooHard      = "finding nodes takes more work than one group may have: fewer kinds of pods, affinity terms or spread constraints take less"
	whyTooManyApart = "its pods keep apart in more than 1024 different ways, by anti-affinity or host ports: one term for all of them is one"
	whyTooManyHosts = "its pods are kept from, or apart on, too many nodes one by one: fewer kinds of pods, affinity terms or spread constraints make the lists shorter"
	whyForOthers    = "finding nodes takes long, since for each kind of its pods the filters read the anti-affinity of pods of other namespaces: fewer kinds of pods take less"
	whyTimeout      = "the matcher answers others, and twice gave no answer for this group in time: fewer kinds of pods, affinity terms or spread constraints take less"
)

// tooHard is the refusal of such a group. It asks again after a while that grows, or once it
// has changed.
func tooHard(why string) *group.Refusal {
	return &group.Refusal{Reason: reasonTooHard, Message: why, Backoff: true, Hard: true}
}

// An allowance is what one enquiry may take of the scheduling loop. What it waits for others, and
// what the filters take for the sake of others, is not in it. The latter has a bound of its own.
type allowance struct {
	ctx    context.Context
	now    func() time.Time
	began  time.Time
	most   time.Duration
	waited time.Duration
	// excused is what of it the filters took for the sake of pods of other namespaces.
	excused time.Duration
	// ran is what the PreFilter plugins have taken so far, and runs how often they ran.
	ran  time.Duration
	runs int
	// foreign is what one run of the PreFilter plugins takes for the sake of pods of other
	// namespaces, once that is measured.
	foreign  time.Duration
	measured bool
}

// took is what the enquiry has taken.
func (a *allowance) took() time.Duration { return a.now().Sub(a.began) - a.waited }

// left is what the enquiry may still take.
func (a *allowance) left() time.Duration { return a.most - a.took() }

// over says that the enquiry is to end.
func (a *allowance) over() bool { return a.took() > a.most || a.held() || a.ctx.Err() != nil }

// held says that the filters have taken more for the sake of others than one group may hold up the
// loop for. A group of one kind of pods is never held up for that: others would keep it out for ever.
func (a *allowance) held() bool { return a.excused > max(a.most, runsOfOne*a.foreign) }

// excuse takes note of what the filters took for the sake of others.
func (a *allowance) excuse(d time.Duration) {
	a.waited += d
	a.excused += d
}

// refusal is what a group is told whose enquiry is over. Who was held up by others is not too hard
// by itself: it asks again after a while, and owes nothing for it.
func (a *allowance) refusal() *group.Refusal {
	if a.held() && a.took() <= a.most {
		return &group.Refusal{Reason: reasonTooHard, Message: whyForOthers, Backoff: true, After: heldPause}
	}
	return tooHard(whyTooHard)
}

const (
	// dearPreFilter is what the PreFilter plugins take in one enquiry before it is measured whom
	// that is for.
	dearPreFilter = 2 * time.Millisecond
	// heldPause is the shortest time after which a group asks again that was held up for others,
	// also one that is changed meanwhile: nobody pays for that.
	heldPause = 10 * time.Second
	// runsOfOne is how often they run for one kind of pods at the most: to rule nodes out, to
	// measure, and for each verification.
	runsOfOne = 1 + 1 + 1 + maxRepairs
)

// preFilter runs the PreFilter plugins for a pod of a group. They compare the pod with the terms of
// all running pods, also of other namespaces. The time for the terms of these is not taken from the
// group's allowance, and its namespace does not pay for it.
func (pl *Fluence) preFilter(ctx context.Context, may *allowance, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	began := pl.now()
	result, status, _ := pl.filters.RunPreFilterPlugins(ctx, state, pod)
	took := pl.now().Sub(began)
	may.ran, may.runs = may.ran+took, may.runs+1
	switch {
	case may.measured:
		may.excuse(min(took, may.foreign))
	case may.ran >= dearPreFilter:
		pl.measure(ctx, may, pod)
		may.excuse(min(may.ran, time.Duration(may.runs)*may.foreign))
	}
	return result, status
}

// measure finds out what one run of the PreFilter plugins takes for the sake of others: a pod that
// asks for nothing itself takes what the terms of all pods take, and of that others have their share.
func (pl *Fluence) measure(ctx context.Context, may *allowance, pod *corev1.Pod) {
	began := pl.now()
	share := pl.shareOfOthers(pod.Namespace)
	bare := pod.DeepCopy()
	bare.Spec.Affinity, bare.Spec.TopologySpreadConstraints = nil, nil
	bare.Spec.Volumes, bare.Spec.ResourceClaims = nil, nil
	state := schedulerframework.NewCycleState()
	state.Write(probeKey, probe{})
	again := pl.now()
	pl.filters.RunPreFilterPlugins(ctx, state, bare)
	ended := pl.now()
	may.foreign, may.measured = part(ended.Sub(again), share), true
	may.excuse(may.foreign)
	may.waited += part(again.Sub(began), share)
}

// shareOfOthers is the share of other namespaces in what there is to read in the required
// anti-affinity of pods that are there, for a pod of a namespace. It is 0 where there is none.
func (pl *Fluence) shareOfOthers(namespace string) float64 {
	nodes, err := pl.handle.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList()
	if err != nil {
		return 0
	}
	var others, all int
	for _, n := range nodes {
		for _, there := range n.GetPodsWithRequiredAntiAffinity() {
			read := pl.shuns.of(there).toRead(namespace)
			if all += read; there.GetPod().Namespace != namespace {
				others += read
			}
		}
	}
	return float64(others) / float64(max(all, 1))
}

func part(of time.Duration, share float64) time.Duration {
	return time.Duration(float64(of) * share)
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
func (pl *Fluence) tellHard(plan group.Plan, refused *group.Refusal, may *allowance) {
	hard := refused != nil && refused.Reason == reasonTooHard
	switch took, pods := may.took(), len(plan.Required)+len(plan.Optional); {
	case hard && !refused.Hard:
		pl.log.Info("Filters took long for a group, for the sake of pods of other namespaces", "group", plan.Key, "pods", pods, "took", may.excused)
	case hard || took >= pl.args.MaxAsk.Duration:
		pl.log.Info("A group took much work", "group", plan.Key, "pods", pods, "took", took, "tooHard", hard)
	}
}
