// Package gang tracks groups of pods that start together or not at all, from a group's first pod to
// its last. It does no I/O and reads no clock: callers pass in what they see and the time, and
// carry out the Output that a call returns.
//
// A group moves through these phases:
//
//	from        to          when
//	gathering   complete    all pods that the group needs exist
//	complete    gathering   a pod is missing
//	complete    tentative   a match has found nodes
//	tentative   complete    a cycle fails, a pod is deleted, a node is unusable, or time is up
//	tentative   held        minMember pods are reserved, and the first bind is sent
//	held        incomplete  a member is lost
//	incomplete  held        another member has replaced it
//	held        done        the last member ends
//	incomplete  done        the last member ends
//	done        gathering   new pods come: a new incarnation
//
// A match gives each member an assignment: the node that it is to be bound to. When minMember
// assignments are reserved, the members may enter the bind queue (package bindqueue). Until the
// first member leaves the bind queue to be bound, all assignments of a group are revoked together.
// From then on the group has started, and an assignment is revoked alone.
//
// Members that come after the start are late members. They are matched by separate
// requests, near the members on nodes, which never move. As many late members are
// placed as there is room for. When no member has an assignment or a node any
// more, the next members are a new incarnation, and all-or-nothing begins anew.
//
// A started group has a position for each member that it requires. A member that is lost leaves its
// position. The late member that takes the position is its replacement, and goes before all other pods.
//
// One member, the representative, goes through the scheduling queue for the group. Its cycle places
// all members of a group that has not started, and later the late members.
//
// A refusal is remembered: the group is kept out of the queue, and answered from memory, until an
// event happens that can help, or until a time has passed.
//
// Package group finds the group of a pod, and reads the pod's labels and annotations. This package keeps
// the state of the groups.
//
// Callers hold a Groups. It has eight sets of methods, the roles: Watches, Queueing, Matching,
// Assignments, Seats, Retries, Turns and Lister. They share one core: the groups and one lock. Each file uses
// the files before it. The first files hold what is known, the next ones decide by it, and then come the
// core and the roles:
//
//	podgroup.go        What does the PodGroup object say?
//	rank.go            In which order are pods in the queue?
//	event.go           Which events may help a refused group?
//	refusal.go         What is a refusal, and when does it end?
//	backoff.go         Which refusal is the last, and how long is the next delay?
//	bloomfilter.go     How is a set of nodes kept small?
//	member.go          What is known of a pod: does it wait, or have a node or an assignment?
//	state.go           What is known of a group?
//	tally.go          How many members wait, have nodes, or are refused?
//
//	rules.go           Which rules apply to all groups?
//	minimum.go         How many members are placed together, and how many are missing?
//	order.go           Since when has a group been in the order of the queue?
//	topology.go        Which topology does a group ask for?
//	policy.go          By which policy is a group matched?
//	exclusive.go       May a group have whole nodes, and are its nodes exclusive?
//	gathering.go       What does a group lack before it may be placed?
//	representative.go  Which member is scheduled for the group?
//	templates.go       Which pods does the owner of a group make later, and of which stage is a group?
//	expectation.go     For how many pods, and until when, has a group seats?
//	position.go        Which member replaces a lost one?
//	verdict.go         May a pod enter the scheduling queue?
//
//	output.go          What does a caller have to carry out after a call?
//	pauses.go          Which groups wait for the pause of one before them?
//	retryqueue.go      Which group retries first?
//	equivalence.go     Which of many equal groups retries on behalf of all?
//	registry.go        How are groups found?
//	core.go            What do the roles share?
//	turns.go           Turns: Which groups have waited so long that others may not pass them?
//	yield.go           Turns: Which group leaves its turn to the next, and for how long?
//	refuse.go          What follows from a refusal?
//	recompute.go       What follows from a change of a group's members or its seats?
//	revoke.go          Which assignments are lost together?
//
//	watches.go         Watches: When is the state of the API known?
//	putpodgroup.go     Watches: What follows when a PodGroup comes, changes or goes?
//	putpod.go          Watches: What follows when a pod comes, changes or goes?
//	queueing.go        Queueing: Which pods may enter the queue now?
//	moreurgent.go      Queueing: Which pod is placed first, although the queue has it later?
//	expect.go          How many seats may a namespace have, and which did it waste?
//	seats.go           Seats: For which pods is room held that do not exist yet, and for how long?
//	seatrecord.go      Seats: What does the PodGroup record of seats, and which follow from its record?
//	seatsearch.go      Seats: What becomes of a seat whose room is lost?
//	restart.go         Lister, Seats: For how long is the room of a pod kept that is made again?
//	plan.go            Matching: What is to be placed?
//	matched.go         Matching: What follows from the matcher's answer?
//	assignments.go     Assignments: What follows from a scheduling cycle, or from a deadline?
//	bind.go            Assignments: When may a bind be sent?
//	retries.go         Retries: What lets a refused group retry?
//	due.go             Retries: Which groups may retry now?
//	lister.go          Lister: What is known of a pod's group?
//	joblister.go       Lister: Who has assignments under which job?
//	waiting.go         Lister: Who waits, and why?
//	stats.go           Lister: How many groups are in each phase?
//	groups.go          How do the roles go together?
package gang
