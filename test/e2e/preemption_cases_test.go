package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/stack"
)

// A scene is a case with nodes of its own. Its pods have the names of its nodes before theirs, and run nowhere else.
type scene struct {
	*story
	// kept is the same story in a namespace whose pods are not evicted.
	kept *story
	// pool is the value of the label case of the scene's nodes, and begins their names.
	pool string
	// class returns the PriorityClass of a priority. Pods of the class patient evict nobody.
	class   func(priority int) string
	patient string
}

// A part is nodes of a scene, with an amount of CPU each.
type part struct {
	name  string
	nodes int
	cpu   string
	edit  func(*corev1.Node)
}

// A crowd is pods that nobody makes again: a gang, or pods that start one by one.
type crowd struct {
	name     string
	pods     int
	cpu      string
	priority int
	alone    bool
	// part is where the pods run. They run anywhere in the scene if it is empty.
	part string
	// later is set if they start at least a second after those before.
	later bool
	// kept is set if they are in the namespace whose pods are not evicted.
	kept bool
	// foreign is set if kube-scheduler starts them.
	foreign bool
	// protected is set if a PodDisruptionBudget allows none of them to end.
	protected bool
	// minimum is the minimum of a gang, if it is less than all pods.
	minimum int
	// metadata, spec and container are further fields of the pods and of their container.
	metadata, spec, container string
}

// name returns the name of an object of the scene.
func (s *scene) name(of string) string { return s.pool + "-" + of }

// text returns the pods of a crowd.
func (s *scene) text(c crowd) string {
	var text strings.Builder
	where, class, scheduler := "case: "+s.pool, s.patient, "fluence"
	if c.part != "" {
		where += ", part: " + c.part
	}
	if c.priority > 0 {
		class = s.class(c.priority)
	}
	if c.foreign {
		scheduler = corev1.DefaultSchedulerName
	}
	if c.protected {
		fmt.Fprintf(&text, `apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %[1]s}
spec: {minAvailable: %[2]d, selector: {matchLabels: {crowd: %[1]s}}}
---
`, s.name(c.name), c.pods)
	}
	for i := range c.pods {
		labels := "case: " + s.pool + ", crowd: " + s.name(c.name)
		if !c.alone {
			labels += ", " + sized(c.pods) + ", " + group.Label + ": " + s.name(c.name)
		}
		if c.minimum > 0 {
			labels += fmt.Sprintf(", %s: %q", group.MinLabel, fmt.Sprint(c.minimum))
		}
		fmt.Fprintf(&text, `apiVersion: v1
kind: Pod
metadata:
  name: %s-%d
  labels: {%s}
  %s
spec:
  schedulerName: %s
  priorityClassName: %s
  nodeSelector: {%s}
  %s
  containers:
  - name: main
    image: busybox
    resources: {requests: {cpu: "%s"}}
    %s
---
`, s.name(c.name), i, labels, c.metadata, scheduler, class, where, c.spec, c.cpu, c.container)
	}
	return text.String()
}

// add creates the nodes of the scene.
func (s *scene) add(parts ...part) {
	s.Helper()
	for _, p := range parts {
		edits := []func(*corev1.Node){label("case", s.pool), label("part", p.name)}
		if p.edit != nil {
			edits = append(edits, p.edit)
		}
		s.nodes(s.name(p.name), p.nodes, p.cpu, edits...)
	}
}

// plant creates crowds, and waits until all of them run.
func (s *scene) plant(crowds ...crowd) {
	s.Helper()
	var text, kept strings.Builder
	all, allKept := len(s.pods(s.pool+"-")), 0
	settle := func() {
		s.Helper()
		if text.Len() > 0 {
			s.applyText(text.String())
		}
		if kept.Len() > 0 {
			s.kept.applyText(kept.String())
		}
		s.running(s.pool+"-", all)
		s.kept.running(s.pool+"-", allKept)
		text.Reset()
		kept.Reset()
	}
	for _, c := range crowds {
		if c.later {
			settle()
			s.nextSecond()
		}
		if c.kept {
			kept.WriteString(s.text(c))
			allKept += c.pods
		} else {
			text.WriteString(s.text(c))
			all += c.pods
		}
	}
	settle()
}

// nextSecond waits until the second is over in which the last pod was bound. Conditions have whole seconds.
func (s *scene) nextSecond() {
	s.Helper()
	var last time.Time
	for _, p := range s.pods(s.pool + "-") {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.LastTransitionTime.After(last) {
				last = c.LastTransitionTime.Time
			}
		}
	}
	s.eventually("the next second", func(context.Context) (bool, string) {
		return time.Now().Unix() > last.Unix(), "the last pod was bound " + last.String()
	})
}

