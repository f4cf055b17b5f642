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
// What a caller tells:
//   - putpod.go, putpodgroup.go: a pod, or a PodGroup, came, changed or went
//   - plan.go: what is there to ask for, and what came of it?
//   - seat.go: a scheduling cycle reserves a seat, or fails; a deadline passes
//   - depart.go: a pod stands at the gate, and its bind is sent
//
// What it gets:
//   - output.go: what does the caller owe after a change?
//   - admit.go, admissible.go: which pods may enter the scheduling queue, and why not the others?
//   - order.go, overtaken.go: in which order do pods stand there?
//   - membership.go: of which group is a pod, or a job?
//   - census.go: how many groups wait, and what for?
//   - beside.go: what are the pods told that wait beside the one that asks?
//
// What is decided:
//   - state.go, groups.go: what is remembered of a group and of its pods?
//   - refusal.go: when does a group ask again that was refused?
//   - bypass.go, nodefilter.go: who has waited for so long that others may not pass, and who yields?
//   - places.go: who takes the place of a member that was lost?
//   - policy.go, topology.go: by which policy is a group matched, and how are its pods to stand?
//   - whole.go: whose are the nodes of a group as a whole?
package gang
