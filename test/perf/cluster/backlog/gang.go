// Package backlog makes the pods that a scheduler is to bind, and removes them again.
package backlog

import "fmt"

// A Scheduler is whom pods ask to be scheduled by.
type Scheduler string

const (
	// Default is kube-scheduler, whose PodGroups are those of scheduling.k8s.io.
	Default Scheduler = "default-scheduler"
	// Fluence is Fluence, whose PodGroups are those of scheduling.x-k8s.io.
	Fluence Scheduler = "fluence"
)

// A Gang is pods that are counted together. It may be one pod.
type Gang struct {
	Name string
	Pods []string
	// Group makes a PodGroup for them; without one each pod is scheduled on its own.
	Group bool
	// Urgent gives them the priority of PriorityClass UrgentClass instead of 0.
	Urgent bool
}

// Gangs returns gangs of size pods each, pods in all, which size must divide, with or
// without PodGroups. Their names and those of their pods begin with prefix and are in
// order.
func Gangs(prefix string, pods, size int, group bool) []Gang {
	gangs := make([]Gang, pods/size)
	for i := range gangs {
		gangs[i] = Gang{Name: fmt.Sprintf("%s-%05d", prefix, i), Group: group}
		for j := range size {
			gangs[i].Pods = append(gangs[i].Pods, fmt.Sprintf("%s-%05d", gangs[i].Name, j))
		}
	}
	return gangs
}
