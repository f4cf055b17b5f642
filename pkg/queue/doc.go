// Package queue decides which waiting job may ask for resources, in which order, and which one is promised room. It
// does no I/O, starts no goroutine and reads no clock: its caller says the time, and asks the matcher.
//
//	given.go     What is a queue, and what is a job?
//	matcher.go   What is a matcher asked, and what may it answer?
//	result.go    What does a pass decide, and why does a job wait?
//	classes.go   Which jobs get the same answers, and what keeps them from asking?
//	tree.go      Which job is the first, and in which place is one?
//	limits.go    Which limit would a job exceed?
//	ready.go     Which job asks next?
//	core.go      What changes by queues and jobs that come and go?
//	lanes.go     From where does a job ask?
//	open.go      Which refusals do not hold any more?
//	pass.go      What does a job ask, and what follows from the answer?
//	promises.go  Who is promised room, and until when?
//	state.go     What is reported of jobs and queues?
package queue
