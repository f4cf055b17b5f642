// Package fluence is the scheduler plugin of that name: it starts the pods of a
// group together or not at all, on nodes that a matcher chose for all of them
// at once.
//
// The first pod of a complete group stands for all: its scheduling cycle asks
// the matcher, and the siblings that wait in PreEnqueue are let through with a
// node each. Callbacks of the framework are hints; what must not be lost also
// has a deadline.
//
// The plugin is no fwk.SignPlugin, so kube-scheduler signs no pod of the profile: by a
// signature one pod would be given the answer that was made for another.
//
// One profile of a scheduler may enable Fluence. Others beside it are as
// kube-scheduler's own, but for the order of the queue that they share: where there
// are some, all of them enable the plugin FluenceSort under queueSort, which has no
// arguments.
//
//	args.go          what may an administrator say?
//	metrics.go       what is counted?
//	breaker.go       does the matcher answer?
//	returns.go       how does the matcher get back what groups no longer want?
//	timed.go         how long do matches take?
//	guard.go         does a node still take a pod?
//	listing.go       has all been listed that groups need?
//	last_words.go    is this what was said last?
//	waker.go         how do pods come into the queue again?
//	base.go          what have all parts in common?
//	why.go           who holds what, and whose end would help?
//	whole.go         who may have nodes for itself alone?
//	clock.go         for how long does a reservation get on?
//	reservations.go  which nodes are reserved, and for whom?
//	debt.go          who may ask, and who pays?
//	hard.go          who is too hard, and who is to blame for a match that does not end?
//	nominations.go   which pods of others are about to take room?
//	gate.go          which pod is bound next?
//	bind.go          how is it bound?
//	podgroups.go     how are PodGroups watched and written?
//	owners.go        what controls a pod?
//	teller.go        with what are users told what became of groups?
//	record.go        what is logged and told of a group?
//	beside.go        what are pods told that do not ask themselves?
//	races.go         which pods did a kubelet reject?
//	reserved.go      who has nodes reserved, and from whom?
//	ask.go           how is the matcher asked for a group, and what follows from the answer?
//	handover.go      when does a leader give up its lease?
//	reading.go       what do those see who look on?
//	watch.go         what follows from a change in the cluster, or from time?
//	fluence.go       what is the plugin, and of what is it built?
//	gauges.go        how are the figures served?
//	sort.go          how is the queue of several profiles ordered?
//	queuesort.go     QueueSort: which pod is first?
//	preenqueue.go    PreEnqueue: which pod may enter the queue?
//	prefilter.go     PreFilter and Filter: which node does a pod come to?
//	cycles.go        who pays for what other plugins take before that?
//	reserve.go       PostFilter, Reserve, Permit and PostBind: what becomes of a seat?
//	prebind.go       PreBind: where do pods wait to be bound?
//	hush.go          how often is a pod told why it waits?
//	attach.go        what of the scheduler is replaced?
//	standing.go      what may those ask who drive a scheduler step by step?
package fluence
