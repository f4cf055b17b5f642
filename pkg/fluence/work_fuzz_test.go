package fluence

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/test/trials"
)

const (
	// mostLate is the number of steps that an attempt may take beyond its budget. The budget
	// is checked before each shape, for which the filters take 16,000 steps with 1,000 nodes.
	mostLate = 40_000
	// mostTime is the processor time that an attempt may take beyond four times its budget:
	// ten times the usual time. Work without nodes, terms or matches is in no other count.
	mostTime = 5 * time.Second
)

// expensiveGroups are groups that are known to be expensive.
var expensiveGroups = map[string]settings{
	"20 pods spread by eight labels, each with a maxSkew of its own": {
		knobNodes: 15, knobPods: 9, knobSpreads: 8, knobSpreadKeys: byTheirOwn, knobSpreadSkews: 1,
	},
	"400 pods in two halves that shun each other one by one": {
		knobNodes: 2, knobPods: 200, knobAntiAffinity: 200, knobAntiAffinityAmong: oneOfAll,
	},
	"200 kinds of requests on 1,000 nodes":      {knobNodes: 249, knobPods: 99, knobRequests: 99, knobExistingPods: 255},
	"263 kinds that are barred from most nodes": {knobNodes: 249, knobPods: 131, knobRequests: 131, knobSlices: 250, knobExcludedNodes: 8},
	"pods that are apart by many keys":          {knobNodes: 249, knobPods: 100, knobAntiAffinity: 200, knobAntiAffinityKeys: byTheirOwn, knobAntiAffinityAmong: itself},
	"pods near to the next ones":                {knobNodes: 100, knobPods: 200, knobAffinity: 60, knobAffinityAmong: theNext},
	"pods near to the next ones, each by a key of its own": {
		knobNodes: 100, knobPods: 100, knobAffinity: 60, knobAffinityKeys: byTheirOwn, knobAffinityAmong: theNext,
	},
	"kinds near to each other":               {knobNodes: 100, knobPods: 240, knobKinds: 100, knobAffinity: 60, knobAffinityKeys: byZone, knobAffinityAmong: ofKinds, knobZones: 30},
	"ports of their own":                     {knobNodes: 100, knobPods: 240, knobPorts: 60, knobPortsOwn: 1},
	"alike pods that are apart by many keys": {knobNodes: 249, knobPods: 100, knobAntiAffinity: 255, knobAntiAffinityKeys: byTheirOwn},
	"kinds near to one of two by zone":       {knobNodes: 20, knobPods: 40, knobRequests: 40, knobKinds: 2, knobZones: 12, knobAffinity: 40, knobAffinityKeys: byZone, knobAffinityAmong: ofFirst, knobDoubleBudget: 1},
	"something of all": {
		knobNodes: 100, knobPods: 60, knobRequests: 60, knobKinds: 9, knobZones: 5, knobSpreads: 3, knobSpreadKeys: byTheirOwn, knobSpreadAmong: ofKinds,
		knobAntiAffinity: 5, knobAntiAffinityAmong: ofKinds, knobAffinity: 1, knobAffinityKeys: byZone, knobAffinityAmong: ofKinds, knobPorts: 1, knobExistingPods: 7, knobOptional: 9,
	},
}

// FuzzAttempt places a group of up to 500 pods on up to 1,000 nodes. Whatever
// its pods ask for, an attempt takes no more steps than its budget, neither at
// first nor when the group has waited so long that nodes are reserved for it.
func FuzzAttempt(f *testing.F) {
	for _, s := range expensiveGroups {
		f.Add(s.bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) { placeCounted(t, randomClusterFrom(data, fewTerms)) })
}

// TestExpensiveAttempts does the same for groups that are known to be expensive.
func TestExpensiveAttempts(t *testing.T) {
	for name, s := range expensiveGroups {
		t.Run(name, func(t *testing.T) { placeCounted(t, randomClusterFrom(s.bytes(), mostTerms)) })
	}
}

