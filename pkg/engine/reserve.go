package engine

import (
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// checkReserved fails for a reservation without a time, and for one of a job that
// holds something or is to, as others of the same call say.
func (e *Engine) checkReserved(j *match.Job, all []match.Job) error {
	if !j.Reserved {
		return nil
	}
	holds := func(other match.Job) bool { return other.ID == j.ID && !other.Reserved && len(other.Slots) > 0 }
	switch {
	case j.At.IsZero():
		return invalid("update job %d: a reservation from no time on", j.ID)
	case !j.End.IsZero() && !j.End.After(j.At):
		return invalid("update job %d: a reservation from %s to %s", j.ID, j.At, j.End)
	case e.jobs[j.ID] != nil || slices.ContainsFunc(all, holds):
		return invalid("update job %d: a reservation of a job that holds something", j.ID)
	}
	return nil
}

// reserve promises the slots of a job in place of those with the same keys.
func (e *Engine) reserve(from *match.Job, bare map[[2]string]*resource.Vertex) {
	if len(from.Slots) == 0 {
		return
	}
	j := &job{id: from.ID, slots: make(map[string]*slot, len(from.Slots)), reserved: true, at: from.At, end: from.End}
	if was := e.promises.jobs[from.ID]; was != nil {
		e.withdraw(from.ID)
		maps.Copy(j.slots, was.slots)
	}
	for i := range from.Slots {
		s := readSlot(&from.Slots[i], bare)
		s.job = from.ID
		j.slots[s.key] = s
	}
	for _, s := range j.slots {
		s.start, s.end = j.at, j.end
	}
	e.promise(j)
}
