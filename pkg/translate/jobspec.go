package translate

import (
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// jobspecVersion marks a jobspec of the general form. Version 1 is the form of RFC 25, which has no
// memory and no pods.
const jobspecVersion = 9999

// A ShapeRequest is a request for slots of one shape.
type ShapeRequest struct {
	// Label is the name of the slot request. It is unique in its jobspec and not empty.
	Label string
	// Amounts are the amounts that each slot holds.
	Amounts Amounts
	// Min and Max bound the number of slots, 1 <= Min <= Max.
	Min, Max int64
	// Attributes restrict where the slots may be. The zero value has no restriction.
	Attributes jobspec.SlotAttributes
}

// Jobspec returns one request for all shapes together, with one slot request for each, in their
// order (RFC 14). Its duration is unlimited. A caller may set Attributes.System.Duration.
func Jobspec(shapes []ShapeRequest) *jobspec.Jobspec {
	js := &jobspec.Jobspec{Version: jobspecVersion}
	for _, s := range shapes {
		slot := jobspec.Resource{Type: jobspec.SlotType, Count: jobspec.Between(s.Min, s.Max), Label: s.Label}
		for _, t := range s.Amounts.Types() {
			slot.With = append(slot.With, jobspec.Resource{Type: t, Count: jobspec.Exactly(s.Amounts[t]), Unit: unit(t)})
		}
		js.Resources = append(js.Resources, slot)
		js.Tasks = append(js.Tasks, jobspec.Task{
			// RFC 14 requires a command of at least one word. The pod runs its own command.
			Command: []string{"pod"},
			Slot:    s.Label,
			Count:   jobspec.TaskCount{PerSlot: 1},
		})
		if a := s.Attributes; a.Constraints != nil || a.ConstraintsNow != nil || len(a.MaxPerLevel)+len(a.Limits) > 0 || a.Topology != nil {
			if js.Attributes.System.Fluence == nil {
				js.Attributes.System.Fluence = map[string]jobspec.SlotAttributes{}
			}
			js.Attributes.System.Fluence[s.Label] = a
		}
	}
	return js
}
