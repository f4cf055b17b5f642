package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// addHints adds reasons why pods wait that can be read from the pods themselves, in case no status
// has the reason.
func (s *whyAnswer) addHints(scheduler string) {
	otherSchedulers := map[string]int{}
	ours := 0
	for _, pod := range s.members {
		switch name := pod.Spec.SchedulerName; {
		case name == scheduler && waits(pod):
			ours++
		case name != scheduler && whyEnded(pod) == "":
			otherSchedulers[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(otherSchedulers)) {
		hint := fmt.Sprintf("%s schedulerName %q; Fluence's is %q", podsHave(otherSchedulers[name]), name, scheduler)
		if len(otherSchedulers) == 1 && otherSchedulers[name] == len(s.members) {
			hint += ": Fluence does not place such pods"
		}
		s.Hints = append(s.Hints, hint)
	}
	if held := whyGated(s.members); held != "" && s.Message != held {
		s.Hints = append(s.Hints, held)
	}
	switch err := podgroup.CheckName(s.wantedGroup); {
	case s.wantedGroup == "" || ours == 0 || s.WaitingFor != "":
	case shownName(s.wantedGroup) != s.wantedGroup:
		s.WaitingFor = reason.NoPodGroup
		s.Message = fmt.Sprintf("%s does not exist, or the API server does not serve this kind: create it", group.KeyText(types.NamespacedName{Namespace: s.Namespace, Name: s.wantedGroup}))
	case err != nil:
		s.WaitingFor, s.Message = reason.InvalidGroupName, err.Error()
	default:
		s.WaitingFor = reason.NoPodGroup
		s.Message = fmt.Sprintf("PodGroup %s/%s does not exist: the controller creates it for pods with the label %s and, even without this label, for pods of Jobs and other known kinds; check that the controller runs", s.Namespace, s.wantedGroup, group.SizeLabel)
	}
}

// addController adds to a missing PodGroup what the Lease of the controller says of it. It adds nothing if the
// controller works, or if the user may not read the Lease.
func (o *options) addController(ctx context.Context, r *reader, s *whyAnswer) error {
	notes := r.notes
	l, err := o.readLease(ctx, r, podgroup.FieldManager)
	r.notes = notes
	switch {
	case err != nil:
		return err
	case l == nil:
	case !l.Exists:
		s.Hints = append(s.Hints, fmt.Sprintf("no controller has held the Lease %s/%s: see kubectl get pods -n %s", o.schedulerNamespace, podgroup.FieldManager, o.schedulerNamespace))
	case l.Holder == "":
		s.Hints = append(s.Hints, fmt.Sprintf("no controller holds the Lease %s/%s: see kubectl get pods -n %s", o.schedulerNamespace, podgroup.FieldManager, o.schedulerNamespace))
	case l.Expired:
		s.Hints = append(s.Hints, fmt.Sprintf("the controller %s has not renewed its lease for %s: see its log", l.process(), o.age(l.Renewed)))
	}
	return nil
}

// unclear reports whether pods wait and the reason in the status is missing
// or may be incomplete: there is no PodGroup, no reason, or only Gathering.
func (s *whyAnswer) unclear() bool {
	return s.Waits && (s.podGroup == nil || s.WaitingFor == "" || s.WaitingFor == reason.Gathering)
}

func podsHave(n int) string {
	if n == 1 {
		return "1 pod has"
	}
	return fmt.Sprintf("%d pods have", n)
}

// whyGated says in words which scheduling gates hold pods back. It returns "" if there are none.
func whyGated(pods []*corev1.Pod) string {
	names := map[string]bool{}
	n := 0
	for _, pod := range pods {
		if !gated(pod) {
			continue
		}
		n++
		for _, g := range pod.Spec.SchedulingGates {
			names[g.Name] = true
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s held back by scheduling gates until these are removed: %s", podsAre(n), strings.Join(slices.Sorted(maps.Keys(names)), ", "))
}

func podsAre(n int) string {
	if n == 1 {
		return "1 pod is"
	}
	return fmt.Sprintf("%d pods are", n)
}

// gated reports whether a pod waits and has a scheduling gate.
func gated(pod *corev1.Pod) bool { return waits(pod) && len(pod.Spec.SchedulingGates) > 0 }
