package gang

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// Templates describes the pods that the owner of a group makes, if it makes some of them only after
// others have nodes, are ready or have ended.
type Templates struct {
	// List is in the order of the owner's spec.
	List []Template
	// Hash is the same for equal lists.
	Hash string
}

// A Template is the pods that an owner makes from one pod template. group.TemplateOf names the template
// of a pod.
type Template struct {
	// Name is the name of the template, unique in its list.
	Name string
	// Coming is how many pods the owner makes without waiting for others of the stage. Expected is
	// how many it makes after others of the stage have nodes or, if AfterReady is true, are ready.
	Coming, Expected int
	AfterReady       bool
	// Leader is the name of the template of a pod in whose topology domain the expected pods have
	// to be. It is empty if there is none.
	Leader string
	// Stage is the number of the stage, counted from 0. The pods of a stage are made when pods of
	// stages before it have ended.
	Stage int
	// Pod is a pod as the owner makes it from the template.
	Pod *corev1.Pod
}

// equal reports whether two lists of templates are the same.
func (t *Templates) equal(o *Templates) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.Hash == o.Hash
}

// A templateCount counts the members of a template.
type templateCount struct {
	// all counts those that have not failed and are not being deleted.
	all int
	// active counts those that wait or are present.
	active int
	// unplaced counts those of all that have not ended, and have neither a node nor an assignment.
	// waiting counts those of them that no scheduling gate holds.
	unplaced, waiting int
	// succeeded counts the members that have succeeded. They are part of all.
	succeeded int
}

// A place is a node with pods of a template.
type place struct{ template, node string }

// templatesOf returns the templates of a group, or nil.
func templatesOf(s *groupState) []Template {
	if s.podGroup == nil || s.podGroup.Templates == nil {
		return nil
	}
	return s.podGroup.Templates.List
}

// stageOf returns the number of the stage that a group is in: the first that has a member which waits
// or is present. It is 0 if there is none.
func stageOf(s *groupState) int {
	first := -1
	s.update()
	for _, t := range templatesOf(s) {
		if s.templates[t.Name].active > 0 && (first < 0 || t.Stage < first) {
			first = t.Stage
		}
	}
	return max(0, first)
}

// minMemberOf returns the minMember of a group in its present stage.
func minMemberOf(s *groupState) int {
	stage := stageOf(s)
	if stage == 0 {
		return int(s.podGroup.MinMember)
	}
	n := 0
	for _, t := range templatesOf(s) {
		if t.Stage == stage {
			// A pod that has succeeded is not made again. An owner that wants more pods to succeed than it
			// makes at a time makes others in its place: those that exist count.
			has := s.templates[t.Name]
			n += min(t.Coming, max(has.active, t.Coming+t.Expected-has.succeeded))
		}
	}
	return max(1, n)
}

// asksTogether reports whether the room of all stages of a group is asked for with the first, by the annotation
// of the PodGroup or of a member.
func asksTogether(s *groupState, m *member) bool {
	if s.podGroup == nil {
		return false
	}
	return group.Annotation(group.StagesAnnotation, map[string]string{group.StagesAnnotation: s.podGroup.StagesTogether}, m.pod) == group.StagesTogether
}

// openSeats returns how many pods of a template may have seats: those that are expected, and have
// neither a node nor an assignment. Of a later stage these are all pods, because all may have seats.
func openSeats(s *groupState, t Template) int {
	s.update()
	most := t.Expected
	if t.Stage > 0 {
		most += t.Coming
	}
	n := s.templates[t.Name]
	return max(0, min(most, t.Coming+t.Expected-(n.all-n.unplaced)))
}

// A freshStage is a later stage of a started group that begins while pods of an earlier stage still
// run: no pod of it has or had a node, and none has an assignment or a seat. It is zero if there is none.
type freshStage struct {
	stage int
	// together is how many of its pods start together. waiting is how many wait.
	together, waiting int
}

// freshStageOf returns the stage of a member, if it is a fresh one.
func freshStageOf(m *member) freshStage {
	s := m.group
	all := templatesOf(s)
	if !s.started || len(all) == 0 {
		return freshStage{}
	}
	i := slices.IndexFunc(all, func(t Template) bool { return t.Name == group.TemplateOf(m.pod) })
	if i < 0 || all[i].Stage == 0 {
		return freshStage{}
	}
	f := freshStage{stage: all[i].Stage}
	s.update()
	for _, t := range all {
		if t.Stage != f.stage {
			continue
		}
		n := s.templates[t.Name]
		if n.all > n.unplaced || hasSeat(s, t.Name) {
			return freshStage{}
		}
		f.together += t.Coming
		f.waiting += n.waiting
	}
	return f
}

