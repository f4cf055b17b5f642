package gang

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A WholeRecord is what a PodGroup's status says of the nodes of its pods.
type WholeRecord int

const (
	// WholeUnknown is that the status does not say.
	WholeUnknown WholeRecord = iota
	// WholeYes is that the group was given whole nodes.
	WholeYes
	// WholeNo is that it shares its nodes, whatever its annotations say now.
	WholeNo
)

// WholeNodes are the rules for whole nodes. Both functions are asked with a lock held and
// answer from memory; nil allows all.
type WholeNodes struct {
	// Denied says why the annotations in a namespace give no whole nodes, in words fit for a
	// user; empty where they do. It does not go for the scheduler's own policy.
	Denied func(namespace string) string
	// Shared says whether a pod of another namespace is on a node, but for those that run on
	// every node.
	Shared func(node, namespace string) bool
}

// SetWholeNodes sets the rules. It is to be called before any other method.
func (g *Groups) SetWholeNodes(w WholeNodes) { g.wholeNodes = w }

// Listed says that all pods, PodGroups and namespaces there are were told of. Whether the
// nodes of the groups that run are theirs alone is settled now, for good. Of those that this
// process has not matched, it is what their PodGroup's status says; where that does not say,
// it is what the annotations say. Nodes with pods of other namespaces are shared in any case.
func (g *Groups) Listed() Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listed = true
	for _, s := range g.groups {
		g.fence(s)
	}
	return g.output()
}

// NamespaceChanged takes note that a namespace may have whole nodes, or may not any more.
// What runs keeps its nodes as they are.
func (g *Groups) NamespaceChanged(namespace string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, s := range g.groups {
		if key.Namespace == namespace {
			g.settle(s)
			g.out.wake(key)
		}
	}
	return g.output()
}

// denied says why the member's group may not have the whole nodes that its annotations ask
// for; nothing if it may, or asks for none. Where the scheduler's own policy gives whole nodes
// the annotations need not ask for them.
func (g *Groups) denied(m *member) string {
	annotation, value := g.asksForWhole(m)
	if annotation == "" || g.wholeNodes.Denied == nil {
		return ""
	}
	if why := g.wholeNodes.Denied(m.group.key.Namespace); why != "" {
		return group.TellDenied(annotation, value, why)
	}
	return ""
}

// asksForWhole returns the annotation, and its value, by which the member's group asks for
// whole nodes; both are empty if there is none.
func (g *Groups) asksForWhole(m *member) (annotation, value string) {
	if match.TakesWhole(g.policy) {
		return "", ""
	}
	s := m.group
	if s.asked().exclusive {
		return group.ExclusiveAnnotation, group.ExclusiveYes
	}
	if m.pod.Annotations[group.MatchPolicyAnnotation] == "" && (s.podGroup == nil || s.podGroup.Policy == "") {
		return "", ""
	}
	if policy, err := s.namedPolicy(g.policy, m); err == nil && match.TakesWhole(policy) {
		return group.MatchPolicyAnnotation, policy
	}
	return "", ""
}

// WholeOf says whether the nodes of a group that runs are its own, and which annotation asks for
// that too late; both are zero for any other group. Life tells the group's incarnations apart
// that this process has seen.
func (g *Groups) WholeOf(key types.NamespacedName) (whole bool, inVain string, life uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || !s.started {
		return false, "", 0
	}
	return s.fenced == WholeYes, g.asksInVain(s), s.life
}

// asksInVain returns the annotation by which a group that shares its nodes asks for whole
// ones: it came after the match, and counts from the next one on.
func (g *Groups) asksInVain(s *state) (annotation string) {
	if s.fenced == WholeNo {
		for _, m := range s.members {
			if annotation, _ = g.asksForWhole(m); annotation != "" {
				break
			}
		}
	}
	return annotation
}

