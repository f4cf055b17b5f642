package eviction

import (
	"context"
	"errors"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

const (
	// maxRefusals is after how many refusals in a row a victim counts as refused, and minRefusedFor how long after the
	// first of them at least: rights are taken away for a moment when a chart is upgraded, and up to maxInFlight requests
	// are refused at once.
	maxRefusals   = 5
	minRefusedFor = 2 * time.Second
	// refusalPause is for how long a victim is in no plan after that. Rights and policies are mended by people.
	refusalPause = 10 * time.Minute
)

// isRefusal reports whether an error says that the API server has not carried out a request, and that the same
// request would have the same answer until somebody changes a right, a policy or a CRD.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || scheduling.LacksField(err)
}

// refusalOf says why a request was refused, without the names in the API server's answer: the reader may not know the victim.
func refusalOf(err error) string {
	if scheduling.LacksField(err) {
		return "the CRD of PodGroups has no conditions"
	}
	return string(apierrors.ReasonForError(err))
}

// refuse records that a request was refused. After some refusals in a row a suspension gives way to deletions, and
// otherwise the plan is stopped: it would keep its room and its victims for ever. A victim that has begun is
// evicted to its end all the same. The caller holds mu.
func (e *Evictor) refuse(ctx context.Context, c call, err error) {
	p, v, now := c.plan, c.victim, e.Now()
	if c.mayMark && !errors.As(err, new(deletionError)) { // nothing was written
		v.markSent = false
	}
	if v.refusals == 0 {
		v.refusedSince = now
	}
	v.refusals++
	switch {
	case v.refusals < maxRefusals || now.Sub(v.refusedSince) < minRefusedFor:
	case p.canceled && !v.begun:
	case c.suspends:
		// The mark says how the victim is evicted, and it is written anew.
		v.Suspend, v.mark.Suspends, v.State = group.Owner{}, "", Planned
		v.refusals, v.attempts, v.retryAt = 0, 0, time.Time{}
	default:
		v.Refused = true
		if !v.begun { // it is taken back at once
			v.attempts, v.retryAt = 0, time.Time{}
		}
		maps.DeleteFunc(e.refused, func(_ types.UID, until time.Time) bool { return !now.Before(until) })
		e.refused[v.UID] = now.Add(refusalPause)
		if p.canceled {
			return
		}
		p.canceled, p.refusal = true, refusalOf(err)
		e.changes = append(e.changes, Change{For: p.preemptor, Refusal: p.refusal})
		klog.FromContext(ctx).Info("A plan to evict others is stopped, because a request for it is refused again and again", "victim", klog.KRef(v.Namespace, v.Name), "kind", v.Kind, "err", err)
	}
}

// Refusal says why the plan for a preemptor was stopped, because a request for it was refused again and again. It is
// empty if it was not.
func (e *Evictor) Refusal(preemptor types.UID) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.plans[preemptor]; p != nil {
		return p.refusal
	}
	return ""
}

// IsRefused reports whether requests for a victim were refused again and again a short time ago: it is left out of plans.
func (e *Evictor) IsRefused(victim types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Now().Before(e.refused[victim])
}