// whyGathers returns why a member of the stage has to wait for others. It returns nothing if it has not to.
func (f freshStage) whyGathers() string {
	if f.waiting >= f.together {
		return ""
	}
	return fmt.Sprintf("waits for %s of its stage: has %d of %d", reason.Plural(f.together-f.waiting, "more pod"), f.waiting, f.together)
}

// waiters returns the members of the stage that wait without an assignment, the oldest first.
func (f freshStage) waiters(s *groupState) []*member {
	of := map[string]bool{}
	for _, t := range templatesOf(s) {
		of[t.Name] = t.Stage == f.stage
	}
	return s.ordered(func(m *member) bool { return m.isWaiting() && m.assignment == nil && of[group.TemplateOf(m.pod)] })
}

// A standIn stands for a pod that is expected.
type standIn struct {
	pod      *corev1.Pod
	template string
}

// expectedPods returns how many pods of each template are to have seats in a match for a stage that
// begins. With together these are also all pods of the stages after it.
func expectedPods(s *groupState, stage int, together bool) map[string]int {
	n := map[string]int{}
	s.update()
	for _, t := range templatesOf(s) {
		switch made := s.templates[t.Name].all; {
		case t.Stage == stage:
			n[t.Name] = min(t.Expected, t.Coming+t.Expected-made)
		case t.Stage > stage && together:
			n[t.Name] = t.Coming + t.Expected - made
		}
	}
	return n
}

// standIns returns stand-ins, as many of each template as n says. A stand-in is like a member of its
// template that waits, if there is one. Otherwise it is made from the template. The number
// distinguishes them from others of the group. There may be many: they share all but their own fields.
func standIns(s *groupState, n map[string]int, number uint64) []standIn {
	var all []standIn
	for _, t := range templatesOf(s) {
		if n[t.Name] <= 0 {
			continue
		}
		like := t.like(s)
		for i := range n[t.Name] {
			pod := *like
			pod.Name = fmt.Sprintf("%s (expected %d)", t.Name, i+1)
			pod.UID = types.UID(fmt.Sprintf("seat/%s/%s/%d/%d", s.id(""), t.Name, number, i))
			all = append(all, standIn{&pod, t.Name})
		}
	}
	return all
}

// addStandIns adds stand-ins to the required pods of a Plan. None has a lower priority than the first pod.
func (p *Plan) addStandIns(all []standIn) {
	if p.standIns == nil {
		p.standIns = map[types.UID]standIn{}
	}
	least := rankOf(p.Required[0]).Priority
	for _, e := range all {
		if rankOf(e.pod).Priority < least {
			e.pod.Spec.Priority = &least
		}
		p.standIns[e.pod.UID] = e
		p.Required = append(p.Required, e.pod)
		p.Expected++
	}
}

// like returns a pod that the expected pods of a template are like: a member of the template that
// waits or, if there is none, that has a node.
func (t Template) like(s *groupState) *corev1.Pod {
	inTemplate := func(name string) *member {
		of := func(m *member) bool { return group.TemplateOf(m.pod) == name }
		if m := s.first(func(m *member) bool { return of(m) && m.isWaiting() }); m != nil {
			return m
		}
		return s.first(func(m *member) bool { return of(m) && m.isPresent() })
	}
	if m := inTemplate(t.Name); m != nil {
		pod := m.pod.DeepCopy()
		pod.Spec.NodeName, pod.Status, pod.DeletionTimestamp = "", corev1.PodStatus{}, nil
		return pod
	}
	pod := t.Pod.DeepCopy()
	pod.Namespace = s.key.Namespace
	leader := inTemplate(t.Leader)
	if t.Leader == "" || leader == nil {
		return pod
	}
	// The operator gives the expected pods a selector of the leader's domain once the leader has a
	// node. Until then the leader's own affinity to its group, and the labels that it selects, say the same.
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	labels := maps.Clone(leader.pod.Labels)
	maps.Copy(labels, pod.Labels)
	pod.Labels = labels
	if a := leader.pod.Spec.Affinity; a != nil {
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &corev1.Affinity{}
		}
		pod.Spec.Affinity.PodAffinity, pod.Spec.Affinity.PodAntiAffinity = a.PodAffinity, a.PodAntiAffinity
	}
	return pod
}
