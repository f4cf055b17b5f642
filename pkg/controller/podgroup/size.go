package podgroup

import (
	"errors"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/group"
)

// sizeDecision says which minimum and how many pods a group wants.
type sizeDecision struct {
	minMember, size int32
	// unknown is true if neither a label nor an owner gives a size. No PodGroup is created then.
	unknown bool
	// message is the size in words, or the error of an invalid size.
	message string
	valid   bool
}

// wantedSize returns the minimum and the number of pods that a group wants. The first of these
// counts:
//
//	labels that a user wrote, on pod templates or else on pods
//	the sizes of the owners: their sum, if a label puts several owners into one group
//	labels that were filled in by default
//
// An owner that is created later raises the sum. The group does not wait for such an owner, unless
// a user sets a size by label.
//
// The PodGroup's minMember is kept if a label is invalid, if no owner is left or if no pods are
// wanted now. If it were lowered then, only some of the next pods could start. minMember is always
// kept on a PodGroup that a user created, and if a user has set it.
func (c Config) wantedSize(o observation) sizeDecision {
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
	w := sizeDecision{unknown: err == nil && size == group.Size{}, valid: err == nil}
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
		w.minMember = o.stableRemainingMin(size)
	}
	switch {
	case err != nil:
		w.message = err.Error()
	case user != "":
		w.message = fmt.Sprintf("minMember %d (set by %s), size %d", size.Min, user, size.Size)
	default:
		w.message = fmt.Sprintf("minMember %d, size %d", w.minMember, size.Size)
	}
	return w
}

// userSize returns the size in the labels that users wrote. It is zero if there are none.
func (o observation) userSize() (group.Size, error) { return sizeOf(o.labels(true)) }

// labels returns the labels of the pod templates and then of the pods, in
// order of precedence: a list counts if no list before it gives a size. If the
// group is named by a label and not for an owner, templates and pods count alike, in
// one list. With userOnly, labels that were filled in by default are left out.
func (o observation) labels(userOnly bool) [][]map[string]string {
	read := func(labels, annotations map[string]string) map[string]string {
		if userOnly {
			return group.WithoutDefaults(labels, annotations)
		}
		return labels
	}
	var templates, pods []map[string]string
	for _, p := range activePodOwners(o.podOwners) {
		templates = append(templates, read(p.template.Labels, p.template.Annotations))
	}
	for _, set := range o.pods {
		if set.pod.DeletionTimestamp == nil {
			pods = append(pods, read(set.pod.Labels, set.pod.Annotations))
		}
	}
	if o.isNamedForOwner() {
		return [][]map[string]string{templates, pods}
	}
	return [][]map[string]string{append(templates, pods...)}
}

// sizeOf returns the size from the first list that gives one. Within a list the largest values
// count, so that a group never starts with fewer pods than one of its members asks for.
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

// ownerSize returns the number of pods that the owners want. all is true if every
// pod of the group has an owner that gives a size.
func (o observation) ownerSize() (total group.Size, all bool, err error) {
	if o.ownerNotCached || o.hasBarePod() {
		return group.Size{}, false, nil
	}
	for _, top := range o.activeOwners() {
		switch {
		case top.state != readable:
			return group.Size{}, false, nil
		case top.invalid != "":
			return group.Size{}, false, errors.New(top.invalid)
		}
		total.Size = min(group.MaxSize, total.Size+top.size.Size)
		total.Min = min(group.MaxSize, total.Min+top.size.Min)
	}
	return total, total.Size > 0, nil
}

// activeOwners returns the owners that create pods. If all
// owners that have not ended are suspended, it returns these.
func (o observation) activeOwners() []topOwner {
	var active, suspended []topOwner
	for _, top := range o.topOwners {
		switch {
		case !top.isLive(), top.hasEnded():
		case top.suspended:
			suspended = append(suspended, top)
		default:
			active = append(active, top)
		}
	}
	if len(active) == 0 {
		return suspended
	}
	return active
}

// hasEnded reports whether all owners that are left have ended.
func (o observation) hasEnded() bool {
	over := false
	for _, top := range o.topOwners {
		if top.isLive() {
			if !top.hasEnded() {
				return false
			}
			over = true
		}
	}
	return over
}

// stableRemainingMin returns remainingMin, but lowers the minimum only while a pod waits for a node.
// When no pod waits any more, a minimum that was lowered stays as it is. Otherwise the PodGroup of a
// Job with few completions left would be written each time a pod ends.
func (o observation) stableRemainingMin(size group.Size) int32 {
	return o.stableRemaining(size, o.podGroup.Spec.MinMember)
}

// stableRemaining is stableRemainingMin for a group that has this minimum at present.
func (o observation) stableRemaining(size group.Size, present int32) int32 {
	left := o.remainingMin(size)
	if left == size.Min {
		return size.Min
	}
	for _, set := range o.livePods() {
		if set.pod.Spec.NodeName == "" {
			return left
		}
	}
	return max(left, min(size.Min, present))
}

// remainingMin returns the lower of two numbers: the minimum, and the pods that exist or
// are still to come. The second is lower if Jobs have few completions left.
func (o observation) remainingMin(size group.Size) int32 {
	var done int32
	active := map[string]bool{}
	for _, top := range o.activeOwners() {
		active[string(top.owner.UID)] = true
	}
	for _, p := range o.podOwners {
		if active[string(p.topUID)] {
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