// gone returns which of these pods have ended or are ending, without the scene in their names.
func (s *scene) gone(before []corev1.Pod) []string {
	s.Helper()
	stay := map[string]bool{}
	for _, p := range s.pods(s.pool + "-") {
		stay[string(p.UID)] = p.DeletionTimestamp == nil
	}
	var names []string
	for _, p := range before {
		if !stay[string(p.UID)] {
			names = append(names, strings.TrimPrefix(p.Name, s.pool+"-"))
		}
	}
	slices.Sort(names)
	return names
}

// deletions returns how often the scheduler has deleted each pod of the scene.
func (s *scene) deletions() map[string]int {
	s.Helper()
	counts := map[string]int{}
	for ev, err := range s.AuditEvents() {
		if err != nil {
			s.Fatal(err)
		}
		ref := ev.ObjectRef
		if ref == nil || ev.Verb != "delete" || ref.Resource != "pods" || ev.User.Username != "system:serviceaccount:"+stack.Namespace+":"+stack.Scheduler {
			continue
		}
		if name, of := strings.CutPrefix(ref.Name, s.pool+"-"); of && (ref.Namespace == s.ns || ref.Namespace == s.kept.ns) {
			counts[name]++
		}
	}
	return counts
}

// deletedOnce fails unless the scheduler has deleted exactly these pods, and each of them once.
func (s *scene) deletedOnce(names ...string) {
	s.Helper()
	want := map[string]int{}
	for _, name := range names {
		want[name] = 1
	}
	if got := s.deletions(); !maps.Equal(got, want) {
		s.Errorf("deletions of pods by the scheduler: %v, want %v", got, want)
	}
}

// drop deletes pods of the scene at once.
func (s *scene) drop(names string) {
	s.Helper()
	s.dropPods(s.name(names) + "-")
}

// A layout says who runs where, and what happens when a gang comes.
type layout struct {
	parts   []part
	planted []crowd
	// comes has the priority 1000, unless its pods evict nobody.
	comes crowd
	// victims are the pods that are evicted, in order. Without victims the gang is refused, with these words.
	victims, refused []string
}

// A tainted part is for pods that tolerate everything.
func tainted(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
}

const toleratesAll = "tolerations: [{operator: Exists}]"

// Fields of pods that keep others off a node or out of a zone. All pods of a scene have the label crowd.
const (
	hostPort        = "ports: [{containerPort: 80, hostPort: 8080}]"
	besideNobody    = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: crowd, operator: Exists}]}}]}}"
	spreadOverZones = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: crowd, operator: Exists}]}}]"
)

