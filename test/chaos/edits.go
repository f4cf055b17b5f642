package chaos

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type scale struct {
	Victim   uint32
	Replicas int
}

func drawScale(d *dice) Action {
	return scale{Victim: d.Uint32(), Replicas: oneOf(d, 0, 1, 2, 3, 4, 4, 6, 8)}
}

func (s scale) String() string { return fmt.Sprintf("group %d to %d", s.Victim, s.Replicas) }

func (s scale) do(ctx context.Context, r *run) error {
	g := r.victim(s.Victim, func(g *group) bool { return g.Maker != Pods && g.Maker != LonePod })
	if g == nil {
		return nil
	}
	field := "replicas"
	if g.Maker == Job {
		field = "parallelism"
	}
	return r.patchOwner(ctx, g, fmt.Appendf(nil, `{"spec":{%q:%d}}`, field, s.Replicas))
}

type suspend struct {
	Victim  uint32
	Suspend bool
}

func (s suspend) String() string { return fmt.Sprintf("job %d", s.Victim) }

func (s suspend) do(ctx context.Context, r *run) error {
	g := r.victim(s.Victim, func(g *group) bool { return g.Maker == Job })
	if g == nil {
		return nil
	}
	return r.patchOwner(ctx, g, fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, s.Suspend))
}

// patchOwner changes the object that creates a group's pods.
func (r *run) patchOwner(ctx context.Context, g *group, patch []byte) error {
	return r.try(ctx, func(ctx context.Context) (err error) {
		switch g.Maker {
		case Job:
			_, err = r.client.BatchV1().Jobs(g.ns).Patch(ctx, g.object, types.MergePatchType, patch, metav1.PatchOptions{})
		case StatefulSet:
			_, err = r.client.AppsV1().StatefulSets(g.ns).Patch(ctx, g.object, types.MergePatchType, patch, metav1.PatchOptions{})
		case Deployment:
			_, err = r.client.AppsV1().Deployments(g.ns).Patch(ctx, g.object, types.MergePatchType, patch, metav1.PatchOptions{})
		default: // bare pods have no owner
		}
		return err
	})
}

// podGroupOf returns the name of a group's PodGroup by a
// label of its pods. It returns "" if none has the label.
func (r *run) podGroupOf(g *group) string {
	for _, p := range r.view.podsOf(g.ns, g.object) {
		if name := p.Labels[groupLabel]; name != "" {
			return name
		}
	}
	r.stats.moot.Add(1)
	return ""
}

func hasPodGroup(g *group) bool { return g.Maker != LonePod }

type editMin struct {
	Victim uint32
	Min    int
}

func (e editMin) String() string { return fmt.Sprintf("group %d to %d", e.Victim, e.Min) }

func (e editMin) do(ctx context.Context, r *run) error {
	g := r.victim(e.Victim, hasPodGroup)
	if g == nil {
		return nil
	}
	name := r.podGroupOf(g)
	if name == "" {
		return nil
	}
	patch := fmt.Appendf(nil, `{"spec":{"minMember":%d}}`, e.Min)
	return r.try(ctx, func(ctx context.Context) error {
		_, err := r.dynamic.Resource(podGroups).Namespace(g.ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

type deletePodGroup struct{ Victim uint32 }

func (d deletePodGroup) String() string { return fmt.Sprintf("of group %d", d.Victim) }

func (d deletePodGroup) do(ctx context.Context, r *run) error {
	// Nobody would create a user's own PodGroup again.
	g := r.victim(d.Victim, func(g *group) bool { return hasPodGroup(g) && !g.OwnPodGroup })
	if g == nil {
		return nil
	}
	name := r.podGroupOf(g)
	if name == "" {
		return nil
	}
	return r.try(ctx, func(ctx context.Context) error {
		return r.dynamic.Resource(podGroups).Namespace(g.ns).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

type label struct {
	Victim uint32
	Value  int
}

func (l label) String() string { return fmt.Sprintf("group %d with %d", l.Victim, l.Value) }

func (l label) do(ctx context.Context, r *run) error {
	g := r.victim(l.Victim, nil)
	if g == nil {
		return nil
	}
	pods := r.view.podsOf(g.ns, g.object)
	if len(pods) == 0 {
		r.stats.moot.Add(1)
		return nil
	}
	p := pods[l.Value%len(pods)]
	return r.patchPod(ctx, g.ns, p.Name, fmt.Appendf(nil, `{"metadata":{"labels":{"touched":"%d"},"annotations":{"touched":"%d"}}}`, l.Value, l.Value))
}
