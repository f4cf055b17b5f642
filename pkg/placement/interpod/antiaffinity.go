package interpod

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
)

const (
	// maxCliques bounds the cliques of one topology key, or of the host ports: each
	// is a limit that the matcher has to keep.
	maxCliques = 1 << 10
	// maxCliqueShapes bounds the shapes in all cliques together.
	maxCliqueShapes = 1 << 14
)

// whyTooManyCliques returns the message of a group with too many cliques.
func whyTooManyCliques() string {
	return fmt.Sprintf("its anti-affinity terms or host ports make more than %d sets of pods that exclude each other: use one anti-affinity term that selects all of them", maxCliques)
}

// whyTooManyApart returns the message of a group with too many shapes in its cliques.
func whyTooManyApart() string {
	return fmt.Sprintf("the sets of pods that exclude each other, by anti-affinity or host ports, have more than %d kinds of pods in all: use one anti-affinity term that selects all of them", maxCliqueShapes)
}

// apartLimits returns, for each shape, the limits for required anti-affinity and
// host ports: at most one slot of each clique in a domain. A limit can only be one
// slot in each domain. So a shape with several pods that may share a domain gets
// no limit, and only the verification keeps its pods apart from other shapes.
func (s *Constraints) apartLimits() [][]jobspec.Limit {
	limits := make([][]jobspec.Limit, len(s.shapes))
	all := 0
	add := func(name string, clashes []bitset, bound func(name string) []jobspec.Limit) {
		for n, clique := range s.cliques(clashes) {
			if all += len(clique); all > maxCliqueShapes {
				s.whyTooMany = whyTooManyApart()
			}
			if s.IsStopped() {
				return
			}
			l := bound(name + strconv.Itoa(n))
			for _, i := range clique {
				limits[i] = append(limits[i], l...)
			}
		}
	}
	for k, key := range s.antiAffinityKeys() {
		if s.IsStopped() {
			return limits
		}
		hosts := s.domainsOf(key).atMost("", 1)
		add("apart-"+strconv.Itoa(k)+"-", s.antiAffinityClashes(key), func(name string) []jobspec.Limit {
			bounds := slices.Clone(hosts)
			for i := range bounds {
				bounds[i].Name = name
			}
			return bounds
		})
	}
	add("ports-", s.portClashes(), func(name string) []jobspec.Limit {
		return []jobspec.Limit{{Name: name, Level: resource.TypeNode, Most: 1}}
	})
	return limits
}

