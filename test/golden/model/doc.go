// Package model is a model of Fluxion's matching to check the traverser with. It is as
// simple as possible: maps, recursion and lists of spans, with each rule in one place,
// and slow. It answers as flux-sched 0.54.0 did in every case of test/testdata/golden.
//
// Where a description of Fluxion is incomplete, recorded answers decided:
//
//   - The totals of a vertex are booked all types together. They are booked only
//     if something of a type that the vertex tracks was booked below it. The root
//     tracks the types of all leaves in addition to those of the filters.
//   - The weight of an edge is what is left at time 0, even after a reservation.
//     It becomes 0 only if something was ever booked in the totals.
//   - Whole bundles count, not amounts. That holds for the number of slots, and
//     for when a policy that stops early has enough. Outside a slot one bundle
//     is enough.
//   - Everyone who chooses from a list of candidates sorts it again in place. So
//     ties keep the order that the previous sort left.
//   - With locality, the scores of one gapless run are equal, but only at the
//     root.
//   - If there is a constraint, or if any filter tracks nodes, nodes are counted
//     before the search. A shortage is unsatisfiable for calls that ask for
//     satisfiability. It is busy for all others, even if the request could be
//     reserved.
//   - A reservation ends with the graph, and none starts there.
//   - A contradiction in a request is an error only if nothing was found.
//   - A request without anything exclusive is an error in some calls and a refusal
//     in others. Here it is always an error.
//   - A cancelled job keeps its start and is no longer reserved.
//   - Labels stay on vertices, and the last queue in all later results. Only rv1
//     shows the queue.
//
// Where no recorded answer decides, the model follows the description, or else does the
// simplest thing:
//
//   - Totals of 0 are tracked.
//   - A shadow allocates everything below it, whether down or not.
//   - An edge to a child in which nothing was booked keeps its weight.
//   - A label is the chosen vertex's.
//   - With a constraint, requested nodes are counted even if no filter tracks nodes.
//   - A vertex is allocated with everything below it only if nobody holds anything of it.
//   - Nothing is booked at the end of the graph's time.
//   - Satisfiability counts nodes that are down.
package model
