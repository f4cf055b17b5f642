package v1alpha1

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/match"
)

// MaxPods is the largest number of pods of a job. It is also the maximum of spec.pods in the schema.
const MaxPods = 100_000

// MatchJobID returns the ID of the matcher's job for an allocation of a FluxJob. attempt is the one of the allocation.
func MatchJobID(job types.UID, attempt int64) match.JobID {
	return match.NewJobID("fluxjob", string(job), strconv.FormatInt(attempt, 10))
}

// SlotKeys returns the keys of the slots of that job, in their order. No other job has them: whoever compares a
// matcher's graph with the cluster finds a slot by its key.
func SlotKeys(job match.JobID, n int) []string {
	keys, prefix := make([]string, n), "fluxjob/"+strconv.FormatUint(uint64(job), 16)+"/"
	for i := range keys {
		keys[i] = prefix + strconv.Itoa(i)
	}
	return keys
}

// SeatsOf writes the nodes of the slots of a job, in the order of the slots. Slots in a row on one node are one host, and hosts in
// a row with equal numbers of slots are one entry. A node may be there more than once. So JobAllocation.Nodes returns
// the same nodes in the same order. The caller owes names for which hostlist.Single is true, as those of all nodes are.
func SeatsOf(nodes []string) []Seats {
	var seats []Seats
	var hosts []string // of the last entry
	for i := 0; i < len(nodes); {
		each := 1
		for i+each < len(nodes) && nodes[i+each] == nodes[i] {
			each++
		}
		last := len(seats) - 1
		if last < 0 || seats[last].Each != int32(each) {
			if last >= 0 {
				seats[last].Hosts = hostlist.Encode(hosts)
			}
			seats, hosts = append(seats, Seats{Each: int32(each)}), nil
		}
		hosts = append(hosts, nodes[i])
		i += each
	}
	if len(seats) > 0 {
		seats[len(seats)-1].Hosts = hostlist.Encode(hosts)
	}
	return seats
}

// Nodes returns the node of each slot of an allocation, in the order of the slots: of each entry, each host in turn with all its
// slots. It fails for what is no hostlist, and for more than MaxPods slots. The error names the field and the value.
func (a *JobAllocation) Nodes() ([]string, error) {
	var nodes []string
	for i, s := range a.Seats {
		hosts, err := hostlist.Parse(s.Hosts)
		if err != nil {
			return nil, fmt.Errorf("allocation.seats[%d].hosts: %q: %w", i, s.Hosts, err)
		}
		if s.Each < 1 {
			return nil, fmt.Errorf("allocation.seats[%d].each: %d: must be at least 1", i, s.Each)
		}
		if most := (MaxPods - len(nodes)) / int(s.Each); hosts.Len(most) > most {
			return nil, fmt.Errorf("allocation.seats[%d]: %d on each of %q: an allocation has at most %d slots", i, s.Each, s.Hosts, MaxPods)
		}
		for host := range hosts.Names() {
			for range s.Each {
				nodes = append(nodes, host)
			}
		}
	}
	return nodes, nil
}
