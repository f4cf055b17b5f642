// Package group finds out which group a pod is in, how large the group is, and what the labels and
// annotations of the pod ask for. It does no I/O.
//
//	annotation.go  By which policy is a group matched, and what is done if it lost members?
//	size.go        How many pods is a group to have, by its labels?
//	defaulted.go   Which of these labels did the webhook fill in?
//	sizers.go      How many pods does the spec of a Job, JobSet, MPIJob ... ask for?
//	kind.go        Which kinds of objects control pods, and what is known of each?
//	suspend.go     Which owners may be suspended to make room, and how is it marked?
//	owner.go       Which object controls a pod, and how many pods does it ask for?
//	native.go      Which native PodGroup does a pod name?
//	templates.go   Which pods does an owner make only after others?
//	all_templates.go  Which pods does an owner make, from which templates?
//	identity.go    Which group is a pod in?
//	topology.go    How near to each other are the pods of a group placed?
//	wholenodes.go  Who may ask for whole nodes?
//	duration.go    For how long do the pods of a group hold their nodes?
//	queue.go       In which queue does a workload wait?
//	expect.go      For which groups is room held for pods that are made later, and for how long?
//	keys.go        Which labels and annotations are there, and where do they have an effect?
//	key_problems.go  Which labels and annotations have no effect where they are?
//	value_problems.go  What is wrong with the values of labels and annotations?
package group
