package interpod

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
)

// podCapacity is, by shape and host, how many pods of the shape fit on the host by
// their resource requests alone, according to the scheduler's snapshot. It is
// only an estimate, which orders the alternatives and leaves out hopeless ones.
type podCapacity []map[string]int64

// capacity returns the capacity of all nodes. It looks at the nodes only once.
func (s *Constraints) capacity() podCapacity {
	if s.cachedCapacity == nil {
		for _, shape := range s.shapes {
			want := resourcehelper.PodRequests(shape.Pods[0], resourcehelper.PodResourcesOptions{})
			by := make(map[string]int64, len(s.nodes))
			for _, n := range s.nodes {
				by[n.Node().Name] = podsThatFit(n, want)
			}
			s.cachedCapacity = append(s.cachedCapacity, by)
		}
	}
	return s.cachedCapacity
}

// podsThatFit returns how many pods with these requests a node has room for.
func podsThatFit(n fwk.NodeInfo, want corev1.ResourceList) int64 {
	all, used := n.GetAllocatable(), n.GetRequested()
	count := int64(all.GetAllowedPodNumber() - len(n.GetPods()))
	for name, q := range want {
		var free int64
		each := q.Value()
		switch name {
		case corev1.ResourceCPU:
			free, each = all.GetMilliCPU()-used.GetMilliCPU(), q.MilliValue()
		case corev1.ResourceMemory:
			free = all.GetMemory() - used.GetMemory()
		case corev1.ResourceEphemeralStorage:
			free = all.GetEphemeralStorage() - used.GetEphemeralStorage()
		default:
			free = all.GetScalarResources()[name] - used.GetScalarResources()[name]
		}
		if each > 0 {
			count = min(count, free/each)
		}
	}
	return max(0, count)
}

// sum returns for how many pods the hosts have room in all, and at most most. On each
// host it counts the shape with the most room. A shape has no room where it is ruled out.
func (r podCapacity) sum(shapes []int, hosts []string, ruledOut []map[string]bool, most int) int {
	sum := int64(0)
	for _, h := range hosts {
		best := int64(0)
		for _, i := range shapes {
			if !ruledOut[i][h] {
				best = max(best, r[i][h])
			}
		}
		if sum += min(best, math.MaxInt32); sum >= int64(most) {
			return most
		}
	}
	return int(sum)
}
