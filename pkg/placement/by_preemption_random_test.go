package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
	"github.com/flux-k8s/fluence/test/trials"
)

// useEngine makes the placer ask an engine that knows the nodes and the pods.
func (r *profile) useEngine(nodes []*corev1.Node, pods []*corev1.Pod) {
	r.Helper()
	must := func(err error) {
		r.Helper()
		if err != nil {
			r.Fatal(err)
		}
	}
	var epochs atomic.Uint64
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return match.Epoch(epochs.Add(1)) }})
	must(err)
	epoch, err := e.Reset(r.ctx)
	must(err)
	for _, n := range nodes {
		must(e.PutNode(r.ctx, epoch, translate.Node(n, nil)))
	}
	for _, pod := range pods {
		must(e.Update(r.ctx, epoch, match.Job{ID: jobOf(string(pod.UID)), Slots: []match.Slot{translate.HeldSlot(pod)}}))
		r.UpdatePod(pod)
	}
	must(e.Ready(r.ctx, epoch))
	r.Matcher, r.MatchTimeout = e, time.Minute
	r.ClusterState = func(gang.Plan) ClusterState { return ClusterState{At: time.Now(), Epoch: epoch} }
	r.BlockerOf = func(match.Reason, types.NamespacedName) string { return "" }
}

// randomCluster returns nodes in two zones, and pods on them. Some pods have ports, spread or shun others.
func randomCluster(rng *rand.Rand) (nodes []*corev1.Node, pods []*corev1.Pod) {
	for i := range 2 + rng.IntN(4) {
		nodes = append(nodes, objects.ReadyNode(fmt.Sprint("n", i), 3, objects.InZone(string("xy"[i%2]))))
	}
	for _, n := range nodes {
		for k := range rng.IntN(4) {
			pods = append(pods, objects.Pod(fmt.Sprintf("%s-%d", n.Name, k), objects.OnNode(n.Name), constraintOf(rng), objects.CPU([]string{"1", "500m"}[rng.IntN(2)])))
		}
	}
	return nodes, pods
}

// constraintOf returns a random constraint of a pod, or none.
func constraintOf(rng *rand.Rand) func(*corev1.Pod) {
	apps := []string{"a", "b"}
	app := apps[rng.IntN(2)]
	edits := []func(*corev1.Pod){objects.OfApp(app)}
	switch rng.IntN(8) {
	case 0, 1:
		edits = append(edits, objects.HostPort(int32(80+rng.IntN(2))))
	case 2:
		edits = append(edits, objects.AwayFrom(apps[rng.IntN(2)]))
	case 3:
		edits = append(edits, func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{objects.TermOn(corev1.LabelTopologyZone, apps[rng.IntN(2)])},
			}}
		})
	case 4:
		edits = append(edits, objects.SpreadOver([]string{corev1.LabelTopologyZone, corev1.LabelHostname}[rng.IntN(2)], app, 1))
	case 5:
		edits = append(edits, objects.NextTo(corev1.LabelTopologyZone, apps[rng.IntN(2)]))
	}
	return objects.All(edits...)
}

// After the evictions of a plan the group is placed. If there is no room even without all of lower priority, it is not
// placed after all have gone.
func TestRandomPlansMakeRoom(t *testing.T) {
	planned, refused, inTheWay, outcomes := 0, 0, 0, map[string]int{}
	for seed := range trials.Seeds(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		nodes, pods := randomCluster(rng)
		var group []*corev1.Pod
		constraint := constraintOf(rng)
		for i := range 1 + rng.IntN(4) {
			group = append(group, objects.Pod(fmt.Sprint("u", i), constraint, objects.CPU([]string{"1", "2"}[rng.IntN(2)])))
		}
		plan := gang.Plan{Key: types.NamespacedName{Namespace: objects.Namespace, Name: "urgent"}, Holder: "urgent", Job: 1, Required: group}
		keep := rng.IntN(3) // every third pod stays in some of the clusters
		stays := func(pod *corev1.Pod) bool { return keep == 0 && strings.HasSuffix(pod.Name, "1") }
		var found PreemptionResult
		var placed bool
		inProfile(t, nodes, pods, func(p *profile) {
			p.useEngine(nodes, pods)
			result := p.Place(p.ctx, unlimitedBudget(p.ctx), plan, p.nodes)
			if placed = result.Refusal == nil; placed {
				return
			}
			found = p.FindByPreemption(p.ctx, result, PreemptionRequest{MaxTime: time.Minute, Candidates: func(usable func(string) bool) ([]preemption.Victim, int) {
				return victimsOf(slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return stays(pod) || !usable(pod.Spec.NodeName) })), 0
			}})
		})
		if placed {
			continue
		}
		gone := func(pod *corev1.Pod) bool { return !stays(pod) }
		switch {
		case found.Plan != nil:
			planned++
			if len(found.Plan.Victims) == 0 {
				inTheWay++
			}
			gone = func(pod *corev1.Pod) bool {
				return slices.ContainsFunc(found.Plan.Victims, func(v preemption.Victim) bool { return v.UID == pod.UID })
			}
		case strings.HasPrefix(found.Why, "room for"):
			refused++
		default:
			outcomes[found.Why]++
			continue
		}
		left := slices.DeleteFunc(slices.Clone(pods), gone)
		inProfile(t, nodes, left, func(p *profile) {
			p.useEngine(nodes, left)
			result := p.Place(p.ctx, unlimitedBudget(p.ctx), plan, p.nodes)
			if fits := result.Refusal == nil; fits != (found.Plan != nil) {
				message := ""
				if !fits {
					message = result.Refusal.Message
				}
				t.Errorf("seed %d: the plan is %+v (%s), and afterwards it is placed: %t %s", seed, found.Plan, found.Why, fits, message)
			}
		})
	}
	t.Logf("%d plans, %d of them without victims, %d refusals, and otherwise %v", planned, inTheWay, refused, outcomes)
	if trials.Usual() && !testing.Short() && (planned < 10 || refused < 5) {
		t.Errorf("there are %d plans and %d refusals, too few to show anything", planned, refused)
	}
}
