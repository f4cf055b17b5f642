package preemption

import (
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Units returns victims as a matcher takes them, in the same order. The victims are in the order in which
// Candidates returns them: each priority is four classes: those that may take long to end are after the others, and in both those that do
// not come back are after those that do. Of victims that are otherwise equal, the one that started later costs less.
func Units(victims []Victim, now time.Time) []match.Unit {
	n := 0
	for i := range victims {
		n += len(victims[i].Pods)
	}
	refs := make([]match.SlotRef, 0, n)
	units := make([]match.Unit, len(victims))
	class := int32(0)
	for i := range victims {
		v := &victims[i]
		if i > 0 && (v.Priority != victims[i-1].Priority || v.ComesBack != victims[i-1].ComesBack || v.Slow != victims[i-1].Slow) {
			class++
		}
		begin := len(refs)
		for _, p := range v.Pods {
			if last := len(refs) - 1; last >= begin && refs[last].Job == p.Slot.Job && len(p.Slot.Keys) > 0 {
				refs[last].Keys = append(refs[last].Keys, p.Slot.Keys...)
				continue
			}
			// Without room for more, so that append does not write into the victim's slice.
			refs = append(refs, match.SlotRef{Job: p.Slot.Job, Keys: slices.Clip(p.Slot.Keys)})
		}
		units[i] = match.Unit{
			Slots: refs[begin:len(refs):len(refs)], Class: class, Protected: int64(v.Protected),
			Cost: max(0, int64(now.Sub(v.Started)/time.Second)),
		}
	}
	return units
}