var layouts = map[string]layout{
	"lone pods go before a gang, although the gang started later": {
		parts: []part{{name: "a", nodes: 2, cpu: "2"}, {name: "b", nodes: 2, cpu: "2"}},
		planted: []crowd{
			{name: "lone", pods: 2, cpu: "2", priority: 10, alone: true, part: "a"},
			{name: "gang", pods: 2, cpu: "2", priority: 10, part: "b", later: true},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000},
		victims: []string{"lone-0", "lone-1"},
	},
	"one gang of four goes rather than two of two, although these started later": {
		parts: []part{{name: "a", nodes: 4, cpu: "2"}, {name: "b", nodes: 4, cpu: "2"}},
		planted: []crowd{
			{name: "four", pods: 4, cpu: "2", priority: 10, part: "a"},
			{name: "one", pods: 2, cpu: "2", priority: 10, part: "b", later: true},
			{name: "two", pods: 2, cpu: "2", priority: 10, part: "b"},
		},
		comes:   crowd{pods: 4, cpu: "2", priority: 1000},
		victims: []string{"four-0", "four-1", "four-2", "four-3"},
	},
	"a lower priority goes, although it has more pods": {
		parts: []part{{name: "a", nodes: 2, cpu: "2"}, {name: "b", nodes: 2, cpu: "2"}},
		planted: []crowd{
			{name: "many", pods: 4, cpu: "1", priority: 10, part: "a"},
			{name: "few", pods: 2, cpu: "2", priority: 20, alone: true, part: "b"},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000},
		victims: []string{"many-0", "many-1", "many-2", "many-3"},
	},
	"of two equal gangs the one goes that started later": {
		parts: []part{{name: "a", nodes: 2, cpu: "2"}, {name: "b", nodes: 2, cpu: "2"}},
		planted: []crowd{
			{name: "a-early", pods: 2, cpu: "2", priority: 10, part: "a"},
			{name: "b-late", pods: 2, cpu: "2", priority: 10, part: "b", later: true},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000},
		victims: []string{"b-late-0", "b-late-1"},
	},
	"two nodes that are partly free are emptied rather than a full one": {
		parts: []part{{name: "full", nodes: 1, cpu: "8"}, {name: "half", nodes: 1, cpu: "4"}, {name: "too", nodes: 1, cpu: "4"}},
		planted: []crowd{
			{name: "half", pods: 1, cpu: "2", priority: 10, alone: true, part: "half"},
			{name: "too", pods: 1, cpu: "2", priority: 10, alone: true, part: "too"},
			{name: "full", pods: 4, cpu: "2", priority: 10, alone: true, part: "full", later: true},
		},
		comes:   crowd{pods: 2, cpu: "3", priority: 1000},
		victims: []string{"half-0", "too-0"},
	},
	"free room is used first": {
		parts: []part{{name: "free", nodes: 1, cpu: "2"}, {name: "full", nodes: 2, cpu: "2"}},
		planted: []crowd{
			{name: "early", pods: 1, cpu: "2", priority: 10, alone: true, part: "full"},
			{name: "late", pods: 1, cpu: "2", priority: 10, alone: true, part: "full", later: true},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000},
		victims: []string{"late-0"},
	},
	"only pods of the one zone of least harm go, if all have to be in one": {
		parts: []part{
			{name: "a", nodes: 2, cpu: "2", edit: zone("a")}, {name: "b", nodes: 2, cpu: "2", edit: zone("b")}, {name: "c", nodes: 2, cpu: "2", edit: zone("c")},
		},
		planted: []crowd{
			{name: "a-low", pods: 1, cpu: "2", priority: 10, alone: true, part: "a"},
			{name: "a-mid", pods: 1, cpu: "2", priority: 20, alone: true, part: "a"},
			{name: "b-gang", pods: 2, cpu: "2", priority: 10, part: "b"},
			{name: "c-low", pods: 1, cpu: "2", priority: 10, alone: true, part: "c"},
			{name: "c-equal", pods: 1, cpu: "2", priority: 1000, alone: true, part: "c"},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000, metadata: "annotations: {" + group.TopologyRequiredAnnotation + ": zone}"},
		victims: []string{"b-gang-0", "b-gang-1"},
	},
	"pods of a namespace that is kept stay, and those of another go": {
		parts: []part{{name: "a", nodes: 2, cpu: "2"}, {name: "b", nodes: 2, cpu: "2"}},
		planted: []crowd{
			{name: "gang", pods: 2, cpu: "2", priority: 20, part: "a"},
			{name: "kept", pods: 2, cpu: "2", priority: 10, alone: true, part: "b", kept: true},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000},
		victims: []string{"gang-0", "gang-1"},
	},
	"pods of another scheduler stay, although their priority is lower": {
		parts: []part{{name: "a", nodes: 2, cpu: "2"}, {name: "b", nodes: 2, cpu: "2"}},
		planted: []crowd{
			{name: "gang", pods: 2, cpu: "2", priority: 20, part: "a"},
			{name: "foreign", pods: 2, cpu: "2", priority: 10, alone: true, part: "b", foreign: true},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000},
		victims: []string{"gang-0", "gang-1"},
	},
	"pods that a budget protects stay, although their priority is lower": {
		parts: []part{{name: "a", nodes: 2, cpu: "2"}, {name: "b", nodes: 2, cpu: "2"}},
		planted: []crowd{
			{name: "gang", pods: 2, cpu: "2", priority: 20, part: "a"},
			{name: "protected", pods: 2, cpu: "2", priority: 10, alone: true, part: "b", protected: true},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000},
		victims: []string{"gang-0", "gang-1"},
	},
	"pods that a budget protects go if there are no others": {
		parts:   []part{{name: "a", nodes: 2, cpu: "2"}},
		planted: []crowd{{name: "protected", pods: 2, cpu: "2", priority: 10, protected: true}},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000},
		victims: []string{"protected-0", "protected-1"},
	},
	"nobody goes if that is not enough": {
		parts: []part{{name: "a", nodes: 2, cpu: "2"}},
		planted: []crowd{
			{name: "equal", pods: 1, cpu: "2", priority: 1000, alone: true, part: "a"},
			{name: "low", pods: 1, cpu: "2", priority: 10, alone: true, part: "a"},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000},
		refused: []string{"needs 2 pods", "room for 0", "room for 1 even without all of lower priority"},
	},
	"nobody goes from nodes with a taint": {
		parts: []part{{name: "a", nodes: 2, cpu: "2"}, {name: "tainted", nodes: 2, cpu: "2", edit: tainted}},
		planted: []crowd{
			{name: "equal", pods: 1, cpu: "2", priority: 1000, alone: true, part: "a"},
			{name: "low", pods: 1, cpu: "2", priority: 10, alone: true, part: "a"},
			{name: "tolerant", pods: 2, cpu: "2", priority: 10, alone: true, part: "tainted", spec: toleratesAll},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000},
		refused: []string{"needs 2 pods", "room for 0", "room for 1 even without all of lower priority"},
	},
	"a host port is free once the pods have gone that have it, although there is room beside them": {
		parts: []part{{name: "port", nodes: 2, cpu: "8"}, {name: "full", nodes: 2, cpu: "2"}},
		planted: []crowd{
			{name: "port", pods: 2, cpu: "1", priority: 10, alone: true, part: "port", container: hostPort},
			{name: "full", pods: 2, cpu: "2", priority: 1000, part: "full"},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000, container: hostPort},
		victims: []string{"port-0", "port-1"},
	},
	"pods that may be beside no others take the nodes of those that go": {
		parts: []part{{name: "a", nodes: 2, cpu: "8"}, {name: "b", nodes: 2, cpu: "8"}},
		planted: []crowd{
			{name: "low", pods: 2, cpu: "5", priority: 10, alone: true, part: "a"},
			{name: "mid", pods: 2, cpu: "5", priority: 20, part: "b"},
		},
		comes:   crowd{pods: 2, cpu: "2", priority: 1000, spec: besideNobody},
		victims: []string{"low-0", "low-1"},
	},
	"the nodes of pods that let no others beside them are usable once these have gone": {
		parts: []part{{name: "a", nodes: 2, cpu: "8"}, {name: "b", nodes: 2, cpu: "2"}},
		planted: []crowd{
			{name: "low", pods: 2, cpu: "1", priority: 10, alone: true, part: "a", spec: besideNobody},
			{name: "equal", pods: 2, cpu: "2", priority: 1000, part: "b"},
		},
		comes:   crowd{pods: 2, cpu: "5", priority: 1000},
		victims: []string{"low-0", "low-1"},
	},
	"a zone with too many pods of a kind is usable once some of them have gone": {
		parts: []part{{name: "many", nodes: 1, cpu: "8", edit: zone("a")}, {name: "full", nodes: 1, cpu: "1", edit: zone("b")}},
		planted: []crowd{
			{name: "low", pods: 3, cpu: "1", priority: 10, part: "many"},
			{name: "equal", pods: 1, cpu: "1", priority: 1000, alone: true, part: "full"},
		},
		comes:   crowd{pods: 1, cpu: "4", priority: 1000, spec: spreadOverZones},
		victims: []string{"low-0", "low-1", "low-2"},
	},
	"pods whose PriorityClass says Never evict nobody": {
		parts:   []part{{name: "a", nodes: 2, cpu: "2"}},
		planted: []crowd{{name: "low", pods: 2, cpu: "2", priority: 10, alone: true}},
		comes:   crowd{pods: 2, cpu: "2"},
		refused: []string{"needs 2 pods", "room for 0", "may not evict: preemptionPolicy Never"},
	},
}

