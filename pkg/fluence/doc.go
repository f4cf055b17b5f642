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
//	release_queue.go       how does the matcher get back what groups no longer want?
//	timed_matcher.go         how long do matches take?
//	guard.go         does a node still take a pod?
//	initial_sync.go       has all been listed that groups need?
//	last_messages.go    is this what was said last?
//	activator.go         how do pods come into the queue again?
//	base.go          what have all parts in common?
//	occupants.go           who holds what, and whose end would help?
//	exclusive.go         who may have nodes for itself alone?
//	stall_timer.go         for how long does a reservation get on?
//	reservations.go  which nodes are reserved, and for whom?
//	debt.go          who may ask, and who pays?
//	timeouts.go          who is too hard, and who is to blame for a match that does not end?
//	nominations.go   which pods of others are about to take room?
//	bind_queue.go          which pod is bound next?
//	bind.go          how is it bound?
//	podgroups.go     how are PodGroups watched and written?
//	owners.go        what controls a pod?
//	group_reporter.go        with what are users told what became of groups?
//	group_log.go        what is logged and told of a group?
//	siblings.go        what are pods told that do not ask themselves?
//	kubelet_rejections.go         which pods did a kubelet reject?
//	reserver.go      who has nodes reserved, and from whom?
//	group_placer.go           how is the matcher asked for a group, and what follows from the answer?
//	handover.go      when does a leader give up its lease?
//	status.go       what do those see who look on?
//	watch.go         what follows from a change in the cluster, or from time?
//	fluence.go       what is the plugin, and of what is it built?
//	gauges.go        how are the figures served?
//	sort.go          how is the queue of several profiles ordered?
//	queuesort.go     QueueSort: which pod is first?
//	preenqueue.go    PreEnqueue: which pod may enter the queue?
//	prefilter.go     PreFilter and Filter: which node does a pod come to?
//	metered_framework.go        who pays for what other plugins take before that?
//	reserve.go       PostFilter, Reserve, Permit and PostBind: what becomes of a seat?
//	prebind.go       PreBind: where do pods wait to be bound?
//	failure_handler.go          how often is a pod told why it waits?
//	attach.go        what of the scheduler is replaced?
//	inspect.go      what may those ask who drive a scheduler step by step?
package fluence
