package webhook

import "github.com/flux-k8s/fluence/pkg/group"

// keyWarnings returns a warning for each label and annotation with Fluence's prefixes that has no effect where
// the user wrote it. An object with a controller gets none, because controllers ignore warnings.
func (c *newObject) keyWarnings(kind string) []string {
	if c.controller != (group.Owner{}) {
		return nil
	}
	if c.template == nil {
		return group.KeyProblems(group.KeyedObject{Place: group.OnPod, Kind: "pod", Labels: c.labels, Annotations: c.annotations})
	}
	return group.KeyProblems(
		group.KeyedObject{Place: group.OnWorkload, Kind: kind, Labels: c.labels, Annotations: c.annotations},
		group.KeyedObject{Place: group.OnWorkload, Kind: c.ownerKind, Labels: c.ownerLabels, Annotations: c.ownerAnnotations},
		group.KeyedObject{Place: group.OnPod, Labels: c.pod.Labels, Annotations: c.pod.Annotations})
}
