// Package translate translates the objects of Kubernetes into a
// resource graph, and a matcher's answers into the words of Kubernetes.
//
// It is the only package that knows both. Its functions are pure: the
// same objects give the same result, and no argument is changed or kept.
package translate

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// Types of pools. The resource cpu is called core in the graph, and pods is in no pod's requests.
// Every other pool has the full name of its resource, for instance "memory", "ephemeral-storage" or
// "nvidia.com/gpu".
const (
	// TypeCore is the resource cpu, in thousandths of a core (unit "m").
	TypeCore = "core"
	// TypeMemory is the resource memory, in bytes (unit "B").
	TypeMemory = "memory"
	// TypePods is the number of pods that a node may hold. Every pod takes one.
	TypePods = "pods"
)

// Units of pools. Pools that are counted have no unit.
const (
	unitMilli = "m"
	unitBytes = "B"
)

// Amounts has an amount for each type of pool: cores in thousandths,
// memory, ephemeral-storage and huge pages in bytes, all others counted.
// No amount is negative. An amount that exceeds an int64 is math.MaxInt64.
type Amounts map[string]int64

// An AmountsKey is the canonical text of some amounts. Equal amounts have equal keys, and different
// amounts have different keys.
type AmountsKey string

// Requests returns the amounts that the kubelet charges a pod: its containers or, if they are set,
// its pod-level resources, with init and sidecar containers, the overhead of its runtime class, and
// the amounts that a resize in place has been granted or asks for. It adds one of TypePods. Each
// amount is rounded up. Amounts that are zero are left out. Devices of resource claims are not
// counted.
func Requests(pod *corev1.Pod) Amounts {
	list := podresource.PodRequests(pod, podresource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	a := make(Amounts, len(list)+1)
	for name, q := range list {
		if n := amount(name, q); n > 0 {
			a[poolType(name)] = n
		}
	}
	a[TypePods] = 1
	return a
}

// Types returns the types, sorted.
func (a Amounts) Types() []string { return slices.Sorted(maps.Keys(a)) }

// Key returns the key of the amounts, for instance "core=1500m memory=1073741824B pods=1".
func (a Amounts) Key() AmountsKey {
	var b strings.Builder
	for i, t := range a.Types() {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(t)
		b.WriteByte('=')
		b.WriteString(strconv.FormatInt(a[t], 10))
		b.WriteString(unit(t))
	}
	return AmountsKey(b.String())
}

// Add adds b to a. A sum that exceeds an int64 is math.MaxInt64.
func (a Amounts) Add(b Amounts) {
	for t, n := range b {
		if a[t] > math.MaxInt64-n {
			a[t] = math.MaxInt64
			continue
		}
		a[t] += n
	}
}

// Set returns the amounts as shares that name a type and
// no vertex, for one slot in an Update of a match.Engine.
func (a Amounts) Set() *resource.Set {
	s := &resource.Set{Vertices: make([]resource.Share, 0, len(a))}
	for _, t := range a.Types() {
		s.Vertices = append(s.Vertices, resource.Share{
			Vertex: resource.Vertex{Type: t, Rank: resource.NoRank, Size: a[t], Unit: unit(t)},
			Amount: a[t],
		})
	}
	return s
}

func poolType(name corev1.ResourceName) string {
	if name == corev1.ResourceCPU {
		return TypeCore
	}
	return string(name)
}

func unit(poolType string) string {
	switch {
	case poolType == TypeCore:
		return unitMilli
	case poolType == TypeMemory,
		poolType == string(corev1.ResourceEphemeralStorage),
		strings.HasPrefix(poolType, corev1.ResourceHugePagesPrefix):
		return unitBytes
	default:
		return ""
	}
}

// amount returns a quantity in its pool's unit, rounded up as the kubelet does. It
// is at least 0 and at most math.MaxInt64, because Quantity.Value wraps around.
func amount(name corev1.ResourceName, q apiresource.Quantity) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case name == corev1.ResourceCPU:
		if q.CmpInt64(math.MaxInt64/1000) > 0 {
			return math.MaxInt64
		}
		return q.MilliValue()
	default:
		if q.CmpInt64(math.MaxInt64) >= 0 {
			return math.MaxInt64
		}
		return q.Value()
	}
}
