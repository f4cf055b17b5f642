package podgroup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// sizeDecision says which minimum and how many pods a group wants.
type sizeDecision struct {
	minMember, size int32
	// unknown is true if neither a label nor an owner gives a size. No PodGroup is created then.
	unknown bool
	// message is the size in words, or the error of an invalid size.
	message string
	valid   bool
	// lack says that the minimum is more than all pods that ask for this scheduler. It is "" if it is not.
	lack string
	// differ says that the pod templates of the group's owner give it different sizes. It is "" if they do not.
	differ string
	// unsaid says that the size is the sum of several owners, which nobody has confirmed. It is "" otherwise.
	unsaid string
}

// wantedSize returns the minimum and the number of pods that a group wants. The first of these
// counts:
//
//	labels that a user wrote, or group.ArrayAnnotation, on pod templates or else on pods
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
	differ := ""
	switch {
	case err != nil:
	case size != group.Size{}:
		size = size.WithDefault(owned.Size)
		if all && o.hasOneOwner() {
			size, differ = o.largestSize(size, owned)
		}
	case ownedErr != nil:
		err = ownedErr
	case all:
		size = owned
	default:
		size, err = sizeOf(o.sizes(false))
	}
	w := sizeDecision{unknown: err == nil && size == group.Size{}, valid: err == nil, differ: differ}
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
	if size, err := o.userSize(); err == nil && size.Size+size.Min == 0 && user == "" && o.isOfSeveralOwners() && (o.podGroup == nil || c.isManaged(o.podGroup)) {
		w.unsaid = whySizeUnknown
	}
	if differ != "" {
		w.message += "; " + differ
	}
	if _, why := o.templatesWithin(); why != "" {
		w.message += "; " + why
	}
	if others := o.whyNotCounted(); others != "" && err == nil {
		w.message += "; not counted: " + others
		// An operator that makes the PodGroup itself may set the scheduler of the pods too.
		made := o.podGroup == nil || c.isManaged(o.podGroup)
		if all && made && w.minMember > max(owned.Size, countOf(o.pods).unended) && !o.hasEnded() && !o.idle() {
			w.lack = fmt.Sprintf("minMember is %d, and only %s will ask for this scheduler: %s", w.minMember, reason.Plural(int(owned.Size), "pod"), others)
		}
	}
	return w
}

// whySizeUnknown is the text of the event SizeUnknown. It has no numbers, so that it is sent once.
var whySizeUnknown = fmt.Sprintf("several owners share this group by the label %s, and nothing says how many pods start together: pods of the first owners can start before the other owners exist; set the label %s to the number of all pods of the group, in all pod templates",
	group.Label, group.SizeLabel)

// isOfSeveralOwners reports whether a label has put pods of several owners that have not ended into the group.
func (o observation) isOfSeveralOwners() bool {
	_, native := group.NativeName(o.key)
	return !native && !o.isNamedForOwner() && len(o.activeOwners()) > 1
}

// whyNotCounted says which pods of the group's owners do not count, because they ask for another
// scheduler. It returns "" if there are none.
func (o observation) whyNotCounted() string {
	others := slices.Clone(o.otherSchedulers)
	for _, top := range o.activeOwners() {
		if top.otherSchedulers != "" {
			others = append(others, top.otherSchedulers)
		}
	}
	return clip(strings.Join(others, ", "))
}

// A sizeSource is a pod template or a pod of a group, and the size that it gives the group.
type sizeSource struct {
	name string
	size group.Size
}

// largestSize returns the largest size that the pod templates of the group's owner give it, and that is at
// least the given one. A template without size labels gives the size of the owner's spec. If two templates
// disagree, differ says so.
func (o observation) largestSize(size, owned group.Size) (largest group.Size, differ string) {
	sources := o.sizeSources(owned)
	if len(sources) == 0 {
		return size, ""
	}
	slices.SortFunc(sources, func(a, b sizeSource) int {
		return cmp.Or(cmp.Compare(a.size.Min, b.size.Min), cmp.Compare(a.size.Size, b.size.Size), cmp.Compare(a.name, b.name))
	})
	for _, s := range sources {
		size = group.Size{Size: max(size.Size, s.size.Size), Min: max(size.Min, s.size.Min)}
	}
	if low, high := sources[0], sources[len(sources)-1]; low.size != high.size {
		differ = fmt.Sprintf("the size labels differ: %s has minimum %d of size %d and %s has minimum %d of size %d; the larger counts, so set the same labels on all",
			low.name, low.size.Min, low.size.Size, high.name, high.size.Min, high.size.Size)
	}
	return size, clip(differ)
}

// sizeSources lists the pod templates below the group's owner, and the pods that have no such template.
// If no template has size labels, it lists all pods alone. It returns nothing for ReplicaSets, which differ
// while a Deployment is rolled out.
func (o observation) sizeSources(owned group.Size) []sizeSource {
	var all []sizeSource
	labelled := false
	add := func(name string, labels, annotations map[string]string) {
		// A wrong label does not come here, except on a pod whose template has labels.
		said, err := group.UserSizeOf(labels, annotations)
		switch {
		case err != nil:
			return
		case said == group.Size{}:
			said = owned
		default:
			said, labelled = said.WithDefault(owned.Size), true
		}
		all = append(all, sizeSource{name, said})
	}
	if slices.ContainsFunc(activePodOwners(o.podOwners), func(p podOwner) bool { return p.ref.Kind == "ReplicaSet" }) {
		return nil
	}
	for _, t := range o.labelledTemplates() {
		add("the template of "+t.Name, t.Labels, t.Annotations)
	}
	byTemplate := labelled
	if !byTemplate {
		all = nil
	}
	for _, set := range o.livePods() {
		if !byTemplate || !slices.ContainsFunc(o.podOwners, func(p podOwner) bool { return p.GetUID() == set.traits.ownerUID }) {
			add("one of its pods", set.pod.Labels, set.pod.Annotations)
		}
	}
	return all
}

