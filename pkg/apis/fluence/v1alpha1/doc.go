// Package v1alpha1 has the types Queue and FluxJob of fluence.flux-framework.org/v1alpha1.
//
//	scheme.go      under which names are the types served?
//	phases.go      how far may a job have come, and why does it wait?
//	queue.go       who may use a queue, in which order does it start jobs, and within which limits?
//	fluxjob.go     what does a job ask for that waits in a queue, and how far has it come?
//	durations.go   for how long may a job run?
//	allocation.go  on which nodes are the slots of an allocation?
//	client.go      how are they read and written without generated clients?
//
// +kubebuilder:object:generate=true
// +groupName=fluence.flux-framework.org
package v1alpha1
