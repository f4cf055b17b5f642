// Package objects builds Nodes, Pods and extenders for tests.
package objects

import (
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// Namespace is the namespace of all pods. Scheduler is their schedulerName.
const (
	Namespace = "ns"
	Scheduler = "fluence"
)

// Pod returns a pod that requests one core. Its UID is its name.
func Pod(name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Now())},
		Spec: corev1.PodSpec{SchedulerName: Scheduler, Containers: []corev1.Container{{
			Name: "main", Image: "none",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}}},
	}
	All(edit...)(pod)
	return pod
}

// All makes edits one.
func All[T any](edits ...func(*T)) func(*T) {
	return func(object *T) {
		for _, edit := range edits {
			edit(object)
		}
	}
}

// InGroup labels a pod as one of a group, and nothing else. Without a name it does nothing.
func InGroup(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if name != "" {
			p.Labels = map[string]string{group.Label: name}
		}
	}
}

// InNativeGroup puts a pod into a PodGroup of scheduling.k8s.io.
func InNativeGroup(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
}

// Amounts makes a list of resources from names and quantities in turn.
func Amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for pair := range slices.Chunk(pairs, 2) {
		list[corev1.ResourceName(pair[0])] = resource.MustParse(pair[1])
	}
	return list
}

// Asking has a pod ask for these Amounts alone.
func Asking(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = Amounts(pairs...) }
}

// CPU makes a pod request an amount of CPU.
func CPU(amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
	}
}

// Elsewhere puts a pod into another namespace.
func Elsewhere(p *corev1.Pod) { p.Namespace = "elsewhere" }

// ZoneKey is the node label with the zone.
const ZoneKey = "topology.kubernetes.io/zone"

// InZone puts a node into a zone.
func InZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[ZoneKey] = zone }
}

// OfApp gives a pod the label of an app.
func OfApp(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = maps.Clone(p.Labels)
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels["app"] = app
	}
}

// TermOn returns an affinity term by a key for the pods of an app.
func TermOn(key, app string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
}

// AwayFrom keeps a pod off the nodes of an app's pods.
func AwayFrom(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{}
		}
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{TermOn(corev1.LabelHostname, app)}}
	}
}

// NextTo restricts a pod to the domains of a key that have pods of an app.
func NextTo(key, app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{}
		}
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{TermOn(key, app)}}
	}
}

// HostPort makes a pod request a port of its node.
func HostPort(port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port, HostPort: port}}
	}
}

// SpreadOver spreads the pods of an app over the domains of a key.
func SpreadOver(key, app string, maxSkew int32, edit ...func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: maxSkew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}
		for _, e := range edit {
			e(&c)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

// KeepingOff returns a pod of another namespace with a term for each list of
// values. A term keeps off all pods whose completion index is in its list.
func KeepingOff(name string, lists ...[]string) *corev1.Pod {
	return Pod(name, func(p *corev1.Pod) {
		p.Namespace = "elsewhere"
		var terms []corev1.PodAffinityTerm
		for _, values := range lists {
			terms = append(terms, corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{},
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: batchv1.JobCompletionIndexAnnotation, Operator: metav1.LabelSelectorOpIn, Values: values,
				}}},
			})
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	})
}

// ReadyNode builds a node with so many cores; its UID is its name. Its capacity is the same list as
// what can be allocated.
func ReadyNode(name string, cores int64, edit ...func(*corev1.Node)) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cores, resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		}},
	}
	All(edit...)(node)
	return node
}

// Having gives a node these Amounts alone.
func Having(pairs ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Allocatable = Amounts(pairs...)
		n.Status.Capacity = n.Status.Allocatable
	}
}

// CreatedOn has a pod be created on a node, without a bind.
func CreatedOn(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

// In puts a pod into a namespace.
func In(namespace string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Namespace = namespace }
}

// Created gives a pod its time of creation.
func Created(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
}

// OwnedBy gives a pod the one object that controls it.
func OwnedBy(o group.Owner) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		version := schema.GroupVersion{Group: o.Group, Version: "v1"}.String()
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: o.Kind, Name: o.Name, UID: o.UID, Controller: new(true)}}
	}
}

// InPhase gives a pod a phase.
func InPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// OnNode binds a pod to a node.
func OnNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = name
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	}
}

// Always makes a pod restart whenever it ends.
func Always(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }

// Never makes a pod end for good.
func Never(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }

// ShunningIn gives a pod required anti-affinity to an app with further label
// requirements, in some namespaces. It repeats the term the given times.
func ShunningIn(times, labels int, namespaces ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term := TermOn(corev1.LabelOSStable, "nobody")
		term.Namespaces = namespaces
		for i := range labels {
			term.LabelSelector.MatchExpressions = append(term.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpDoesNotExist})
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: slices.Repeat([]corev1.PodAffinityTerm{term}, times),
		}}
	}
}
