// Package v1alpha1 is the PodGroup of scheduling.x-k8s.io/v1alpha1 as Fluence
// reads and writes it: the type of sigs.k8s.io/scheduler-plugins v0.34.7 with
// fields added to its spec and status. The types of its own fields never change, so that
// clients of either side read what the other wrote.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.x-k8s.io
package v1alpha1
