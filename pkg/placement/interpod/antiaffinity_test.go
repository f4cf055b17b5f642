package interpod

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/test/objects"
)

// Cliques grow pair by pair, by the lowest shape that clashes with all of their shapes.
func TestCliquesAreThoseThatGrowPairByPair(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + random.IntN(12)
		if random.IntN(20) == 0 {
			n = 60 + random.IntN(80) // more than one word
		}
		s := &Constraints{isOverBudget: neverOverBudget}
		for range n {
			s.shapes = append(s.shapes, &Shape{Pods: make([]*corev1.Pod, 1+random.IntN(2))})
		}
		clashes, share := newBitsets(n, n), random.Float64()
		for i := range n {
			for j := range i + 1 {
				if random.Float64() < share {
					clashes[i].add(j)
					clashes[j].add(i)
				}
			}
		}
		got, want := s.cliques(clashes), pairByPair(s, clashes)
		if len(want) > maxCliques && len(got) > maxCliques {
			want = want[:min(len(want), len(got))]
		}
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%d cliques of %d shapes, want %d, or others", len(got), n, len(want))
		}
	}
}

// pairByPair returns the same cliques in the plain way.
func pairByPair(s *Constraints, clashes []bitset) [][]int {
	alone := func(i int) bool { return clashes[i].has(i) || len(s.shapes[i].Pods) == 1 }
	covered := map[[2]int]bool{}
	var all [][]int
	for i := range s.shapes {
		for j := i; j < len(s.shapes); j++ {
			if covered[[2]int{i, j}] || !clashes[i].has(j) || !alone(i) || !alone(j) || i == j && len(s.shapes[i].Pods) == 1 {
				continue
			}
			clique := slices.Compact([]int{i, j})
			for k := range s.shapes {
				if !slices.Contains(clique, k) && alone(k) && !slices.ContainsFunc(clique, func(o int) bool { return !clashes[k].has(o) }) {
					clique = append(clique, k)
				}
			}
			for _, a := range clique {
				for _, b := range clique {
					covered[[2]int{a, b}] = true
				}
			}
			all = append(all, clique)
		}
	}
	return all
}

// Ports clash as in the scheduler's NodePorts plugin.
func TestPortsClash(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var shapes []*Shape
		for range 1 + random.IntN(8) {
			shapes = append(shapes, asShape(1, func(p *corev1.Pod) {
				for range random.IntN(4) {
					p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{
						HostPort: int32(1 + random.IntN(3)), Protocol: []corev1.Protocol{"", corev1.ProtocolTCP, corev1.ProtocolUDP}[random.IntN(3)],
						HostIP: []string{"", "0.0.0.0", "10.0.0.1", "10.0.0.2"}[random.IntN(4)],
					})
				}
			}))
		}
		s := constraintsOn(t, nil, nil, shapes...)
		clashes := s.portClashes()
		for i := range shapes {
			used := fwk.HostPortInfo{}
			for _, p := range hostPorts(shapes[i].Pods[0]) {
				used.Add(p.HostIP, string(p.Protocol), p.HostPort)
			}
			for j := range shapes {
				want := slices.ContainsFunc(hostPorts(shapes[j].Pods[0]), func(p corev1.ContainerPort) bool {
					return used.CheckConflict(p.HostIP, string(p.Protocol), p.HostPort)
				})
				if got := clashes[i].has(j); got != want {
					t.Fatalf("%v and %v clash: %t, want %t", hostPorts(shapes[i].Pods[0]), hostPorts(shapes[j].Pods[0]), got, want)
				}
			}
		}
	}
}

// The comparison of pods ends when the budget is used up, whatever their constraints.
func TestConstraintsStopWithTheBudget(t *testing.T) {
	manyTerms := func(i int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			var terms []corev1.PodAffinityTerm
			for j := range 400 {
				terms = append(terms, objects.TermOn(corev1.LabelHostname, fmt.Sprint(i+j)))
			}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		}
	}
	manyPorts := func(i int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for k := range 400 {
				p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: int32(1 + i*400 + k)})
			}
		}
	}
	for name, edit := range map[string]func(int) func(*corev1.Pod){"terms": manyTerms, "ports": manyPorts} {
		var shapes []*Shape
		for i := range 50 {
			shapes = append(shapes, asShape(1, objects.OfApp(fmt.Sprint(i)), edit(i)))
		}
		s := constraintsOn(t, nil, nil, shapes...)
		looks := 0
		s.isOverBudget = func() bool { looks++; return looks > 100 }
		s.apartLimits()
		if looks < 100 || looks > 110 {
			t.Errorf("%s: it has asked %d times, want it to end after 100", name, looks)
		}
	}
}

// Each pod in one half of a group keeps apart from each pod in the other half, by one term each.
func TestTooManyCliquesAreTooHard(t *testing.T) {
	for half, hard := range map[int]bool{32: false, 33: true} {
		var shapes []*Shape
		for i := range 2 * half {
			shapes = append(shapes, asShape(1, objects.OfApp(fmt.Sprint(i)), func(p *corev1.Pod) {
				var terms []corev1.PodAffinityTerm
				for j := range half {
					terms = append(terms, objects.TermOn(corev1.LabelHostname, fmt.Sprint((half-i/half*half)+j)))
				}
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
			}))
		}
		s := constraintsOn(t, nil, nil, shapes...)
		limits := s.apartLimits()
		if got := s.IsStopped(); got != hard {
			t.Errorf("halves of %d: too hard %v, want %v", half, got, hard)
		}
		if hard && s.WhyTooMany() != whyTooManyCliques() || !hard && len(limits[0]) != half {
			t.Errorf("halves of %d: %q, %d limits", half, s.WhyTooMany(), len(limits[0]))
		}
	}
}
