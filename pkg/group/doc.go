// Package group says which group a pod is in, how large that is, and what its labels and
// annotations ask for. It does no I/O.
//
//   - identity.go: of which group is a pod?
//   - owner.go: what controls a pod?
//   - kind.go: which kinds of objects control pods, and what is so of each?
//   - size.go: how many pods is a group to have, by its labels?
//   - defaulted.go: which of these labels did the webhook fill in?
//   - workload.go: how many pods does a Job, JobSet, MPIJob ... ask for?
//   - annotation.go: policy of a match, and what becomes of a group that lost members
//   - topology.go: how are its pods to stand together?
//   - wholenodes.go: who may ask for whole nodes?
package group
