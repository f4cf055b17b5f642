package group

import (
	"encoding/json"
	"fmt"
	"slices"
)

// AllTemplates returns the templates of an owner, also if the owner makes all its pods at once: then Coming
// counts them, and Stage is 0. With exclusive placement there is one for each Job, but no more than about
// MaxTemplates. annotations and spec are the owner's; spec is JSON. As in Templates, templates of
// other schedulers are left out. An error names the field that is wrong. The
// result is nil for kinds whose specs do not say how many pods there are to be.
func AllTemplates(o Owner, annotations map[string]string, spec []byte, scheduler string) ([]Template, error) {
	parts, err := partsOf(o, spec)
	if err != nil {
		return nil, err
	}
	listed, err := templatesFor(o, annotations, spec, scheduler)
	if err != nil {
		return nil, err
	}
	// With exclusive placement each Job has a template, also if it has one pod.
	if slices.ContainsFunc(listed, func(t Template) bool { return t.Domain != "" }) {
		return listed, nil
	}
	staged, err := Templates(o, annotations, spec, scheduler)
	if err != nil || staged != nil {
		return staged, err
	}
	var all []Template
	for _, p := range parts {
		if p.pods == 0 || p.Spec.SchedulerName != scheduler && OtherSchedulers(o, spec, scheduler) != "" {
			continue
		}
		t := Template{Name: p.name, Coming: bounded(p.pods)}
		if err := json.Unmarshal(p.text, &t.Pod); err != nil {
			return nil, fmt.Errorf("%s %s, pod template %s: %w", o.Kind, o.Name, p.name, err)
		}
		all = append(all, t)
	}
	return all, nil
}

// UnitsOf returns the owners after which the groups of an object are named. A LeaderWorkerSet has a group for each of its
// units, named after the unit's leader. Any other object has one, named after itself. All owners have the UID of o.
// spec is the spec of the object, as JSON. An error names the field that is wrong.
func UnitsOf(o Owner, spec []byte) ([]Owner, error) {
	if !o.isKind(leaderWorkerSet) {
		return []Owner{o}, nil
	}
	var s struct {
		Replicas replicas `json:"replicas"`
	}
	if err := json.Unmarshal(spec, &s); err != nil {
		return nil, fmt.Errorf("read the spec of %s %s: %w", o.Kind, o.Name, err)
	}
	n, err := s.Replicas.count("spec.replicas")
	if err != nil {
		return nil, err
	}
	var units []Owner
	for i := range min(n, MaxSize) {
		unit := o
		unit.Name = fmt.Sprintf("%s-%d", o.Name, i)
		units = append(units, unit)
	}
	return units, nil
}
