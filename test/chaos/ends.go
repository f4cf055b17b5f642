package chaos

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// This file answers when groups end, which decides what room others are promised.

const (
	durationAnnotation = "fluence.flux-framework.org/duration"
	// editDuration is the kind of events that only happens by default if groups are promised room.
	editDuration = "edit-duration"
	// promisePatience is for how long a run waits at the end until promises have come true.
	promisePatience = 90 * time.Second
)

// drawEnds draws when the pods of a group end: in 8 to 60 seconds, and some never.
func drawEnds(d *dice, w *Workload) {
	end := time.Duration(d.between(8, 60)) * time.Second
	pods := w.Maker == Job || w.Maker == Pods || w.Maker == LonePod
	switch n := d.IntN(100); {
	case n < 15: // never
	case n < 35 && pods: // sets take no pods with a deadline
		w.Deadline = end
	case n < 50 && w.Maker == Job:
		w.JobDeadline = end
	default:
		w.Duration = end
	}
}

// atMost returns a deadline as objects have it. Zero is none.
func atMost(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	return new(int64(d / time.Second))
}

// redate changes the duration of a group that waits or runs: on its PodGroup, or on a pod alone.
type redate struct {
	Victim   uint32
	Duration time.Duration
}

func (e redate) String() string { return fmt.Sprintf("group %d to %v", e.Victim, e.Duration) }

func (e redate) do(ctx context.Context, r *run) error {
	g := r.victim(e.Victim, nil)
	if g == nil {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, durationAnnotation, fmt.Sprintf("%.0fs", e.Duration.Seconds()))
	if g.Maker == LonePod {
		return r.patchPod(ctx, g.ns, g.object+"-0", patch)
	}
	groups, name := r.podGroups(g), g.object
	if !g.isNative() {
		if name = r.podGroupOf(g); name == "" {
			return nil
		}
	}
	return r.try(ctx, func(ctx context.Context) error {
		_, err := groups.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// comeTrue waits until no group is promised room, for at most promisePatience. No events happen meanwhile.
func (r *run) comeTrue(ctx context.Context) {
	if r.cfg.Promises == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, promisePatience)
	defer cancel()
	// Groups that start again and again may be promised room for ever, so that the end of the wait is no error.
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) { return r.checker.Promised() == 0, nil })
}
