package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A Matcher books resources for jobs. The caller of Pass implements it. It does not call the Core.
type Matcher interface {
	// Allocate books the resources of a job now, if they are free for its whole Duration. What promises
	// keep is not free, except for those that the ask ignores. The answer is Granted or a refusal.
	Allocate(a Ask) Answer
	// Promise does the same. If the resources are not free now, it reserves them from the earliest time
	// on, and the answer is Reserved. What the job was promised before does not stand in its own way, and is
	// replaced. The answer is Busy if no such time is known.
	Promise(a Ask) Answer
	// Probe answers what Allocate would answer if the job ran for a shorter time, or Promise if later is set. It books nothing.
	// The core probes for the shortest job of a class: if that is refused, all of them are, with one question.
	Probe(a Ask, shorter time.Duration, later bool) Answer
	// Restore is called after a Promise for a job with a promise has found a later time or none. It
	// undoes that: the job has the promise of before again. It returns false, and has done nothing, if that promise cannot
	// be kept any more. Then the caller knows why: a node is lost or smaller, a job has not ended in time,
	// or others hold what was promised. What others are promised is no reason: the core knows of it.
	Restore(j *Job, promised Promise) bool
	// Cancel ends the promise of a job. To cancel what is not there is no error.
	Cancel(key types.NamespacedName)
}

// An Ask is one question to a Matcher. Its slices are valid only during the call.
type Ask struct {
	Job *Job
	// Ignore are jobs whose promises do not count: those after this one in its queue, and those of a lower priority in other
	// queues. If the job has a promise itself, these are only those that it was taken from, and that have not asked anew yet. Each of them asks again
	// in the same pass if the answer is Granted or Reserved, since their promises may overlap what was booked.
	Ignore []types.NamespacedName
	// Avoid are jobs before this one that have been refused for too long. Nodes that one of them could use, by its
	// rules for nodes, are left out.
	Avoid []types.NamespacedName
}

// A Verdict is a Matcher's answer in one word.
type Verdict int

const (
	// Unanswered means: the matcher did not answer. Nothing is known. A job keeps its promise.
	Unanswered Verdict = iota
	// Granted means: the job holds its resources.
	Granted
	// Reserved means: the job is promised its resources from Answer.From on. Only Promise answers so.
	Reserved
	// Busy means: there is no room now and, if Promise answers so, no time is known from when on there will
	// be. A search that was cut short is Busy too. What is Busy for a job is Busy for all longer ones.
	Busy
	// Never means: the job would not fit even if all others had ended. This and the following
	// verdicts do not depend on Duration, and hold until Open(Nodes).
	Never
	// Down means: the job would only fit if nodes that are down came back.
	Down
	// Excluded means: the job would only fit with nodes that its class is kept from, since its
	// pods were refused there.
	Excluded
)

// An Answer is what a Matcher answers to an Ask.
type Answer struct {
	Verdict Verdict
	// From is when the promised time begins. It is set if Verdict is Reserved.
	From time.Time
	// Nodes is the number of nodes of the promise.
	Nodes int
	// Message explains a refusal to the user, in numbers.
	Message string
}

// A Promise is the room that a job will have.
type Promise struct {
	// From is when it begins. Nodes is the number of its nodes.
	From  time.Time
	Nodes int
}
