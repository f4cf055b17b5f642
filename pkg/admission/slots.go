package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/match"
)

// maxSlots is the largest number of slots of an allocation, that of pods of a FluxJob.
const maxSlots = 100_000

// slotKeys returns the keys of the slots of a matcher's job. No other job has them.
func slotKeys(job match.JobID, n int64) []string {
	prefix := "fluxjob/" + strconv.FormatUint(uint64(job), 16) + "/"
	keys := make([]string, n)
	for i := range keys {
		keys[i] = prefix + strconv.Itoa(i)
	}
	return keys
}

// seatsOf returns slots as an allocation has them: nodes with equally many pods in one list, those with the most first. It
// brings the slots into that order.
func seatsOf(slots []Slot) []v1alpha1.Seats {
	each := map[string]int32{}
	for _, s := range slots {
		each[s.Node]++
	}
	nodes := slices.SortedFunc(maps.Keys(each), func(a, b string) int {
		return cmp.Or(cmp.Compare(each[b], each[a]), compareHosts(a, b))
	})
	place := make(map[string]int, len(nodes))
	var seats []v1alpha1.Seats
	for begin, end := 0, 0; begin < len(nodes); begin = end {
		for end < len(nodes) && each[nodes[end]] == each[nodes[begin]] {
			place[nodes[end]] = end
			end++
		}
		seats = append(seats, v1alpha1.Seats{Hosts: hostlist.Encode(nodes[begin:end]), Each: each[nodes[begin]]})
	}
	slices.SortStableFunc(slots, func(a, b Slot) int { return cmp.Compare(place[a.Node], place[b.Node]) })
	return seats
}

// slotsOf returns the slots of an allocation, in order. The error names what is wrong with it.
func slotsOf(job match.JobID, seats []v1alpha1.Seats) ([]Slot, error) {
	var nodes []string
	for i, s := range seats {
		hosts, err := hostlist.Parse(s.Hosts)
		if err != nil {
			return nil, fmt.Errorf("status.allocation.seats[%d].hosts: %q: %w", i, s.Hosts, err)
		}
		if n := int64(hosts.Len(maxSlots)) * int64(max(s.Each, 0)); s.Each < 1 || n+int64(len(nodes)) > maxSlots {
			return nil, fmt.Errorf("status.allocation.seats[%d]: %d pods on each of %q: there must be from 1 to %d in all", i, s.Each, s.Hosts, maxSlots)
		}
		for host := range hosts.Names() {
			for range s.Each {
				nodes = append(nodes, host)
			}
		}
	}
	slots := make([]Slot, len(nodes))
	for i, key := range slotKeys(job, int64(len(nodes))) {
		slots[i] = Slot{key, nodes[i]}
	}
	return slots, nil
}

// compareHosts orders names as people count: n2 before n10.
func compareHosts(a, b string) int {
	x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	if x != y {
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// countNodes returns on how many nodes slots are.
func countNodes(slots []Slot) int {
	nodes := make(map[string]struct{}, len(slots))
	for _, s := range slots {
		nodes[s.Node] = struct{}{}
	}
	return len(nodes)
}

// nodesIn returns on how many nodes slots of the matcher are.
func nodesIn(slots []match.Slot) int {
	nodes := make(map[string]struct{}, len(slots))
	for i := range slots {
		nodes[slots[i].Node] = struct{}{}
	}
	return len(nodes)
}
