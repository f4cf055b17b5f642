// Package gang tracks the pods that start together or not at all, from a
// group's first pod to its last. It does no I/O and reads no clock: callers
// feed it what they saw and carry out the Output that each call returns.
//
// A group moves through these states:
//
//	            enough members            a match found room
//	gathering ------------------> complete ----------------> tentative
//	    ^                            ^                           |
//	    | a member is missing        | Unreserve, PostFilter,    | minMember are
//	    |                            | a deletion, a node that   | reserved, and
//	    |                            | closes, the deadline      | the first bind
//	    |                            +---------------------------+ is sent
//	    |                                                        v
//	    |          every member holds what it was given       incomplete
//	    |                          held <--------------------> (a bind is
//	    |                            |                          outstanding)
//	    |  a new incarnation         | the last member ends
//	    +----------- done <----------+
//
// What a match gives a member is its seat. When minMember seats are reserved the
// members may stand at the gate (package gate). Up to the moment when the first of them
// departs from there to be bound, all seats of a group are given back together. From
// then on the group has started: a seat is given back alone, members that come later
// are matched without their siblings, as many as there is room for near these,
// and these never move. When no member is seated or holds a node any more, the
// next ones are a new incarnation, for which all-or-nothing begins anew.
//
// One member asks for all: for a group that has not started, and then for those
// that are late.
//
// A refusal is remembered: the group is held back, and answered from memory,
// until an event happens that can help.
//
// Groups is what callers hold. It plays seven roles over one core: Watches, Admission, Matching,
// Seats, Retries, Turns and Lister. The files, each of which uses those before it, hold first what is
// remembered, then what is decided by it, then what the core does, and then the roles:
//
//	podgroup.go        what does the API object of a group say?
//	rank.go            in which order do pods stand in the queue?
//	event.go           which events may help a group that was refused?
//	refusal.go         what is a refusal, and when does it end?
//	backoff.go         what is remembered of the refusals of a group and of its members?
//	bloomfilter.go      how is a set of nodes kept small?
//	member.go          what is remembered of a pod, and does it wait, hold a node or have a seat?
//	state.go           what is remembered of a group?
//
//	rules.go           what do all groups go by?
//	minimum.go         how many members are to be placed together, and how many are missing?
//	order.go           when was a group created, as far as the queue is concerned?
//	topology.go        how are the pods of a group to stand?
//	policy.go          by which policy is a group matched?
//	exclusive.go           may a group have whole nodes, and are its nodes its own?
//	gathering.go      what does a group lack before it may ask?
//	representative.go  which member asks for the others?
//	position.go          who takes the place of a member that was lost?
//	verdict.go         may a pod enter the scheduling queue?
//
//	output.go          what does a caller owe after a call?
//	retryqueue.go      which group asks again first?
//	registry.go        how are groups found?
//	core.go            what do the roles share?
//	turns.go           Turns: who has waited for so long that others may not pass?
//	yield.go           Turns: who leaves its turn to the next, and for how long?
//	refuse.go          what follows from a refusal?
//	recompute.go          what follows from a change of a group's members?
//	revoke.go          which seats are lost together?
//
//	watches.go         Watches: what do the watches tell?
//	putpodgroup.go     Watches: a PodGroup came, changed or went
//	putpod.go          Watches: a pod came, changed or went
//	queueing.go           Admission: which pods may enter the queue now?
//	moreurgent.go       Admission: who is to be asked for first, though it stands behind?
//	plan.go            Matching: what is there to ask for?
//	matched.go         Matching: what did the engine answer?
//	assignments.go            Seats: a scheduling cycle reserves a seat, or fails; a deadline passes
//	bind.go          Seats: a pod stands at the gate, and its bind is sent
//	retries.go         Retries: what lets a refused group ask again?
//	due.go             Retries: which groups may ask again now?
//	lister.go          Lister: how does a group stand?
//	joblister.go       Lister: who has seats under which job?
//	waiting.go         Lister: who waits, and why?
//	stats.go          Lister: how many groups are there in each phase?
//	groups.go          how do the roles go together?
package gang
