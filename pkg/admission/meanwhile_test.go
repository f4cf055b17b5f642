package admission

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Pods may take room over after the loop has asked which of them have nodes. It must not book the room again then.
func TestATakeoverWhileTheRoomIsBroughtUpToDate(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 2, 4, "1h")
	r.step()
	r.release(a)
	r.step()
	var booked int
	r.d.cfg.Engine = watched{r.engine, func(jobs []match.Job) { booked += len(jobs) }}
	took := false
	r.d.cfg.Groups.Placed = func(key types.NamespacedName) []string {
		before := slices.Clone(r.placed[key])
		if !took {
			took = true
			got, _ := r.d.Allocation(a)
			keys := []string{got.Slots[0].Key, got.Slots[1].Key}
			r.must(r.engine.Release(r.Context(), r.epoch, got.Job, keys...))
			r.placed[a] = []string{"n1", "n2"}
			r.d.TakenOver(a, keys)
		}
		return before
	}
	r.d.Recheck(a)
	r.step()
	r.step()
	r.holds("")
	if booked > 0 {
		t.Errorf("the loop has booked room %d times that pods had taken", booked)
	}
}

// Whoever asks for room that is about to be booked again hears when it is.
func TestRoomThatIsNotUpToDate(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 2, 4, "1h")
	r.step()
	r.release(a)
	r.step()
	got, _ := r.d.Allocation(a)
	r.d.TakenOver(a, []string{got.Slots[0].Key, got.Slots[1].Key}) // and the pods do not get their nodes
	if now, ok := r.d.Allocation(a); !ok || len(now.Slots) > 0 || !now.Unsettled || got.Unsettled {
		t.Errorf("Allocation() = %+v, and %+v before", now, got)
	}
	r.told = nil
	r.step()
	if now, _ := r.d.Allocation(a); !slices.Contains(r.told, a) || len(now.Slots) != 2 || now.Unsettled {
		t.Errorf("these groups were told: %v, and Allocation() = %+v", r.told, now)
	}
	r.told = nil
	r.d.Recheck(a)
	r.step()
	if len(r.told) > 0 {
		t.Errorf("these groups were told though none waits: %v", r.told)
	}
}

// The scheduler's filters may refuse a node while the FluxJob is written without another one.
func TestANodeIsRefusedWhileTheAllocationIsWritten(t *testing.T) {
	for name, meanwhile := range map[string]func(r *rig, a types.NamespacedName){
		"nothing more": func(*rig, types.NamespacedName) {},
		"a pod comes":  func(r *rig, a types.NamespacedName) { r.placed[a] = append(r.placed[a], "n2"); r.d.Recheck(a) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 4, easy("batch"))
			a := r.submit("a", "batch", 4, 4, "1h")
			r.step()
			r.release(a)
			r.takeOver(a, 1)
			r.api.lost = func(*applied) error {
				r.api.lost = nil
				r.d.Refused(a, []string{"n3"}, "volume conflict")
				meanwhile(r, a)
				return nil
			}
			r.d.Refused(a, []string{"n2"}, "volume conflict")
			r.step()
			r.shows("a: Running Admitted n[1,4]*1")
			r.holds("a@n4")
			if got, _ := r.d.Allocation(a); len(got.Slots) != 1 || got.Slots[0].Node != "n4" {
				t.Errorf("Allocation() = %+v, want the slot on n4", got)
			}
		})
	}
}

func TestANodeIsRefusedOnWhichTheJobHasAPod(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 4, 2, "1h")
	r.step()
	r.release(a)
	r.takeOver(a, 1)
	r.holds("a@n1,n2,n2")
	r.d.Refused(a, []string{"n1"}, "volume conflict")
	r.step()
	r.holds("a@n2,n2")
	if got := r.d.jobs.byKey[a].room; len(got.refused) > 0 || len(got.slots) != 3 {
		t.Errorf("the room has the slots %v, and still refused are %v", got.slots, got.refused)
	}
}

// watched is an engine whose updates are seen.
type watched struct {
	match.Engine
	see func([]match.Job)
}

func (w watched) Update(ctx context.Context, epoch match.Epoch, jobs ...match.Job) error {
	w.see(jobs)
	return w.Engine.Update(ctx, epoch, jobs...)
}
