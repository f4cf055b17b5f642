package fluence

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// apart bounds, by shape, the slots that required anti-affinity and host ports keep
// from standing together, in either direction. Of two shapes of which only one keeps
// to itself there is no number that says so: the verification does.
func (s *siblings) apart() [][]jobspec.Limit {
	limits := make([][]jobspec.Limit, len(s.shapes))
	add := func(name string, clash func(i, j int) bool, bound func(name string) []jobspec.Limit) {
		for n, clique := range s.cliques(clash) {
			for _, i := range clique {
				limits[i] = append(limits[i], bound(name+strconv.Itoa(n))...)
			}
		}
	}
	for k, key := range s.antiAffinityKeys() {
		d := s.by(key)
		add("apart-"+strconv.Itoa(k)+"-", func(i, j int) bool { return s.shuns(i, j, key) || s.shuns(j, i, key) },
			func(name string) []jobspec.Limit { return d.atMost(name, 1) })
	}
	add("ports-", s.sharePorts, func(name string) []jobspec.Limit {
		return []jobspec.Limit{{Name: name, Level: resource.TypeNode, Most: 1}}
	})
	return limits
}

// antiAffinityKeys lists the topology keys of required anti-affinity.
func (s *siblings) antiAffinityKeys() []string {
	var keys []string
	for _, info := range s.infos {
		for _, t := range info.GetRequiredAntiAffinityTerms() {
			keys = append(keys, t.TopologyKey)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// shuns says whether a pod of shape i may not stand where one of shape j does.
func (s *siblings) shuns(i, j int, key string) bool {
	return slices.ContainsFunc(s.infos[i].GetRequiredAntiAffinityTerms(), func(t fwk.AffinityTerm) bool {
		return t.TopologyKey == key && s.selects(&t, j)
	})
}

func (s *siblings) sharePorts(i, j int) bool {
	used := fwk.HostPortInfo{}
	for _, p := range hostPorts(s.shapes[i].pods[0]) {
		used.Add(p.HostIP, string(p.Protocol), p.HostPort)
	}
	return slices.ContainsFunc(hostPorts(s.shapes[j].pods[0]), func(p corev1.ContainerPort) bool {
		return used.CheckConflict(p.HostIP, string(p.Protocol), p.HostPort)
	})
}

func hostPorts(pod *corev1.Pod) []corev1.ContainerPort { return util.GetHostPorts(pod) }

// cliques sorts shapes into sets of which any two pods clash, so that all clashes
// between shapes that keep to themselves, or have one pod, are in one of them.
func (s *siblings) cliques(clash func(i, j int) bool) [][]int {
	alone := func(i int) bool { return clash(i, i) || len(s.shapes[i].pods) == 1 }
	covered := map[[2]int]bool{}
	var all [][]int
	for i := range s.shapes {
		for j := i; j < len(s.shapes); j++ {
			if covered[[2]int{i, j}] || !clash(i, j) || !alone(i) || !alone(j) || i == j && len(s.shapes[i].pods) == 1 {
				continue
			}
			clique := slices.Compact([]int{i, j})
			for k := range s.shapes {
				if !slices.Contains(clique, k) && alone(k) && !slices.ContainsFunc(clique, func(o int) bool { return !clash(k, o) }) {
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
