package invariants

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// probeNamespace is the namespace of the last probe.
	probeNamespace = "invariants-probe"
	// probeGroup is the group of the last probe.
	probeGroup = "whole-cluster"
	// probeWriters is the number of pods that are created at a time.
	probeWriters = 16
	// perProbe is added to Slack for each pod, because many binds take their time.
	perProbe = 50 * time.Millisecond
	// cleanTimeout is the time limit for the removal of the probe.
	cleanTimeout = 30 * time.Second
)

// End checks what must hold after the caller has deleted all groups: no PodGroup without an
// owner is left, and Fluence holds nothing on the nodes. For that it creates one group, the
// probe, which requests all that the usable nodes have left. The group must be placed. Then End
// stops watching and returns all violations. An error means that the check was not possible.
func (c *Checker) End(ctx context.Context) ([]Violation, error) {
	err := c.checkLeft(ctx)
	if err == nil {
		err = c.probe(ctx)
	}
	if err == nil {
		err = c.lookBack(ctx)
	}
	c.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		err = c.failed
	}
	return slices.Clone(c.judge.violations), err
}

// lookBack waits until everything that has happened so far is judged.
func (c *Checker) lookBack(ctx context.Context) error {
	timer := time.NewTimer(standAfter + 2*tick)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("judge what happened last: %w", ctx.Err())
	}
}

// checkLeft waits until no PodGroup is left that the controller made and that has
// no owner. It reports a violation for each one still left after Linger and Slack.
func (c *Checker) checkLeft(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, c.cfg.Linger+c.cfg.Slack)
	defer cancel()
	var left []*groupFact
	err := wait.PollUntilContextCancel(waiting, settleEvery, true, func(context.Context) (bool, error) {
		c.tell(func(j *judge) { left = j.ownerless() })
		return len(left) == 0, nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("wait until PodGroups are gone: %w", ctx.Err())
	}
	if err != nil {
		c.tell(func(j *judge) {
			for _, g := range left {
				j.report(RuleHeld, g.key, time.Now(), "the PodGroup must go within %v of its last pod, since nothing owns it: it is still there after %v more",
					c.cfg.Linger, c.cfg.Slack)
			}
		})
	}
	return nil
}

// ownerless returns the PodGroups that the controller made and that have neither owners nor pods.
func (j *judge) ownerless() (found []*groupFact) {
	for key, g := range j.groups {
		if g.made && len(g.owners) == 0 && len(j.families[key].pods) == 0 {
			found = append(found, g)
		}
	}
	slices.SortFunc(found, func(a, b *groupFact) int { return cmp.Compare(a.key.String(), b.key.String()) })
	return found
}

// A shape is the request of the probe's pods on some nodes that have the same left.
type shape struct {
	asks  corev1.ResourceList
	nodes []string
}

// probe creates a group that requests all that the nodes have
// left, and reports a violation if it is not placed in time.
func (c *Checker) probe(ctx context.Context) error {
	shapes, n, err := c.shapes(ctx)
	if err != nil || n == 0 {
		return err
	}
	defer c.removeProbe(context.WithoutCancel(ctx))
	if err := c.createProbe(ctx, shapes, n); err != nil {
		return err
	}
	limit := c.cfg.Slack + time.Duration(n)*perProbe
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	key := types.NamespacedName{Namespace: probeNamespace, Name: probeGroup}
	var on count
	var told string
	err = wait.PollUntilContextCancel(waiting, settleEvery, true, func(context.Context) (bool, error) {
		c.tell(func(j *judge) {
			j.stats.Probed = n
			if fam := j.families[key]; fam != nil {
				on, told = fam.count(), fam.group.String()
			}
		})
		return on.serving == n, nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the probe: %w", ctx.Err())
	}
	if err != nil {
		c.tell(func(j *judge) {
			j.report(RuleHeld, key, time.Now(), "everything was deleted, so %d pods that ask for all that %d nodes have left must be placed within %v: %d are; PodGroup %s",
				n, n, limit, on.serving, told)
		})
	}
	return nil
}

// shapes returns what the usable nodes have left, and the number of these nodes.
func (c *Checker) shapes(ctx context.Context) (shapes []*shape, n int, err error) {
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list nodes: %w", err)
	}
	pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list pods: %w", err)
	}
	used := map[string]amounts{}
	for i := range pods.Items {
		p := podFactOf(&pods.Items[i])
		if p.node == "" || p.ended() {
			continue
		}
		if used[p.node] == nil {
			used[p.node] = amounts{}
		}
		used[p.node].add(p.asks)
	}
	by := map[string]*shape{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		left := amountsOf(node.Status.Allocatable)
		for name, held := range used[node.Name] {
			left[name] -= held
		}
		if node.Spec.Unschedulable || !ready(node) || left[corev1.ResourceCPU] <= 0 || left[corev1.ResourcePods] <= 0 {
			continue
		}
		delete(left, corev1.ResourcePods)
		key := fmt.Sprint(left) // in the order of the names
		if by[key] == nil {
			by[key] = &shape{asks: listOf(left)}
			shapes = append(shapes, by[key])
		}
		by[key].nodes = append(by[key].nodes, node.Labels[corev1.LabelHostname])
		n++
	}
	return shapes, n, nil
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func listOf(a amounts) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, n := range a {
		switch {
		case n <= 0:
		case name == corev1.ResourceCPU:
			list[name] = *resource.NewMilliQuantity(n, resource.DecimalSI)
		default:
			list[name] = *resource.NewQuantity(n, resource.BinarySI)
		}
	}
	return list
}

// createProbe creates the pods of the probe, one for each node.
func (c *Checker) createProbe(ctx context.Context, shapes []*shape, n int) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: probeNamespace}}
	_, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the probe: %w", err)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(probeWriters)
	for i, s := range shapes {
		for k := range s.nodes {
			pod := c.probePod(fmt.Sprintf("probe-%d-%d", i, k), s, n, len(shapes) > 1)
			g.Go(func() error { return c.createPod(gctx, pod) })
		}
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("make the probe: %w", err)
	}
	return nil
}

// createPod creates a pod. It tries again while the namespace has no service account yet.
func (c *Checker) createPod(ctx context.Context, pod *corev1.Pod) error {
	err := wait.PollUntilContextTimeout(ctx, retryEvery, cleanTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := c.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "serviceaccount") {
			return false, nil
		}
		return true, err
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	return nil
}

func (c *Checker) probePod(name string, s *shape, size int, pinned bool) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: probeNamespace, Name: name, Labels: map[string]string{
			groupLabel: probeGroup, sizeLabel: fmt.Sprint(size),
		}},
		Spec: corev1.PodSpec{
			SchedulerName:                 c.cfg.Scheduler,
			TerminationGracePeriodSeconds: new(int64(0)),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "probe", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: s.asks, Limits: s.asks},
			}},
		},
	}
	if pinned {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: s.nodes,
			}}}},
		}}}
	}
	return pod
}

// removeProbe removes the probe. What it cannot remove goes with the cluster.
func (c *Checker) removeProbe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	err := c.client.CoreV1().Pods(probeNamespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{})
	if err == nil {
		err = c.client.CoreV1().Namespaces().Delete(ctx, probeNamespace, metav1.DeleteOptions{})
	}
	if err != nil {
		fmt.Fprintf(c.cfg.Log, "remove the probe: %v\n", err)
	}
}
