package admission

import (
	"testing"
)

func TestOneQueueStartsItsJobsInTheirOrder(t *testing.T) {
	r := newRig(t, 2, fcfs("batch"))
	a := r.submit("a", "batch", 2, 4, "10m")
	b := r.submit("b", "batch", 1, 4, "10m")
	r.step()
	r.shows("a: Ready Admitted n[1-2]*1", "b: Waiting NoRoom")
	r.holds("a@n1,n2")
	if held, why := r.d.Status(b, ""); !held || why == "" {
		t.Errorf("Status(b) = %v, %q, want it held and why", held, why)
	}
	if held, why := r.d.Status(a, "batch"); held {
		t.Errorf("Status(a) = held: %s", why)
	}
	r.release(a)
	r.finish(a)
	r.shows("a: Finished Admitted n[1-2]*1", "b: Ready Admitted n1*1")
	r.holds("b@n1")
}
