// Package queue decides which waiting job may ask for resources, in which order, and which one is promised room. It
// does no I/O, starts no goroutine and reads no clock: its caller says the time, and asks the matcher.
//
// The order of the queues over the same nodes is one: the priority of the queue, then that of the job, its creation, its namespace and its
// name. In this order jobs ask in rounds. A pass is a round or a part of one. What is refused is not asked again until something may have
// changed: a refusal holds for all jobs of the class after that one which run as long or longer. The end of a pass forgets nothing of that.
//
// In a queue that is FCFS, nobody passes the first job that is refused for room. In one that is EASY, the first job for which a time is
// known from when on it has room is promised that room. The others start if that does not move the promise. In either, a job waits without
// being in the way of others if it is held, if a limit is reached, or if nodes are missing rather than room.
//
// A job without a promise ignores the promises of jobs after it in its queue, and of those of a lower priority in other queues. Whoever may
// have lost a promise by that asks anew in the same pass, and is promised what is left. A job with a promise ignores nobody, so that
// what it gains costs nobody. Its promise moves later only if it cannot be kept.
//
// If no time is known for the first job that is refused, it is promised nothing, and one after it may be. Once it has been refused as
// the first for Config.MaxBypass, it is overdue: all after it, in all queues over these nodes, leave the nodes that it could use, those
// with promises too. They use other nodes as before.
//
//	given.go     What is a queue, and what is a job?
//	matcher.go   What is a matcher asked, and what may it answer?
//	result.go    What does a pass decide, and why does a job wait?
//	classes.go   Which jobs get the same answers, and what keeps them from asking?
//	tree.go      Which job is the first, and which is the oldest?
//	limits.go    Which limit would a job exceed?
//	ready.go     Which job asks next?
//	lanes.go     From where does a job ask?
//	open.go      Which refusals do not hold any more?
//	core.go      What changes by queues and jobs that come and go?
//	pass.go      What does a job ask, and what follows from the answer?
//	promises.go  Who is promised room, and until when?
//	state.go     What is reported of jobs and queues?
package queue