// antiAffinityKeys lists the topology keys of required anti-affinity.
func (s *Constraints) antiAffinityKeys() []string {
	var keys []string
	for _, info := range s.infos {
		for _, t := range info.GetRequiredAntiAffinityTerms() {
			keys = append(keys, t.TopologyKey)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// antiAffinityClashes returns, for each shape, the shapes that must not share a
// domain of a key with it, by the terms of either. Equal terms are evaluated once.
func (s *Constraints) antiAffinityClashes(key string) []bitset {
	clashes := newBitsets(len(s.shapes), len(s.shapes))
	selected := map[string]bitset{}
	for i, info := range s.infos {
		for _, t := range info.GetRequiredAntiAffinityTerms() {
			if s.IsStopped() {
				return clashes
			}
			if t.TopologyKey != key {
				continue
			}
			text := termKey(&t)
			by, ok := selected[text]
			if !ok {
				by = newBitsets(1, len(s.shapes))[0]
				for j := range s.shapes {
					if s.Selects(&t, j) {
						by.add(j)
					}
				}
				selected[text] = by
			}
			clashes[i].union(by)
		}
	}
	for i := range clashes {
		for j := clashes[i].next(0); j >= 0; j = clashes[i].next(j + 1) {
			clashes[j].add(i)
		}
	}
	return clashes
}

// portClashes returns, for each shape, the shapes that must not share a node with it
// because of their host ports.
func (s *Constraints) portClashes() []bitset {
	type port struct {
		protocol corev1.Protocol
		number   int32
	}
	// A port on all addresses clashes with every use of the port. A port on one
	// address clashes with the uses on this address and on all addresses.
	users := map[port]map[string]bitset{}
	wild := func(ip string) bool { return ip == "" || ip == fwk.DefaultBindAllHostIP }
	each := func(do func(i int, of map[string]bitset, ip string)) {
		for i, shape := range s.shapes {
			for _, p := range hostPorts(shape.Pods[0]) {
				if s.IsStopped() {
					return
				}
				at := port{cmp.Or(p.Protocol, corev1.ProtocolTCP), p.HostPort}
				if users[at] == nil {
					users[at] = map[string]bitset{}
				}
				ip := p.HostIP
				if wild(ip) {
					ip = ""
				}
				do(i, users[at], ip)
			}
		}
	}
	const everyone = "*"
	each(func(i int, of map[string]bitset, ip string) {
		for _, who := range []string{ip, everyone} {
			if of[who] == nil {
				of[who] = newBitsets(1, len(s.shapes))[0]
			}
			of[who].add(i)
		}
	})
	clashes := newBitsets(len(s.shapes), len(s.shapes))
	each(func(i int, of map[string]bitset, ip string) {
		if ip == "" {
			clashes[i].union(of[everyone])
			return
		}
		clashes[i].union(of[ip])
		if all := of[""]; all != nil {
			clashes[i].union(all)
		}
	})
	return clashes
}

func hostPorts(pod *corev1.Pod) []corev1.ContainerPort { return util.GetHostPorts(pod) }

// cliques covers clashes greedily with cliques: sets of shapes of which any two clash. It covers
// all clashes among the shapes that have one pod, or whose own pods clash with each other.
func (s *Constraints) cliques(clashes []bitset) [][]int {
	n := len(s.shapes)
	onePerDomain := newBitsets(1, n)[0]
	for i, shape := range s.shapes {
		if clashes[i].has(i) || len(shape.Pods) == 1 {
			onePerDomain.add(i)
		}
	}
	covered := newBitsets(n, n)
	var all [][]int
	for i := range n {
		if !onePerDomain.has(i) {
			continue
		}
		for j := i; j < n; j++ {
			if !clashes[i].has(j) || !onePerDomain.has(j) || covered[i].has(j) || i == j && len(s.shapes[i].Pods) == 1 {
				continue
			}
			if len(all) > maxCliques {
				s.whyTooMany = whyTooManyCliques()
			}
			if s.IsStopped() {
				return all
			}
			members, clique := newBitsets(1, n)[0], slices.Compact([]int{i, j})
			members.add(i)
			members.add(j)
			// common are the shapes that clash with each shape of the clique.
			common := slices.Clone(onePerDomain)
			common.intersect(clashes[i])
			common.intersect(clashes[j])
			for k := common.next(0); k >= 0; k = common.next(k + 1) {
				if members.has(k) {
					continue
				}
				clique = append(clique, k)
				members.add(k)
				common.intersect(clashes[k])
			}
			for _, k := range clique {
				covered[k].union(members)
			}
			all = append(all, clique)
		}
	}
	return all
}

// A bitset is a set of small numbers.
type bitset []uint64

// newBitsets returns empty sets for numbers below n.
func newBitsets(count, n int) []bitset {
	words := (n + 63) / 64
	all := make([]uint64, count*words)
	made := make([]bitset, count)
	for i := range made {
		made[i] = all[i*words : (i+1)*words]
	}
	return made
}

func (s bitset) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s bitset) add(i int) { s[i/64] |= 1 << (i % 64) }

// union adds the numbers in o.
func (s bitset) union(o bitset) {
	for w := range s {
		s[w] |= o[w]
	}
}

// intersect keeps the numbers that are also in o.
func (s bitset) intersect(o bitset) {
	for w := range s {
		s[w] &= o[w]
	}
}

// next returns the lowest number from i on, or -1 if there is none.
func (s bitset) next(i int) int {
	for w := i / 64; w < len(s); w++ {
		if rest := s[w] &^ (1<<(max(i-64*w, 0)) - 1); rest != 0 {
			return 64*w + bits.TrailingZeros64(rest)
		}
	}
	return -1
}
