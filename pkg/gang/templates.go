package gang

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
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
	// Stage is the number of the stage, counted from 0. The pods of a stage are made when those of
	// the stages before it have ended.
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
}

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
			n += t.Coming
		}
	}
	return max(1, n)
}

// A standIn stands for a pod that is expected.
type standIn struct {
	pod      *corev1.Pod
	template string
}

// standIns returns a stand-in for each expected pod of a group's present stage. A stand-in is like a
// member of its template, if there is one. Otherwise it is made from the template.
func standIns(s *groupState) []standIn {
	stage := stageOf(s)
	var all []standIn
	for _, t := range templatesOf(s) {
		if t.Stage != stage {
			continue
		}
		n := min(t.Expected, t.Coming+t.Expected-s.templates[t.Name].all)
		if n <= 0 {
			continue
		}
		like := t.like(s)
		for i := range n {
			pod := like.DeepCopy()
			pod.Name = fmt.Sprintf("%s (expected %d)", t.Name, i+1)
			pod.UID = types.UID(fmt.Sprintf("seat/%s/%s/%d", s.id(""), t.Name, i))
			all = append(all, standIn{pod, t.Name})
		}
	}
	return all
}

// like returns a pod that the expected pods of a template are like.
func (t Template) like(s *groupState) *corev1.Pod {
	inTemplate := func(name string) *member {
		return s.first(func(m *member) bool { return group.TemplateOf(m.pod) == name && m.isWaiting() })
	}
	if m := inTemplate(t.Name); m != nil {
		return m.pod
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
