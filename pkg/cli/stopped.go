package cli

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/statusmap"
)

// What follows for an answer while no scheduler leads.
const (
	oldAnswers    = "reasons and phases may be from before"
	placesNothing = "it places nothing until one leads again"
)

// noteStopped adds a note if no scheduler leads, with what follows from that, or if the matcher does not answer. It
// adds none if the user may not read the Lease of the scheduler or its report, or if there is no such object: status says
// that. It reads both once, and the Lease again after a pause if it has expired by the clock of this machine.
func (o *options) noteStopped(ctx context.Context, r *reader, follows string) {
	notes := r.notes
	l, err := o.readLease(ctx, r, schedulerLease)
	r.notes = notes
	if err != nil || l == nil || !l.Exists {
		return
	}
	a := statusAnswer{Scheduler: l}
	if o.rereadExpired(ctx, r, &a) != nil {
		return
	}
	switch {
	case l.Holder == "":
		r.notes = append(r.notes, fmt.Sprintf("no scheduler is the leader: its lease is free: %s; see kubectl fluence status", follows))
		return
	case l.Expired:
		r.notes = append(r.notes, fmt.Sprintf("the scheduler has not renewed its lease for %s: %s; see kubectl fluence status", o.age(l.Renewed), follows))
		return
	}
	c, err := r.client.CoreV1().ConfigMaps(o.schedulerNamespace).Get(ctx, statusmap.Name, metav1.GetOptions{})
	if err != nil {
		return
	}
	status, err := statusmap.Read(c.Data)
	if a.Status = &status; err != nil || a.noScheduler(o) != "" {
		return // the report is of another scheduler, or old
	}
	r.notes = append(r.notes, a.wrongWithMatcher(o)...)
}
