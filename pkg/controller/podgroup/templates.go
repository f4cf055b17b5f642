package podgroup

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// maxTemplates bounds the bytes of the templates in a PodGroup, and group.MaxTemplates their number. A
// group with more of either has none: its expected pods are placed when they come.
const maxTemplates = 128 << 10

// wantedTemplates returns the templates of a group's owner, for the spec of the PodGroup. It returns nil
// if the owner makes all its pods at once, if the group has several owners, if the CRD is too old for
// templates, or if a label of a user gives a size: then the user has said what the group starts with.
func (o observation) wantedTemplates() []scheduling.PodsOfTemplate {
	all, _ := o.templatesWithin()
	return all
}

// templatesWithin returns what wantedTemplates does. If the templates exceed a limit, it says which.
func (o observation) templatesWithin() (all []scheduling.PodsOfTemplate, why string) {
	if size, err := o.userSize(); err != nil || size != (group.Size{}) || !o.isNamedForOwner() || o.legacyCRD || o.noTemplates {
		return nil, ""
	}
	active := o.activeOwners()
	if len(active) != 1 || active[0].state != readable {
		return nil, ""
	}
	if len(active[0].templates) > group.MaxTemplates {
		return nil, fmt.Sprintf("no room is held for pods that are made later: more than %d templates", group.MaxTemplates)
	}
	bytes := 0
	for _, t := range active[0].templates {
		data, err := json.Marshal(placementOf(t.Pod))
		if err != nil || t.Coming > group.MaxSize || t.Expected > group.MaxSize {
			return nil, ""
		}
		if bytes += len(data); bytes > maxTemplates {
			return nil, fmt.Sprintf("no room is held for pods that are made later: what places them takes more than %d bytes", maxTemplates)
		}
		all = append(all, scheduling.PodsOfTemplate{
			Name: t.Name, Coming: t.Coming, Expected: t.Expected, After: string(t.After), Leader: t.Leader, Stage: t.Stage,
			Pod: &runtime.RawExtension{Raw: data},
		})
	}
	return all, ""
}

// firstStage returns how many pods are coming in the first stage, at least 1, if so many pods of each template
// are done, and are not made again. The first stage of this scheduler is a later one of the owner if another
// scheduler has the ones before.
func firstStage(templates []group.Template, done map[string]int32) int32 {
	first := int32(math.MaxInt32)
	for _, t := range templates {
		first = min(first, t.Stage)
	}
	n := int32(0)
	for _, t := range templates {
		if t.Stage == first {
			n = min(group.MaxSize, n+max(0, min(t.Coming, t.Coming+t.Expected-done[t.Name])))
		}
	}
	return max(1, n)
}

// placementOf returns the labels of a pod template, and the fields of its spec by which a pod is placed.
func placementOf(t corev1.PodTemplateSpec) map[string]any {
	slim := func(containers []corev1.Container) []corev1.Container {
		var all []corev1.Container
		for _, c := range containers {
			one := corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
			for _, p := range c.Ports {
				if p.HostPort != 0 {
					one.Ports = append(one.Ports, corev1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol, ContainerPort: p.ContainerPort})
				}
			}
			all = append(all, one)
		}
		return all
	}
	s := t.Spec
	placement := map[string]any{}
	if len(t.Labels) > 0 {
		placement["metadata"] = map[string]any{"labels": t.Labels}
	}
	placement["spec"] = corev1.PodSpec{
		SchedulerName: s.SchedulerName, PriorityClassName: s.PriorityClassName, Priority: s.Priority,
		NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, TopologySpreadConstraints: s.TopologySpreadConstraints,
		Containers: slim(s.Containers), InitContainers: slim(s.InitContainers), Resources: s.Resources, Overhead: s.Overhead, HostNetwork: s.HostNetwork,
	}
	return placement
}

// sameTemplates reports whether two lists of templates say the same. The API server may have written the
// pods of one with its fields in another order.
func sameTemplates(a, b []scheduling.PodsOfTemplate) bool {
	return slices.EqualFunc(a, b, func(a, b scheduling.PodsOfTemplate) bool {
		return a.Name == b.Name && a.Coming == b.Coming && a.Expected == b.Expected && a.After == b.After &&
			a.Leader == b.Leader && a.Stage == b.Stage && canonical(a.Pod) == canonical(b.Pod)
	})
}

// canonical returns JSON with its fields in the order of their names.
func canonical(raw *runtime.RawExtension) string {
	var value any
	if raw == nil || json.Unmarshal(raw.Raw, &value) != nil {
		return ""
	}
	data, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(data)
}