// scenes returns a function that begins a scene in a subtest of the story.
func (s *story) scenes() func(*testing.T) *scene {
	s.Helper()
	kept := s.neighbour()
	s.kubectl("annotate", "namespace", kept.ns, group.EvictAnnotation+"="+group.EvictNever)
	patient := s.patient(1001)(1001)
	class := s.priorities(10, 20, 100, 1000)
	scenes := 0
	return func(t *testing.T) *scene {
		scenes++
		return &scene{
			story: &story{T: t, Stack: s.Stack, ns: s.ns}, kept: &story{T: t, Stack: s.Stack, ns: kept.ns},
			pool: fmt.Sprintf("s%d", scenes), class: class, patient: patient,
		}
	}
}

// Who is evicted for a gang, and what becomes of them.
func TestWhoIsEvicted(t *testing.T) {
	on := tell(t).scenes()
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) { on(t).play(l) })
	}
	t.Run("the room of victims that end slowly is kept", func(t *testing.T) { on(t).slowEnds() })
	t.Run("other room that is free earlier is taken", func(t *testing.T) { on(t).otherRoom() })
	t.Run("what is made again runs again, and goes before what is not", func(t *testing.T) { on(t).comeBack() })
	t.Run("members that a group lacks evict, and members beyond its minimum do not", func(t *testing.T) { on(t).lackingMembers() })
	t.Run("a higher priority takes the room that another waits for", func(t *testing.T) { on(t).higherComes() })
}

// play creates a layout, and checks what happens.
func (s *scene) play(l layout) {
	s.add(l.parts...)
	s.plant(l.planted...)
	before, kept := s.pods(s.pool+"-"), s.kept.pods(s.pool+"-")
	l.comes.name = "high"
	s.applyText(s.text(l.comes))
	if len(l.victims) == 0 {
		s.refused(s.name("high"), reason.NoRoom, l.refused...)
	} else {
		s.running(s.name("high-"), l.comes.pods)
	}
	if gone := s.gone(before); !slices.Equal(gone, l.victims) {
		s.Errorf("evicted: %v, want %v", gone, l.victims)
	}
	s.deletedOnce(l.victims...)
	s.kept.untouched(kept)
	s.drop("high")
}
