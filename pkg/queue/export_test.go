package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Overdue returns the jobs that have been refused for too long, in their order: others leave nodes that these could use.
func (c *Core) Overdue() []types.NamespacedName {
	var jobs []*job
	for _, q := range c.queues {
		if c.isOverdue(q) {
			jobs = append(jobs, q.first)
		}
	}
	slices.SortFunc(jobs, compareJobs)
	keys := make([]types.NamespacedName, len(jobs))
	for i, j := range jobs {
		keys[i] = j.Key
	}
	return keys
}

func compareJobs(a, b *job) int {
	if a.before(b) {
		return -1
	}
	return 1
}
