package podgroup

import (
	"errors"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/group"
)

// wantedSize is how many pods a group asks for.
type wantedSize struct {
	minMember, size int32
	// unknown says that nobody tells: a PodGroup is not made for such a size.
	unknown bool
	// message tells the size in words, or what is wrong with it.
	message string
	valid   bool
}

// wantedSize finds out how many pods a group asks for. The first of these counts:
//
//	labels that a user wrote, on pod templates or else on pods
//	what the owners ask for: of several that a label puts into one group the sum.
//	  Those that come later raise it; whoever wants to wait for them says a size
//	labels that were filled in by default
//
// Where labels are wrong, nobody is left to say or no pods are wanted now, the
// PodGroup's minMember stays what it is: the next pods must not start partly. That of a user's PodGroup always does, and so does one that a user
// has set.
func (c Config) wantedSize(o observation) wantedSize {
	size, err := o.userSize()
	owned, all, ownedErr := o.ownerSize()
	switch {
	case err != nil:
	case size != group.Size{}:
		size = size.WithDefault(owned.Size)
	case ownedErr != nil:
		err = ownedErr
	case all:
		size = owned
	default:
		size, err = sizeOf(o.labels(false))
	}
	w := wantedSize{unknown: err == nil && size == group.Size{}, valid: err == nil}
	user := ""
	if o.podGroup != nil {
		kept := max(1, o.podGroup.Spec.MinMember)
		if c.isManaged(o.podGroup) {
			user = minMemberManager(o.podGroup)
		}
		if w.unknown || err != nil || user != "" || !c.isManaged(o.podGroup) || o.hasEnded() || o.idle() {
			size = group.Size{Size: max(kept, size.Size), Min: kept}
		}
	}
	size = size.WithDefault(1)
	w.minMember, w.size = size.Min, size.Size
	if o.podGroup != nil && c.isManaged(o.podGroup) && user == "" && !o.idle() {
		w.minMember = o.remainingMin(size)
	}
	switch {
	case err != nil:
		w.message = err.Error()
	case user != "":
		w.message = fmt.Sprintf("minMember %d, as %s has set it, size %d", size.Min, user, size.Size)
	default:
		w.message = fmt.Sprintf("minMember %d, size %d", size.Min, size.Size)
	}
	return w
}

// userSize returns the size that users wrote into labels, zero if none did.
func (o observation) userSize() (group.Size, error) { return sizeOf(o.labels(true)) }

// labels returns what the pod templates and then the pods are labelled with, in
// the order in which they count: each list counts if those before it say nothing.
// Only what users said is in it if said is set.
func (o observation) labels(userOnly bool) [][]map[string]string {
	read := func(labels, annotations map[string]string) map[string]string {
		if userOnly {
			return group.WithoutDefaults(labels, annotations)
		}
		return labels
	}
	var templates, pods []map[string]string
	for _, p := range current(o.podOwners) {
		templates = append(templates, read(p.template.Labels, p.template.Annotations))
	}
	for _, pod := range o.pods {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, read(pod.Labels, pod.Annotations))
		}
	}
	if o.isNamedForOwner() {
		return [][]map[string]string{templates, pods}
	}
	return [][]map[string]string{append(templates, pods...)}
}

// sizeOf returns what the first list says that says something. Where its members
// disagree the largest values count, so that a group never starts with fewer pods
// than one of them asks for.
func sizeOf(lists [][]map[string]string) (group.Size, error) {
	for _, list := range lists {
		var all group.Size
		for _, labels := range list {
			s, err := group.SizeOf(labels)
			if err != nil {
				return group.Size{}, err
			}
			all = group.Size{Size: max(all.Size, s.Size), Min: max(all.Min, s.Min)}
		}
		if all != (group.Size{}) {
			return all, nil
		}
	}
	return group.Size{}, nil
}

// ownerSize returns how many pods the owners ask for, and whether all of the group's
// pods are of owners that say so.
func (o observation) ownerSize() (total group.Size, all bool, err error) {
	if o.unseen || o.hasBarePod() {
		return group.Size{}, false, nil
	}
	for _, w := range o.activeOwners() {
		switch {
		case w.lookup != readable:
			return group.Size{}, false, nil
		case w.invalid != "":
			return group.Size{}, false, errors.New(w.invalid)
		}
		total.Size = min(group.MaxSize, total.Size+w.size.Size)
		total.Min = min(group.MaxSize, total.Min+w.size.Min)
	}
	return total, total.Size > 0, nil
}

// activeOwners returns the owners that make pods: while others do, those that are
// suspended do not count, and what has ended never does.
func (o observation) activeOwners() []topOwner {
	var active, suspended []topOwner
	for _, w := range o.topOwners {
		switch {
		case !w.canOwn(), w.hasEnded():
		case w.suspended:
			suspended = append(suspended, w)
		default:
			active = append(active, w)
		}
	}
	if len(active) == 0 {
		return suspended
	}
	return active
}

// hasEnded says that all owners that are left have ended.
func (o observation) hasEnded() bool {
	over := false
	for _, w := range o.topOwners {
		if w.canOwn() {
			if !w.hasEnded() {
				return false
			}
			over = true
		}
	}
	return over
}

// remainingMin returns how many pods a group can still start with: Jobs that are nearly
// done make no more pods than they have completions left. It counts only while a
// pod waits for a node, and does not rise again: what is just running out is not
// written to for each pod that ends.
func (o observation) remainingMin(size group.Size) int32 {
	left := o.capMin(size)
	if left == size.Min {
		return size.Min
	}
	for _, pod := range o.livePods() {
		if pod.Spec.NodeName == "" {
			return left
		}
	}
	return max(left, min(size.Min, o.podGroup.Spec.MinMember))
}

// capMin lowers a minimum to the number of pods that are still to come or there.
func (o observation) capMin(size group.Size) int32 {
	var done int32
	counts := map[string]bool{}
	for _, w := range o.activeOwners() {
		counts[string(w.owner.UID)] = true
	}
	for _, p := range o.podOwners {
		if counts[string(p.topUID)] {
			done += p.donePods()
		}
	}
	if done == 0 {
		return size.Min
	}
	owned, _, err := o.ownerSize()
	if err != nil {
		return size.Min
	}
	return max(1, min(size.Min, max(size.Size, owned.Size)-done))
}
