// Package model is Fluxion's matching said as simply as possible, to check the
// traverser with: maps, recursion and lists of spans, each rule in one place, and
// no thought of speed. It answers as flux-sched 0.54.0 did in every case of
// test/testdata/golden.
//
// Where a description of Fluxion leaves open what happens, recorded answers
// decided:
//
//   - The totals of a vertex are booked all types together, and only if something
//     of a type that this vertex tracks was booked below it. The root tracks the
//     types of all leaves beside what the filters say.
//   - The weight of an edge is what is left at time 0, also after a reservation.
//     It becomes 0 only if something was ever booked in the totals.
//   - Whole bundles count, not amounts, both for how many slots there are and for
//     when an early policy has enough. Elsewhere than in a slot one bundle is
//     enough.
//   - Lists of candidates are sorted anew in place by each who chooses from them:
//     ties keep the order that the sort before left.
//   - Scores of one gapless run are equal to locality, and only at the root.
//   - Nodes are counted before anything is tried where there is a constraint or
//     where any filter tracks nodes. A shortage is unsatisfiable to those who ask
//     for satisfiability, busy to all others, also where the request could be
//     reserved.
//   - A reservation ends with the graph, and none starts there.
//   - A contradiction in a request is an error only if nothing was found.
//   - A request that nothing exclusive comes of is an error to some calls and a
//     refusal to others. Here it is always an error.
//   - A cancelled job keeps its start and is no longer reserved.
//   - Labels stay on vertices, and the last queue in all later results (rv1 alone
//     tells it).
//
// Where no recorded answer decides, the model follows the description, or else
// what is simplest: totals of 0 are tracked; what is given out with a shadow is all
// that is below, down or not; an edge to a child in which nothing was booked keeps
// its weight; a label is the chosen vertex's; the nodes asked for are counted where
// no filter tracks nodes, too; a vertex that is given out with all below is one that
// nobody holds anything of; nothing is booked at the end of the graph's time,
// and satisfiability counts nodes that are down.
package model
