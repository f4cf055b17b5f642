// Package report tells users what became of groups and pods: by conditions and events of PodGroups, by
// statuses and events of pods, and by the figures of the ConfigMap of package health. It decides
// nothing: what is told here is known when it comes.
//
//	stable_text.go         what does a message say apart from what others change all the time?
//	condition.go    what do the conditions of a PodGroup say, and what did they say before?
//	reporter.go     when is that written, and when does an event go with it?
//	event.go        when are the events of pods sent?
//	pod_status.go   when is the status of a pod written that was refused?
//	waiting_pod.go  what are pods told that do not ask themselves?
//	configmap.go       when are the figures of health written?
package report

import "time"

const (
	// WriteTimeout bounds one write to the API server.
	WriteTimeout = 10 * time.Second
	// FieldManager owns what the scheduler writes by server-side apply.
	FieldManager = "fluence-scheduler"
)
