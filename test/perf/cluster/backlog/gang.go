// Package backlog creates the pods that a scheduler is to bind, and removes them.
package backlog

import "fmt"

// A Scheduler is the schedulerName of pods.
type Scheduler string

const (
	// Default is kube-scheduler. Its PodGroups are always native.
	Default Scheduler = "default-scheduler"
	// Fluence is Fluence. It has PodGroups of both kinds.
	Fluence Scheduler = "fluence"
)

// RackLabel is the label of nodes that names their rack.
const RackLabel = "topology.example.com/rack"

// A Gang is a set of pods that are counted together. It may be one pod.
type Gang struct {
	Name string
	Pods []string
	// Group creates a PodGroup for the pods. Without it each pod is scheduled alone.
	Group bool
	// Native makes it a PodGroup of the API group scheduling.k8s.io also for Fluence,
	// in place of one of scheduling.x-k8s.io.
	Native bool
	// Urgent gives the pods the PriorityClass UrgentClass instead of priority 0.
	Urgent bool
	// Rack requires that all pods are on nodes with the same value
	// of the label RackLabel. Only a gang with a group can have it.
	Rack bool
}

// isNative reports whether the PodGroup for a scheduler is of the API group scheduling.k8s.io.
func (g Gang) isNative(by Scheduler) bool { return g.Native || by != Fluence }

// Gangs returns gangs of size pods each, with a total of pods, with or without PodGroups. size
// must divide pods. The names of the gangs and of their pods begin with prefix and are in order.
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