// labelledTemplates returns the pod templates of the group. The podOwners have most of
// them. Others are only in the specs of top owners.
func (o observation) labelledTemplates() []group.LabelledTemplate {
	var all []group.LabelledTemplate
	for _, p := range activePodOwners(o.podOwners) {
		all = append(all, group.LabelledTemplate{Name: p.ref.Kind + "/" + p.ref.Name, Labels: p.template.Labels, Annotations: p.template.Annotations})
	}
	for _, top := range o.activeOwners() {
		for _, t := range top.spec.labelled {
			if t.Native == o.templatesHere(top) {
				t.Name = top.owner.Kind + "/" + top.owner.Name + ", " + t.Name
				all = append(all, t)
			}
		}
	}
	return all
}

// userSize returns the size that users wrote on templates and pods. It is zero if there is none.
func (o observation) userSize() (group.Size, error) { return sizeOf(o.sizes(true)) }

// A readSize is what one pod template or pod says about the size, or what is wrong with it.
type readSize struct {
	size group.Size
	err  error
}

// sizes returns the sizes that the pod templates and then the pods give, in order of precedence: a
// list counts if no list before it gives a size. If the group has no owner or several, templates
// and pods count alike, in one list. With userOnly, labels that were filled in by default are left out.
func (o observation) sizes(userOnly bool) [][]readSize {
	read := func(labels, annotations map[string]string) readSize {
		size, err := group.SizeOf(labels)
		if userOnly {
			size, err = group.UserSizeOf(labels, annotations)
		}
		return readSize{size, err}
	}
	var templates, pods []readSize
	for _, t := range o.labelledTemplates() {
		templates = append(templates, read(t.Labels, t.Annotations))
	}
	for _, set := range o.pods {
		if set.pod.DeletionTimestamp == nil {
			pods = append(pods, read(set.pod.Labels, set.pod.Annotations))
		}
	}
	if o.hasOneOwner() {
		return [][]readSize{templates, pods}
	}
	return [][]readSize{append(templates, pods...)}
}

// sizeOf returns the size from the first list that gives one. Within a list the largest values
// count, so that a group never starts with fewer pods than one of its members asks for.
func sizeOf(lists [][]readSize) (group.Size, error) {
	for _, list := range lists {
		var all group.Size
		for _, s := range list {
			if s.err != nil {
				return group.Size{}, s.err
			}
			all = group.Size{Size: max(all.Size, s.size.Size), Min: max(all.Min, s.size.Min)}
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
		size := o.sizeHere(top)
		total.Size = min(group.MaxSize, total.Size+size.Size)
		total.Min = min(group.MaxSize, total.Min+size.Min)
	}
	return total, total.Size > 0, nil
}

// sizeHere returns how many of an owner's pods are of this group. If pod templates of the owner name the
// group's native PodGroup, these are their pods. Otherwise they are the pods of the templates that name none,
// without those pods that are in other groups nevertheless: a controller has put a native PodGroup into
// some of them, such as the Job controller, which does not write it into the Job.
func (o observation) sizeHere(top topOwner) group.Size {
	name, _ := group.NativeName(o.key)
	if size, named := top.spec.nativeSizes[o.templatesHere(top)]; named || top.size.Size == 0 {
		return size
	}
	size := top.size
	for other, n := range o.outside[top.owner.UID] {
		if _, named := top.spec.nativeSizes[other]; !named && other != name {
			size = group.Size{Size: size.Size - n, Min: size.Min - n}
		}
	}
	return group.Size{Size: max(1, size.Size), Min: max(1, size.Min)}
}

// templatesHere returns the native PodGroup that those pod templates of an
// owner name which make this group's pods. It is empty if they name none.
func (o observation) templatesHere(top topOwner) string {
	name, _ := group.NativeName(o.key)
	if _, named := top.spec.nativeSizes[name]; named {
		return name
	}
	return ""
}

// hasOneOwner reports whether the pods of the group have one top owner, and no label names the group.
func (o observation) hasOneOwner() bool {
	_, native := group.NativeName(o.key)
	return o.isNamedForOwner() || native && len(o.topOwners) == 1
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
	active, doneOf := map[string]bool{}, map[string]int32{}
	for _, top := range o.activeOwners() {
		active[string(top.owner.UID)] = true
	}
	for _, p := range o.podOwners {
		if active[string(p.topUID)] {
			n := p.donePods()
			done += n
			doneOf[group.TemplateOf(p.pod())] += n
		}
	}
	if done == 0 {
		return size.Min
	}
	if templates, _ := o.templatesWithin(); len(templates) > 0 {
		return min(size.Min, firstStage(o.activeOwners()[0].templates, doneOf))
	}
	owned, _, err := o.ownerSize()
	if err != nil {
		return size.Min
	}
	return max(1, min(size.Min, max(size.Size, owned.Size)-done))
}
