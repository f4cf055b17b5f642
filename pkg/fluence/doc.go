// Package fluence is the scheduler plugin of that name. It starts the pods of a group
// together or not at all, on nodes that a matcher chose for all of them at once.
//
// One pod of a complete group, the representative, is scheduled on behalf of
// all: its scheduling cycle calls the matcher. The siblings are held in
// PreEnqueue until then, and pass with a node each. The plugin does not rely on
// callbacks of the framework alone: whatever must happen also has a deadline.
//
// The plugin does not implement fwk.SignPlugin, so kube-scheduler signs no pod of the
// profile. With a signature, a pod could get the result that was found for another.
//
// One profile of a scheduler may enable Fluence. Other profiles work as in kube-scheduler,
// except that all profiles share one queue and its order. If there are other profiles,
// every profile enables the plugin FluenceSort under queueSort, which has no arguments.
//
//	args.go                which arguments may an administrator set?
//	metrics.go             which metrics count events?
//	breaker.go             does the matcher answer?
//	release_queue.go       how are resources released to the matcher?
//	timed_matcher.go       how long do matches take?
//	bind_checks.go               does a node still take a pod after the match?
//	initial_sync.go        has everything been listed that groups need?
//	last_messages.go       does a message repeat the last one?
//	activator.go           how do pods come into the scheduling queue again?
//	base.go                what do all parts share?
//	occupants.go           which pods are on a node, and which of them have to end to free it?
//	exclusive.go           which namespaces may have whole nodes?
//	stall_timer.go         how long has a reservation made no progress?
//	reservations.go        which nodes are reserved, and for which group?
//	shared_requests.go     what does a pod request?
//	debt.go                which namespaces are throttled?
//	timeouts.go            which namespace is to blame for matches that time out?
//	nominations.go         which pods of other schedulers are about to take room?
//	restarts.go            which room is kept for pods that are made again?
//	claims.go              which group gets the room of pods that are ending?
//	promises.go            which groups are promised room, where and from when?
//	unpromised.go          what is remembered of groups that are promised nothing?
//	preemptions.go         when may a group evict others again?
//	victims.go             what is known of the pods that may be evicted?
//	yields.go              which groups wait that were evicted?
//	freed_room.go          who is the first to whom room is offered that pods have left?
//	ended_pods.go          which pods have ended that the scheduler's cache still counts?
//	bind_queue.go          which pod is bound next?
//	bind.go                how is a pod bound?
//	seats.go               how does a PodGroup record the seats of pods that come later?
//	podgroups.go           how are PodGroups watched and written?
//	nativegroups.go        how are native PodGroups watched and written?
//	native_members.go      which pods of a native PodGroup do not count, and which differ?
//	owners.go              what controls a pod?
//	walltimes.go           when is the room of a pod free again?
//	group_reporter.go      which writers report to users?
//	group_log.go           what is logged about a group?
//	siblings.go            what is reported to pods that only wait for their representative?
//	quotas.go              how many more pods do the ResourceQuotas of a namespace leave?
//	expect.go              for which groups is room held for pods that do not exist yet?
//	kubelet_rejections.go  which pods did a kubelet reject?
//	reserver.go            when are nodes reserved, and which groups must leave them free?
//	queues.go              which pods wait for their turn in a queue of jobs?
//	leaving_rooms.go       which room is a job's still that one of its pods has left?
//	freed_for_jobs.go      which room do groups leave until the jobs in queues have asked for it?
//	takeover.go            how do pods get the room that their job has from its queue?
//	group_placer.go        how is a group placed, and what follows from the matcher's answer?
//	claimed_nodes.go       which nodes does the scheduler's own nominator know of?
//	preempt.go             for whom is nobody or somebody evicted?
//	preempting_message.go  what does the message of a group say of its victims?
//	evictions.go           how are victims evicted, and what becomes of marks that an earlier process has left?
//	seat_upkeep.go         when is a seat lost, and how is another found?
//	handover.go            when does a leader give up its lease?
//	status.go              what does a snapshot of the plugin's state contain?
//	queue_groups.go        what do the queues know of groups?
//	watch.go               what follows from a change in the cluster, or from time?
//	promising.go           when is room promised, and when does that end?
//	promise_movers.go      what has moved a promise to a later time?
//	fluence.go             what is the plugin, and what are its parts?
//	gauges.go              which metrics show the current state?
//	sort.go                how is the queue of several profiles ordered?
//	queuesort.go           QueueSort: which pod is first?
//	preenqueue.go          PreEnqueue: which pod may enter the queue?
//	prefilter.go           PreFilter and Filter: which node does a pod get?
//	metered_framework.go   who is charged for the time of other PreFilter plugins?
//	reserve.go             PostFilter, Reserve, Permit and PostBind: what becomes of an assignment?
//	prebind.go             PreBind: where do pods wait to be bound?
//	holding_queue.go       which pods are kept out of kube-scheduler's queue?
//	failure_handler.go     how often is it reported why a pod waits?
//	attach.go              which parts of the scheduler are wrapped?
//	queue_view.go          in which order do groups ask, by the objects of the API alone?
//	inspect.go             what can package simulate read while it runs a scheduler step by step?
package fluence
