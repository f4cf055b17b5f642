package invariants

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A family is a group as the checker sees it: the members, and the PodGroup if there is
// one. A lone pod is a family too, and so are the pods of an owner without a PodGroup.
type family struct {
	key types.NamespacedName
	// about is the name in violations: the group's, or the first pod's if there is no group.
	about types.NamespacedName
	pods  map[types.UID]*pod
	group *groupFact // nil if there is none
	// turn is the last time when the controller's reports about the
	// group became news again: a pod was lost, the minimum changed, or
	// the group is complete again after it was reported incomplete.
	turn time.Time
	// resaid is the last time when the annotations of the group changed:
	// its PodGroup was edited or went, or it came while pods were on nodes.
	resaid time.Time
	// open reports whether the mere passing of time may make a violation.
	open bool

	// promise is what the group was last promised. It is nil if nothing is promised to it.
	promise *promise

	partial
	waiting
}

// family returns the family of a name. It makes one if there is none.
func (j *judge) family(key types.NamespacedName) *family {
	fam := j.families[key]
	if fam == nil {
		fam = &family{key: key, about: key, pods: map[types.UID]*pod{}}
		j.families[key] = fam
	}
	return fam
}

// enrol finds the family of a pod and moves the pod there.
func (j *judge) enrol(p *pod, now time.Time) {
	fam := j.family(j.groupOf(p))
	if fam == p.family {
		return
	}
	if before := p.family; before != nil {
		delete(before.pods, p.uid)
		delete(before.there, p.uid)
		delete(before.held, p.uid)
		j.weigh(before, now)
		fam.turn, fam.lost = later(fam.turn, before.turn), later(fam.lost, before.lost)
	}
	if p.label == "" && fam.group == nil && len(fam.pods) == 0 {
		fam.about = p.key
	}
	p.family = fam
	fam.pods[p.uid] = p
	j.weigh(fam, now)
}

// groupOf returns the name of a pod's group: the label, else the name of
// the PodGroup that refers to what controls the pod. A pod without both
// gets a made-up name, which all pods of the same controlling object share.
func (j *judge) groupOf(p *pod) types.NamespacedName {
	if p.label != "" {
		return types.NamespacedName{Namespace: p.key.Namespace, Name: p.label}
	}
	const maxDepth = 8
	uid := p.uid
	next := p.controller
	for range maxDepth {
		if key, ok := j.made[uid]; ok && key.Namespace == p.key.Namespace {
			return key
		}
		if next == "" {
			break
		}
		uid, next = next, ""
		if o := j.owners[uid]; o != nil {
			next = o.controller
		} else if leader := j.pods[uid]; leader != nil {
			next = leader.controller
		}
	}
	if p.controller != "" {
		return types.NamespacedName{Namespace: p.key.Namespace, Name: "pods of " + string(p.controller)}
	}
	return types.NamespacedName{Namespace: p.key.Namespace, Name: p.key.Name + " " + string(p.uid)}
}

// strays returns the pods whose PodGroup came after them.
func (j *judge) strays() (found []*pod) {
	for _, fam := range j.families {
		if fam.group != nil {
			continue
		}
		for _, p := range fam.pods {
			if p.label == "" && j.groupOf(p) != fam.key {
				found = append(found, p)
			}
		}
	}
	return found
}

// describePods says how the pods of a family stand, for the report of a violation.
func (fam *family) describePods() string {
	var said []string
	for _, p := range fam.pods {
		text := p.String()
		if p.orphan {
			text += ", its owner is gone"
		}
		said = append(said, text)
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// goneWithin is how long after the end of its owner a pod may stay, besides Slack: a garbage collector that has just begun needs a while.
const goneWithin = time.Minute

// abandoned reports whether what made all pods of a family has gone, and not long ago. Nobody replaces such pods, and the garbage
// collector deletes them.
func (j *judge) abandoned(fam *family, now time.Time) bool {
	for _, p := range fam.pods {
		if !p.orphan || j.excuses.elapsed(j.departed[p.controller], now) > goneWithin+j.cfg.Slack {
			return false
		}
	}
	return len(fam.pods) > 0
}

// A count is the number of a family's members in each state.
type count struct{ serving, pending, succeeded int }

func (fam *family) count() (c count) {
	for _, p := range fam.pods {
		switch {
		case p.serving():
			c.serving++
		case p.pending() && !p.orphan:
			c.pending++
		case p.phase == corev1.PodSucceeded:
			c.succeeded++
		}
	}
	return c
}

// need returns how many members have to be on nodes for the group to be complete, and
// how many are. A Job needs no more pods than the completions it has left. In a group
// without a Job, members that have succeeded count, because they have had their node.
func (j *judge) need(fam *family, c count) (need, have int) {
	job := j.jobOf(fam)
	switch {
	case job == nil:
		return fam.group.minMember, c.serving + c.succeeded
	case job.over || job.idle:
		return 0, c.serving
	case job.completions > 0:
		return min(fam.group.minMember, max(job.completions-job.served, 1)), c.serving
	case job.served+c.succeeded > 0:
		return 1, c.serving // a work queue: nothing follows a pod that has succeeded
	default:
		return fam.group.minMember, c.serving
	}
}

// jobOf returns the Job that controls all members, or nil if no single one does.
func (j *judge) jobOf(fam *family) *jobFact {
	var of types.UID
	for _, p := range fam.pods {
		if p.controller == "" || of != "" && p.controller != of {
			return nil
		}
		of = p.controller
	}
	if o := j.owners[of]; o != nil {
		return o.job
	}
	return nil
}

// weigh judges a family by what is known now.
func (j *judge) weigh(fam *family, now time.Time) {
	if !j.begun {
		return
	}
	c := fam.count()
	fam.open = false
	fam.noteDurations()
	if fam.group == nil {
		fam.compare(now)
		whole := fam.whole && c.serving > 0
		fam.rest()
		// It need not start again while its pods run.
		fam.whole = whole
		j.weighUngrouped(fam, c, now)
		j.weighPromise(fam, c, now)
		return
	}
	need, have := j.need(fam, c)
	need = j.weighPartial(fam, c, need, have, now)
	j.weighReason(fam, c, need, have, now)
	j.weighPromise(fam, c, now)
}

// timeout returns the family's incomplete timeout:
// the PodGroup's, else the longest that a member has.
func (j *judge) timeout(fam *family) time.Duration {
	if text := fam.group.timeout; text != "" {
		return parseTimeout(text, j.cfg.IncompleteTimeout)
	}
	longest := time.Duration(0)
	for _, p := range fam.pods {
		if p.timeout != "" {
			longest = max(longest, parseTimeout(p.timeout, j.cfg.IncompleteTimeout))
		}
	}
	if longest == 0 {
		return j.cfg.IncompleteTimeout
	}
	return longest
}

// parseTimeout reads an annotation. It returns the default if the text cannot be read.
func parseTimeout(text string, def time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d >= time.Second {
		return d
	}
	return def
}

// restarts reports whether a family's policy may be restart, and whether
// it must be. The two differ if the annotations of its pods differ.
func (fam *family) restarts() (may, must bool) {
	if fam.group != nil && fam.group.policy != "" {
		is := fam.group.policy == policyRestart
		return is, is
	}
	must = len(fam.pods) > 0
	for _, p := range fam.pods {
		is := p.policy == policyRestart
		may, must = may || is, must && is
	}
	return may, must
}