// wants says whether the member's group would be given whole nodes now.
func (g *Groups) wants(m *member) bool {
	policy, err := m.group.policyOr(g.policy, m)
	return err == nil && match.TakesWhole(policy) && g.denied(m) == ""
}

// policyFor returns the policy of a match for a member. A group that has nodes gets more of
// the same kind, whatever its annotations say now.
func (g *Groups) policyFor(m *member) string {
	// What is wrong with it was admit's to say.
	policy, _ := m.group.policyOr(g.policy, m)
	switch m.group.fenced {
	case WholeYes:
		return whole(policy)
	case WholeNo:
		return shared(policy)
	case WholeUnknown:
	}
	return policy
}

// fence settles whether the nodes of a group's members are its own, for those members of
// which it is not settled. Those of them that this process did not match are to be checked
// again: they may have been booked otherwise, before more was known of their group. A pod that
// this process has not matched may have been put on its node by anybody: the node is its
// group's only if no other namespace's pod is there. Before Listed nothing is settled: a node
// may seem to be free of others.
func (g *Groups) fence(s *state) {
	if !g.listed {
		return
	}
	for _, m := range s.ordered(func(m *member) bool { return m.holds() && m.fenced == WholeUnknown }) {
		matched := m.seat != nil
		if s.fenced == WholeUnknown {
			if s.fenced = s.recordFor(m); s.fenced == WholeUnknown {
				s.fenced = WholeNo
				if g.wants(m) {
					s.fenced = WholeYes
				}
			}
		}
		m.fenced = s.fenced
		if m.fenced == WholeYes && !matched && g.stranger(s, m) {
			m.fenced = WholeNo
		}
		if !matched {
			g.out.Recheck = append(g.out.Recheck, m.pod.UID)
		}
	}
}

// stranger says whether a member's node cannot be its group's: others are there, or the member
// came when its namespace might not have whole nodes any more.
func (g *Groups) stranger(s *state, m *member) bool {
	if g.wholeNodes.Shared != nil && g.wholeNodes.Shared(m.pod.Spec.NodeName, s.key.Namespace) {
		return true
	}
	return s.recordFor(m) == WholeUnknown && g.revoked(s) != ""
}

// recordFor is what the PodGroup's status says of a member's node. It says nothing of pods that
// were made after it was written: they are of another incarnation, or came late.
func (s *state) recordFor(m *member) WholeRecord {
	if s.podGroup == nil || m.pod.CreationTimestamp.After(s.podGroup.WholeSince) {
		return WholeUnknown
	}
	return s.podGroup.Whole
}

// revoked says why a group that has whole nodes may not have more of them: what they have they
// keep.
func (g *Groups) revoked(s *state) string {
	if match.TakesWhole(g.policy) || g.wholeNodes.Denied == nil {
		return ""
	}
	return g.wholeNodes.Denied(s.key.Namespace)
}

// unfence has fence settle anew whose the nodes are of a group that this process did not match,
// where the status has come to say something else than before. It says whether that is so.
func (s *state) unfence(was WholeRecord) bool {
	if s.matched || s.podGroup.Whole == was {
		return false
	}
	s.fenced = WholeUnknown
	for _, m := range s.members {
		m.fenced = WholeUnknown
	}
	return true
}

// holder names the group whose a member's node is as a whole, empty where it is shared. Until
// that is settled it is what the annotations say.
func (g *Groups) holder(m *member) string {
	is := m.fenced
	if is == WholeUnknown {
		is = m.group.fenced
	}
	if is == WholeYes || is == WholeUnknown && g.wants(m) {
		return m.group.key.String()
	}
	return ""
}

// whole returns the policy of the same order that takes whole nodes; of the engine's own choice it
// is that of the default.
func whole(policy string) string { return match.WithWhole(cmp.Or(policy, match.PolicyLonode), true) }

// shared returns the policy of the same order that takes what is asked for.
func shared(policy string) string { return match.WithWhole(policy, false) }
