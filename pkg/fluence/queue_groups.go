package fluence

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/admission"
	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/preemption"
)

// placementRules returns the match policy and the topology that annotations ask for, as admission.Groups.Rules has it. With an error it
// returns what is known of them, for a job that runs already. It takes no
// lock of groups: the driver calls it with its own held, which the groups ask with theirs held.
func (w *watcher) placementRules(namespace string, annotations map[string]string) (policy string, topology *jobspec.Topology, err error) {
	asked := group.TopologyAnnotationsOf(annotations)
	topology, err = asked.Parse(w.levels)
	named := annotations[group.MatchPolicyAnnotation]
	if named != "" {
		if wrong := group.ValidateMatchPolicy(named); wrong != nil {
			return "", topology, cmp.Or(err, wrong)
		}
	}
	annotation, value := group.MatchPolicyAnnotation, named
	policy = cmp.Or(named, w.args.MatchPolicy)
	if asked.Exclusive == group.ExclusiveTrue {
		annotation, value = group.ExclusiveAnnotation, asked.Exclusive
		policy = match.WithExclusive(cmp.Or(policy, match.PolicyLonode), true)
	}
	if match.IsExclusive(policy) && !match.IsExclusive(w.args.MatchPolicy) {
		if why := w.whyNoWholeNodes(namespace); why != "" {
			err = cmp.Or(err, errors.New(group.DeniedMessage(annotation, value, why)))
		}
	}
	return policy, topology, err
}

// claimsBefore returns what groups have before a job of this rank.
func claimsBefore(a *groupPlacer, rank gang.Rank) admission.Claims {
	now := a.now()
	c := admission.Claims{
		Ignored: a.promises.jobsOf(func(_ types.NamespacedName, p *promise) bool { return rank.Less(p.rank) }),
		Nodes:   a.reserver.reservedBefore(rank, now),
	}
	nobody := types.NamespacedName{}
	c.Expected = slices.Concat(
		a.nominations.slots(rank.Priority, now),
		a.restarts.slots(nobody, rank.Priority, a.holdsNode),
		a.claims.slots(claimant{}, rank, false),
		a.freed.slots(nobody, rank.Priority, rank, now, nil),
		leftSlots(a.base, nobody, now),
	)
	return c
}

// placedOfJob returns the node of each pod of a job that has a node or an assignment, and has not ended.
func placedOfJob(b *base, job types.NamespacedName) (nodes []string) {
	for _, node := range b.groups.Placed(groupOf(b, job)) {
		nodes = append(nodes, node)
	}
	return nodes
}

// namesFor names who is in the way, and to whom room is promised, in a message about a job to the users of its namespace.
func namesFor(b *base, r match.Reason, reader types.NamespacedName) (blocker, promised string) {
	if r.Promised != nil {
		promised = promisedTo(b, *r.Promised, reader)
	}
	return b.blockerOf(r, reader), promised
}

// firstOn returns the promise that begins first on some of these nodes, and when. It returns 0 if there is none.
func (s *promises) firstOn(nodes map[string]struct{}) (of match.JobID, from time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.inOrder() {
		p := s.groups[key]
		if of != 0 && !p.at().Before(from) {
			continue
		}
		for node := range nodes {
			if p.nodes.Has(node) {
				of, from = p.job.ID, p.at()
				break
			}
		}
	}
	return of, from
}

// jobEndChanged tells the matcher when the room of a job's pods is free by now.
func jobEndChanged(b *base, job types.NamespacedName) {
	var uids []types.UID
	for uid := range b.groups.Placed(groupOf(b, job)) {
		uids = append(uids, uid)
	}
	b.inventory.Recheck(uids...)
	endsChanged(b, uids...)
}

// recheckRoom lets the driver look again at the room of a job: a pod of its group has come to a node, has lost it, or has ended.
func recheckRoom(b *base, old, pod *corev1.Pod) {
	if old != nil && old.Spec.NodeName == pod.Spec.NodeName && hasEnded(old) == hasEnded(pod) && (old.DeletionTimestamp == nil) == (pod.DeletionTimestamp == nil) {
		return
	}
	if job := b.queues.workloadOf(pod).job; job != (types.NamespacedName{}) {
		b.queues.Recheck(job)
	}
}

// queuedEvictions puts a job back into its queue before the first of its pods is evicted. Otherwise the job would have its
// room still, and the pods that are made anew would take it.
type queuedEvictions struct {
	eviction.API
	base *base
}

// Suspend implements eviction.API.
func (e queuedEvictions) Suspend(ctx context.Context, v preemption.Victim, m eviction.Mark) error {
	if err := e.preempt(ctx, v, m); err != nil {
		return err
	}
	return e.API.Suspend(ctx, v, m)
}

// MarkPod implements eviction.API. It is the last write before a pod is deleted.
func (e queuedEvictions) MarkPod(ctx context.Context, v preemption.Victim, pod preemption.VictimPod, m eviction.Mark) error {
	if err := e.preempt(ctx, v, m); err != nil {
		return err
	}
	return e.API.MarkPod(ctx, v, pod, m)
}

func (e queuedEvictions) preempt(ctx context.Context, v preemption.Victim, m eviction.Mark) error {
	job := types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
	switch v.Kind {
	case preemption.NativeGroup:
		return nil // its pods wait in no queue
	case preemption.Pod:
		job.Name = group.Owner{Kind: "Pod", Name: v.Name, UID: v.UID}.PodGroupName()
	default: // a group has the name of its job
	}
	_, admitted := e.base.queues.End(job)
	if err := e.base.queues.Preempt(ctx, job, m.Evicted(v.Namespace)); err != nil {
		return err
	}
	if admitted {
		jobEndChanged(e.base, job)
	}
	return nil
}
