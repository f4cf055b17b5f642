package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// schedulerLease is the Lease of the schedulers, as manifests/scheduler-config.yaml and the chart name it. The
// Lease of the controllers is podgroup.FieldManager.
const schedulerLease = "fluence-scheduler"

// A leaseAnswer is what a Lease says now of the processes that share it.
type leaseAnswer struct {
	// Exists is false if there is no such Lease: no process has ever led, or they run without an election.
	Exists bool `json:"exists"`
	// Holder is the identity of the process that leads. It is empty if that process has given the Lease up.
	Holder string `json:"holder,omitempty"`
	// Acquired is when the holder got the Lease, and Renewed when it last renewed it, by its clock.
	Acquired metav1.Time `json:"acquired,omitzero"`
	Renewed  metav1.Time `json:"renewed,omitzero"`
	// Expired is true if the holder has not renewed the Lease for longer than it lasts.
	Expired bool `json:"expired,omitempty"`
}

// process returns the name of the process that leads, without the id that client-go adds.
func (l *leaseAnswer) process() string {
	if l == nil {
		return ""
	}
	name, _, _ := strings.Cut(l.Holder, "_")
	return name
}

// readLease reads a Lease in the namespace of the scheduler. It returns nil with a note if the user may not.
func (o *options) readLease(ctx context.Context, r *reader, name string) (*leaseAnswer, error) {
	l, err := r.client.CoordinationV1().Leases(o.schedulerNamespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return &leaseAnswer{}, nil
	case apierrors.IsForbidden(err):
		r.notes = append(r.notes, fmt.Sprintf("you may not read Lease %s/%s: whether its holder works is not known", o.schedulerNamespace, name))
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Lease %s/%s: %w", o.schedulerNamespace, name, err)
	}
	return leaseAt(l, o.now()), nil
}

// leaseAt judges a Lease at a time.
func leaseAt(l *coordinationv1.Lease, now time.Time) *leaseAnswer {
	a := &leaseAnswer{Exists: true}
	if l.Spec.HolderIdentity != nil {
		a.Holder = *l.Spec.HolderIdentity
	}
	if l.Spec.RenewTime != nil {
		a.Renewed = metav1.NewTime(l.Spec.RenewTime.Time)
	}
	if l.Spec.AcquireTime != nil {
		a.Acquired = metav1.NewTime(l.Spec.AcquireTime.Time)
	}
	if s := l.Spec.LeaseDurationSeconds; s != nil {
		a.Expired = now.Sub(a.Renewed.Time) > time.Duration(*s)*time.Second
	}
	return a
}

// rereadAfter is longer than the time between two renewals of a Lease: 2 seconds, as client-go and kube-scheduler
// have it by default.
const rereadAfter = 3 * time.Second

// rereadExpired reads the Leases that have expired by the clock of this machine once more after a pause. One that was
// renewed meanwhile is alive: the clock of its holder differs, and a note says so.
func (o *options) rereadExpired(ctx context.Context, r *reader, a *statusAnswer) error {
	lost := func(l *leaseAnswer) bool { return l != nil && l.Expired && l.Holder != "" }
	if !lost(a.Scheduler) && !lost(a.Controller) {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-o.after(rereadAfter):
	}
	for _, at := range []struct {
		name  string
		lease *leaseAnswer
	}{{schedulerLease, a.Scheduler}, {podgroup.FieldManager, a.Controller}} {
		if !lost(at.lease) {
			continue
		}
		again, err := o.readLease(ctx, r, at.name)
		if err != nil {
			return err
		}
		if again == nil || again.Renewed.Equal(&at.lease.Renewed) {
			continue
		}
		if again.Expired {
			again.Expired = false
			r.notes = append(r.notes, fmt.Sprintf("the clock of this machine is about %s ahead of the clock of %s, which renews its lease: ages in this answer are too large by that", o.age(again.Renewed), again.process()))
		}
		*at.lease = *again
	}
	return nil
}

// renewed says in words when a Lease was renewed.
func (o *options) renewed(l *leaseAnswer) string {
	switch {
	case l == nil:
		return ""
	case !l.Exists:
		return " (no lease)"
	case l.Holder == "":
		return " (lease is free)"
	}
	return fmt.Sprintf(" (lease renewed %s ago)", o.age(l.Renewed))
}

// countUnanswered counts the PodGroups that wait for the matcher by a condition that the scheduler has written
// after the given time. It returns 0 with a note if the user may not list PodGroups.
func (r *reader) countUnanswered(ctx context.Context, after time.Time) (int, error) {
	n := 0
	for _, k := range []kind{
		{name: "podgroups." + scheduling.GroupVersion.Group, list: r.listPodGroups("")},
		{name: nativegroup.PodGroups.GroupResource().String(), list: lister(r.client.SchedulingV1beta1().PodGroups("").List)},
	} {
		err := pager.New(pager.ListPageFunc(k.list)).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
			if waitsForMatcher(o) && writtenBy(o, report.FieldManager).After(after) {
				n++
			}
			return nil
		})
		switch {
		case apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			r.notes = append(r.notes, fmt.Sprintf("you may not list %s: whether groups wait for the matcher is known from the report alone", k.name))
		case err != nil:
			return 0, fmt.Errorf("list %s: %w", k.name, err)
		}
	}
	return n, nil
}

// waitsForMatcher reports whether a PodGroup of either kind waits because the matcher does not answer.
func waitsForMatcher(o runtime.Object) bool {
	var pg *scheduling.PodGroup
	switch o := o.(type) {
	case *scheduling.PodGroup:
		pg = o
	case *schedulingv1beta1.PodGroup:
		pg = nativegroup.Convert(o)
	default:
		return false
	}
	c := meta.FindStatusCondition(pg.Status.Conditions, report.ConditionScheduled)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason.MatcherUnavailable
}

// writtenBy returns when a field manager last wrote an object. The transition time of a condition would not do:
// it stays when only the reason changes.
func writtenBy(o runtime.Object, manager string) time.Time {
	var at time.Time
	m, err := meta.Accessor(o)
	if err != nil {
		return at
	}
	for _, f := range m.GetManagedFields() {
		if f.Manager == manager && f.Time != nil && f.Time.After(at) {
			at = f.Time.Time
		}
	}
	return at
}