// TestRandomAttempts does the same with random bytes. Most knobs are not turned
// far, because all of them together would let no group reach the matcher.
func TestRandomAttempts(t *testing.T) {
	for seed := range trials.Seeds(8) {
		random := rand.New(rand.NewPCG(seed, 5))
		data := make([]byte, knobs)
		for i := range data {
			data[i] = byte(random.Uint32())
			if i > int(knobPods) && random.IntN(4) > 0 {
				data[i] %= 2
			}
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { placeCounted(t, randomClusterFrom(data, fewTerms)) })
	}
}

func placeCounted(t *testing.T, d randomCluster) {
	if testing.Short() {
		t.Skip("it goes by the time of the processors, which the race detector multiplies")
	}
	s := &steps{}
	inRig(t, countedEngine{realEngine(t), s}, func(r *rig) {
		r.countSteps(s)
		// Reports are off, because writes to each pod of the fake API take longest.
		r.standby.Store(true)
		if d.knobs[knobDoubleBudget]%2 == 1 {
			r.pl.args.MaxAsk.Duration *= 2
			r.pl.placer.ReservationSearchBudget *= 2
		}
		for _, n := range d.nodes() {
			r.must(r.client.Tracker().Add(n))
		}
		r.pass(time.Second)
		waiting, running := d.waitingAndRunningPods()
		r.podGroupAPI.put(d.podGroup())
		for _, pods := range [][]*corev1.Pod{running, waiting} {
			for _, p := range pods {
				r.must(r.client.Tracker().Add(p))
			}
			r.pass(time.Second)
		}
		for _, later := range []time.Duration{0, r.pl.args.MaxBypass.Duration + time.Minute} {
			r.pass(later)
			r.pl.observeEvent(gang.Released)
			r.pass(0)
			for _, p := range waiting {
				if r.preEnqueueMessage(p) == "" {
					r.wantWithinBudget(s, p)
					break
				}
			}
		}
	})
}

// wantWithinBudget places the group of a pod and checks the steps.
func (r *rig) wantWithinBudget(s *steps, pod *corev1.Pod) {
	r.Helper()
	r.must(r.sched.Cache.UpdateSnapshot(klog.FromContext(r.ctx), r.snapshot))
	list, err := r.snapshot.NodeInfos().List()
	r.must(err)
	nodes := make([]fwk.NodeInfo, len(list))
	for i, n := range list {
		nodes[i] = countedNode{n, s}
	}
	plan, effects := r.pl.groups.Plan(pod.UID, r.pl.now())
	r.pl.apply(r.ctx, effects)
	if len(plan.Required) == 0 {
		return
	}
	s.begin(r.pl.args.MaxAsk.Duration)
	began, steps := processorTime(), s.taken.Load()
	_, refused := r.pl.placeGroup(r.ctx, plan, false, nodes)
	took := processorTime() - began
	told := "placed"
	if refused != nil {
		told = refused.Reason + ": " + refused.Message
		r.pl.refuse(r.ctx, plan, *refused)
	}
	r.pass(0)
	r.Logf("%d pods, %d nodes: %d steps, %d late, %d looks, %s; %s", len(plan.Required)+len(plan.Optional), len(nodes), s.taken.Load()-steps, s.stepsOverLimit.Load(), s.maxChecksPerMatch.Load(), took, told)
	switch {
	case s.maxChecksPerMatch.Load() > mostLooks:
		r.Errorf("a match has looked at its context %d times, want at most %d", s.maxChecksPerMatch.Load(), mostLooks)
	case s.matchesAfterLimit.Load() > 1:
		r.Errorf("%d matches after the allowance was used up, want at most the one that was about to be made", s.matchesAfterLimit.Load())
	case s.stepsOverLimit.Load() > mostLate:
		r.Errorf("%d steps after the allowance was used up, want at most %d", s.stepsOverLimit.Load(), mostLate)
	case took > mostTime+4*r.pl.args.MaxAsk.Duration:
		r.Errorf("it took %s of the processors, want at most %s", took, mostTime+4*r.pl.args.MaxAsk.Duration)
	}
}
