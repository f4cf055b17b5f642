// Package report tells users what became of groups and pods. It writes the conditions
// and events of PodGroups, the statuses and events of pods, and the status ConfigMap
// (package statusmap). It makes no decisions: it writes what its callers pass in.
//
//	stable_text.go  which part of a message stays the same while other pods come and go?
//	numbers.go      how often are messages written of which only the numbers change?
//	condition.go    what do the conditions of a PodGroup say, and what did they say before?
//	reporter.go     when are conditions written, and when does an event go with them?
//	event.go        when are the events of pods sent?
//	pod_status.go   when is the status of an unschedulable pod written?
//	waiting_pod.go  when does a pod say that its group waits?
//	configmap.go    when is the status ConfigMap written?
package report

import "time"

const (
	// WriteTimeout bounds one write to the API server.
	WriteTimeout = 10 * time.Second
	// FieldManager is the scheduler's field manager in server-side apply, and where it writes to pods why they wait.
	FieldManager = "fluence-scheduler"
)
