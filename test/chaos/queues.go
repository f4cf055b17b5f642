package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// This file answers what happens to work in queues, and to the queues.

// These are the kinds of events that only happen by default if there are queues.
const (
	holdJob       = "hold"
	editTimeLimit = "edit-time-limit"
	editQueue     = "edit-queue"
)

const (
	// queueShare is the percentage of Jobs and lone pods that are in a queue.
	queueShare = 40
	// queueLabel is the name that users write, by docs/queues.md.
	queueLabel = "fluence.flux-framework.org/queue"
)

// easyQueue and strictQueue are the queues, by their policies easy and fcfs.
const (
	easyQueue   = "batch"
	strictQueue = "strict"
)

var (
	fluxJobs = schema.GroupVersionResource{Group: "fluence.flux-framework.org", Version: "v1alpha1", Resource: "fluxjobs"}
	queues   = schema.GroupVersionResource{Group: "fluence.flux-framework.org", Version: "v1alpha1", Resource: "queues"}
)

// makeQueues creates the queues. They have the same nodes, and limits that bind.
func (r *run) makeQueues(ctx context.Context) error {
	for name, spec := range map[string]map[string]any{
		easyQueue: {
			"policy": "easy", "grace": "2s", "namespaceSelector": map[string]any{}, "defaults": map[string]any{"duration": "20s"},
			"limits": limits(5, 3, "30"),
		},
		strictQueue: {
			"policy": "fcfs", "grace": "3s", "priority": int64(1), "namespaceSelector": map[string]any{}, "defaults": map[string]any{"duration": "15s"},
			"limits": limits(3, 2, "16"),
		},
	} {
		queue := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": queues.GroupVersion().String(), "kind": "Queue", "metadata": map[string]any{"name": name}, "spec": spec,
		}}
		if _, err := r.dynamic.Resource(queues).Create(ctx, queue, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create a queue: %w", err)
		}
	}
	return nil
}

func limits(running, ofNamespace int64, cpu string) map[string]any {
	return map[string]any{
		"duration": "2m", "running": running, "perNamespace": map[string]any{"running": ofNamespace}, "requests": map[string]any{"cpu": cpu},
	}
}

// drawQueue puts a Job or a lone pod into a queue. Half of their pods run until their time limit.
func drawQueue(d *dice, w *Workload) {
	w.Queue = oneOf(d, easyQueue, easyQueue, strictQueue)
	limit := time.Duration(d.between(4, 40)) * time.Second
	switch n := d.IntN(100); {
	case w.Duration+w.Deadline+w.JobDeadline > 0, n < 25: // it has one, or the default of the queue
	case n < 40 && w.Maker == Job:
		w.JobDeadline = limit
	default:
		w.Duration = limit
	}
	if d.chance(50) {
		w.RunFor, w.Fails = 0, false
	}
}

// enter writes the label of the queue onto a Job or a pod. Of a Job it may be in the pod template alone.
func (w Workload) enter(meta, template *metav1.ObjectMeta) {
	if w.Queue == "" {
		return
	}
	if template != nil && w.Name%2 == 1 {
		meta = template
	}
	if meta.Labels == nil {
		meta.Labels = map[string]string{}
	}
	meta.Labels[queueLabel] = w.Queue
}

func inQueue(g *group) bool { return g.Queue != "" }

// patchFluxJob changes the FluxJob of a group in a queue.
func (r *run) patchFluxJob(ctx context.Context, g *group, patch []byte) error {
	kind, object := "Job", g.object
	if g.Maker == LonePod {
		kind, object = "Pod", g.object+"-0"
	}
	return r.try(ctx, func(ctx context.Context) error {
		all, err := r.dynamic.Resource(fluxJobs).Namespace(g.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range all.Items {
			of, _, _ := unstructured.NestedStringMap(all.Items[i].Object, "spec", "workload")
			if of["kind"] == kind && of["name"] == object {
				_, err = r.dynamic.Resource(fluxJobs).Namespace(g.ns).Patch(ctx, all.Items[i].GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			}
		}
		r.stats.moot.Add(1)
		return nil
	})
}

// hold holds a job, or releases it.
type hold struct {
	Victim uint32
	Held   bool
}

func (h hold) String() string { return fmt.Sprintf("group %d: %t", h.Victim, h.Held) }

func (h hold) do(ctx context.Context, r *run) error {
	g := r.victim(h.Victim, inQueue)
	if g == nil {
		return nil
	}
	return r.patchFluxJob(ctx, g, fmt.Appendf(nil, `{"spec":{"held":%t}}`, h.Held))
}

// relimit changes the time limit of a job that waits or runs.
type relimit struct {
	Victim uint32
	Limit  time.Duration
}

func (e relimit) String() string { return fmt.Sprintf("group %d to %v", e.Victim, e.Limit) }

func (e relimit) do(ctx context.Context, r *run) error {
	g := r.victim(e.Victim, inQueue)
	if g == nil {
		return nil
	}
	return r.patchFluxJob(ctx, g, fmt.Appendf(nil, `{"spec":{"duration":"%.0fs"}}`, e.Limit.Seconds()))
}

// requeue changes the limits of a queue, or stops it. A queue that was stopped is started by the next edit.
type requeue struct {
	Queue   string
	Started bool
	// Running, OfNamespace and CPU are limits. Zero removes one.
	Running, OfNamespace, CPU int
}

func drawEditQueue(d *dice) Action {
	return requeue{
		Queue: oneOf(d, easyQueue, strictQueue), Started: !d.chance(15),
		Running: oneOf(d, 0, 1, 2, 3, 4, 6), OfNamespace: oneOf(d, 0, 1, 2, 3), CPU: oneOf(d, 0, 4, 8, 16, 32),
	}
}

func (e requeue) String() string {
	return fmt.Sprintf("%s: started=%t running=%d namespace=%d cpu=%d", e.Queue, e.Started, e.Running, e.OfNamespace, e.CPU)
}

func (e requeue) do(ctx context.Context, r *run) error {
	orNone := func(n int) any {
		if n == 0 {
			return nil
		}
		return n
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"started": e.Started, "limits": map[string]any{
		"running": orNone(e.Running), "perNamespace": map[string]any{"running": orNone(e.OfNamespace)}, "requests": map[string]any{"cpu": orNone(e.CPU)},
	}}})
	if err != nil {
		return fmt.Errorf("change queue %s: %w", e.Queue, err)
	}
	if !r.cfg.Queues {
		r.stats.moot.Add(1)
		return nil
	}
	return r.try(ctx, func(ctx context.Context) error {
		_, err := r.dynamic.Resource(queues).Patch(ctx, e.Queue, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}
