package chaos

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// podGroups is the resource of PodGroups of Fluence, and nativePodGroups of those of Kubernetes.
var (
	podGroups       = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	nativePodGroups = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"}
)

// podGroups returns the client of the user's own PodGroup of a group.
func (r *run) podGroups(g *group) dynamic.ResourceInterface {
	if g.isNative() {
		return r.dynamic.Resource(nativePodGroups).Namespace(g.ns)
	}
	return r.dynamic.Resource(podGroups).Namespace(g.ns)
}

// writers is the number of a group's pods that are created or deleted at a time.
const writers = 8

type create struct{ Workload }

func (c create) do(ctx context.Context, r *run) error {
	if r.full(c.Size()) {
		r.stats.full.Add(1)
		return deleteGroup{Victim: uint32(c.Name)}.do(ctx, r)
	}
	return r.createObjects(ctx, r.reserve(c.Workload))
}

// full reports whether that many more pods would exceed a limit.
func (r *run) full(more int) bool {
	r.mu.Lock()
	groups := len(r.live)
	r.mu.Unlock()
	return groups >= r.cfg.MaxGroups || r.view.count(ours)+more > r.cfg.MaxPods
}

func ours(p *corev1.Pod) bool { return p.Labels[workloadLabel] != "" }

// reserve gives a workload a name: the first free one, counted from its number.
func (r *run) reserve(w Workload) *group {
	r.stats.groups.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serial++
	w.serial = r.serial
	r.stats.stand(w)
	g := &group{Workload: w, ns: namespaceName(w.Namespace)}
	taken := func(o *group) bool { return o.ns == g.ns && o.object == g.object }
	for n := w.Name; g.object == "" || slices.ContainsFunc(r.live, taken); n++ {
		g.object = w.name(n)
	}
	r.live = append(r.live, g)
	return g
}

func (r *run) createObjects(ctx context.Context, g *group) error {
	meta := metav1.ObjectMeta{Name: g.object, Namespace: g.ns}
	switch g.Maker {
	case Job:
		job := g.job(meta)
		return r.try(ctx, func(ctx context.Context) error {
			_, err := r.client.BatchV1().Jobs(g.ns).Create(ctx, job, metav1.CreateOptions{})
			return err
		})
	case StatefulSet:
		set := g.statefulSet(meta)
		return r.try(ctx, func(ctx context.Context) error {
			_, err := r.client.AppsV1().StatefulSets(g.ns).Create(ctx, set, metav1.CreateOptions{})
			return err
		})
	case Deployment:
		deployment := g.deployment(meta)
		return r.try(ctx, func(ctx context.Context) error {
			_, err := r.client.AppsV1().Deployments(g.ns).Create(ctx, deployment, metav1.CreateOptions{})
			return err
		})
	default:
		return r.createMembers(ctx, g)
	}
}

func (r *run) createMembers(ctx context.Context, g *group) error {
	if g.OwnPodGroup {
		err := r.try(ctx, func(ctx context.Context) error {
			_, err := r.podGroups(g).Create(ctx, g.podGroup(g.object), metav1.CreateOptions{})
			return err
		})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return r.createPods(ctx, g.ns, g.members(g.object))
}

func (r *run) createPods(ctx context.Context, ns string, pods []*corev1.Pod) error {
	var all errgroup.Group
	all.SetLimit(writers)
	for _, p := range pods {
		all.Go(func() error {
			return r.try(ctx, func(ctx context.Context) error {
				_, err := r.client.CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{})
				return err
			})
		})
	}
	return all.Wait()
}

// victim returns an existing group by number, or nil if no group suits.
func (r *run) victim(n uint32, suits func(*group) bool) *group {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*group
	for _, g := range r.live {
		if suits == nil || suits(g) {
			all = append(all, g)
		}
	}
	if len(all) == 0 {
		r.stats.moot.Add(1)
		return nil
	}
	return all[int(n)%len(all)]
}

type deleteGroup struct{ Victim uint32 }

func (d deleteGroup) String() string { return fmt.Sprintf("group %d", d.Victim) }

func (d deleteGroup) do(ctx context.Context, r *run) error {
	if g := r.victim(d.Victim, nil); g != nil {
		return r.delete(ctx, g)
	}
	return nil
}

// delete deletes a workload, and what nobody else would
// delete with it: bare pods and the user's own PodGroup.
func (r *run) delete(ctx context.Context, g *group) error {
	r.mu.Lock()
	r.live = slices.DeleteFunc(r.live, func(o *group) bool { return o == g })
	r.mu.Unlock()
	opts := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	err := r.try(ctx, func(ctx context.Context) error {
		switch g.Maker {
		case Job:
			return r.client.BatchV1().Jobs(g.ns).Delete(ctx, g.object, opts)
		case StatefulSet:
			return r.client.AppsV1().StatefulSets(g.ns).Delete(ctx, g.object, opts)
		case Deployment:
			return r.client.AppsV1().Deployments(g.ns).Delete(ctx, g.object, opts)
		default:
			return r.client.CoreV1().Pods(g.ns).DeleteCollection(ctx, opts, metav1.ListOptions{LabelSelector: workloadLabel + "=" + g.object})
		}
	})
	if err == nil && g.OwnPodGroup {
		err = r.try(ctx, func(ctx context.Context) error {
			return r.podGroups(g).Delete(ctx, g.object, metav1.DeleteOptions{})
		})
	}
	return err
}

type drain struct{}

func (drain) String() string { return "all groups" }

func (drain) do(ctx context.Context, r *run) error {
	r.mu.Lock()
	all := slices.Clone(r.live)
	r.mu.Unlock()
	for _, g := range all {
		if err := r.delete(ctx, g); err != nil && !r.moot(err) {
			return err
		}
	}
	return nil
}

type deleteMember struct{ Victim, Member uint32 }

func (d deleteMember) String() string { return fmt.Sprintf("pod %d of group %d", d.Member, d.Victim) }

func (d deleteMember) do(ctx context.Context, r *run) error {
	g := r.victim(d.Victim, nil)
	if g == nil {
		return nil
	}
	pods := r.view.podsOf(g.ns, g.object)
	if len(pods) == 0 {
		r.stats.moot.Add(1)
		return nil
	}
	p := pods[int(d.Member)%len(pods)]
	err := r.try(ctx, func(ctx context.Context) error {
		return r.client.CoreV1().Pods(g.ns).Delete(ctx, p.Name, metav1.DeleteOptions{})
	})
	if err != nil || g.Maker != Pods {
		return err
	}
	r.mu.Lock()
	g.extra++
	name := fmt.Sprintf("%s-again%d-%d", g.object, g.serial, g.extra)
	r.mu.Unlock()
	return r.createPods(ctx, g.ns, []*corev1.Pod{g.member(g.object, name, number(p))})
}

// patchPod changes a pod in place.
func (r *run) patchPod(ctx context.Context, ns, name string, patch []byte, subresources ...string) error {
	return r.try(ctx, func(ctx context.Context) error {
		_, err := r.client.CoreV1().Pods(ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
		return err
	})
}
