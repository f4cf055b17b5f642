// Package group says which group a pod is in, how large that is, and what its labels and
// annotations ask for. It does no I/O.
//
//	annotation.go  by which policy is a group matched, and what becomes of one that lost members?
//	size.go        how many pods is a group to have, by its labels?
//	defaulted.go   which of these labels did the webhook fill in?
//	sizers.go    how many pods does the spec of a Job, JobSet, MPIJob ... ask for?
//	kind.go        which kinds of objects control pods, and what is so of each?
//	owner.go       what controls a pod, and how many pods does it ask for?
//	identity.go    of which group is a pod?
//	topology.go    how are the pods of a group to stand together?
//	wholenodes.go  who may ask for whole nodes?
package group
