package webhook

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
)

// keyWarnings returns a warning for each label and annotation with Fluence's prefixes that has no effect where
// the user wrote it, and for each that has a wrong value. An object with a controller gets none, because
// controllers ignore warnings.
func (c *newObject) keyWarnings(kind string) []string {
	if c.controller != (group.Owner{}) {
		return nil
	}
	return slices.Concat(c.uselessKeys(kind), c.wrongValues())
}

// wrongValues returns a warning for each label and annotation that counts for the pods and has a wrong value. A
// label that was copied from the object to its pod template counts in the template, and is warned of once. A size that is
// more than a Job makes is a wrong value, too.
func (c *newObject) wrongValues() []string {
	native, name := group.NativePodGroupOf(&c.pod.Spec), c.pod.Labels[group.Label]
	problems := group.ValueProblems(c.pod.Labels, c.pod.Annotations, c.template == nil && native == "" && name == "")
	if native == "" && name != "" {
		if err := podgroup.CheckName(name); err != nil {
			problems = append(problems, err.Error())
		}
	}
	if c.podOwner.Group == "batch" && c.podOwner.Kind == "Job" {
		if text := group.JobSizeProblem(c.podOwnerSpec, c.pod.Labels, c.pod.Annotations); text != "" {
			problems = append(problems, text)
		}
	}
	return problems
}

// uselessKeys returns a warning for each label and annotation that has no effect where it is.
func (c *newObject) uselessKeys(kind string) []string {
	if c.template == nil {
		return group.KeyProblems(group.KeyedObject{Place: group.OnPod, Kind: "pod", Labels: c.labels, Annotations: c.annotations})
	}
	return group.KeyProblems(
		group.KeyedObject{Place: group.OnWorkload, Kind: kind, Labels: c.labels, Annotations: c.annotations},
		group.KeyedObject{Place: group.OnWorkload, Kind: c.ownerKind, Labels: c.ownerLabels, Annotations: c.ownerAnnotations},
		group.KeyedObject{Place: group.OnPod, Labels: c.pod.Labels, Annotations: c.pod.Annotations})
}
