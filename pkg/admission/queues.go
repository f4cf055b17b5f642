package admission

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/fsd"
	"github.com/flux-k8s/fluence/pkg/queue"
)

// A partition is the nodes of a queue. Queues with the same one have the same nodes.
type partition struct {
	// name is the selector as text, empty for all nodes.
	name string
	// selector is nil for all nodes.
	selector labels.Selector
}

// A jobQueue is a Queue as it counts.
type jobQueue struct {
	// object must not be changed.
	object    *v1alpha1.Queue
	partition partition
	// namespaces selects the namespaces whose jobs may use the queue.
	namespaces labels.Selector
	// duration is the default time limit of a job, 0 for none. maxDuration is the longest, 0 for none.
	duration, maxDuration time.Duration
	grace                 time.Duration
	// reason and message say why no job of the queue may start. They are empty if jobs may.
	reason, message string
	// defaultTaken says which namespaces an older queue is the default of, although spec.defaultFor selects them. It is empty if
	// there are none.
	defaultTaken string
}

// readQueue reads a Queue.
func readQueue(of *v1alpha1.Queue) *jobQueue {
	q := &jobQueue{object: of, namespaces: labels.Nothing(), grace: of.GracePeriod()}
	spec := &of.Spec
	wrong := func(err error) {
		if err != nil && q.reason == "" {
			q.reason, q.message = v1alpha1.ReasonInvalidSpec, err.Error()
		}
	}
	if spec.Requires != nil {
		s, err := selectorOf("spec.requires", spec.Requires)
		wrong(err)
		if err == nil && !s.Empty() {
			q.partition = partition{s.String(), s}
		}
	}
	if spec.NamespaceSelector != nil {
		s, err := selectorOf("spec.namespaceSelector", spec.NamespaceSelector)
		wrong(err)
		q.namespaces = s
	}
	var err error
	q.duration, err = fsd.ParseLimit("spec.defaults.duration", spec.Defaults.Duration)
	wrong(err)
	q.maxDuration, err = of.LongestDuration()
	wrong(err)
	if q.maxDuration > 0 && q.duration > q.maxDuration {
		wrong(fmt.Errorf("spec.defaults.duration: %q: is longer than spec.limits.duration, %q", spec.Defaults.Duration, spec.Limits.Duration))
	}
	if q.reason != "" {
		return q
	}
	if most := spec.Limits.Running; most != nil && *most == 0 {
		q.reason, q.message = v1alpha1.ReasonNoneMayRun, "spec.limits.running is 0"
	} else if most := spec.Limits.PerNamespace.Running; most != nil && *most == 0 {
		q.reason, q.message = v1alpha1.ReasonNoneMayRun, "spec.limits.perNamespace.running is 0"
	} else if spec.NamespaceSelector == nil {
		q.reason, q.message = v1alpha1.ReasonNoneMayRun, "spec.namespaceSelector is not set: no namespace may use the queue ({} selects all)"
	}
	return q
}

// selectorOf reads a selector. One that is wrong selects nothing. The error names the field.
func selectorOf(field string, of *metav1.LabelSelector) (labels.Selector, error) {
	s, err := metav1.LabelSelectorAsSelector(of)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("%s: %w", field, err)
	}
	return s, nil
}

// core returns the queue as package queue takes it.
func (q *jobQueue) core() queue.Queue {
	spec := &q.object.Spec
	l := &spec.Limits
	return queue.Queue{
		Name: q.object.Name, Policy: queue.Policy(spec.Policy), Priority: spec.Priority,
		Started:   q.reason == "" && ptr.Deref(spec.Started, true),
		Partition: q.partition.name,
		Limits: queue.Limits{
			Running: limitOf(l.Running), NamespaceRunning: limitOf(l.PerNamespace.Running), Requests: sumOf(l.Requests, 1),
		},
	}
}

// limitOf returns a limit as package queue takes it, where 0 is none.
func limitOf(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// isEnabled reports whether the queue takes new jobs.
func (q *jobQueue) isEnabled() bool { return ptr.Deref(q.object.Spec.Enabled, true) }

// byAge returns queues, the oldest first.
func byAge(queues map[string]*jobQueue) []*jobQueue {
	return slices.SortedFunc(maps.Values(queues), func(a, b *jobQueue) int { return v1alpha1.CompareAge(a.object, b.object) })
}

// checkPartitions sets which queues have no nodes, and which share some nodes with an older queue and not all. It returns
// the queues of which that has changed.
func checkPartitions(queues map[string]*jobQueue, f *fleet) (changed []string) {
	older := byAge(queues)
	type owner struct{ partition, queue string }
	owners := map[string]owner{} // of each node
	verdicts := map[string]struct{ reason, message string }{}
	for _, q := range older {
		if q.reason == v1alpha1.ReasonInvalidSpec || q.reason == v1alpha1.ReasonNoneMayRun {
			continue
		}
		v, known := verdicts[q.partition.name]
		if !known {
			nodes := f.set(&q.partition, &anyNode).verdicts
			n := 0
			for name, is := range nodes {
				if is == never {
					continue
				}
				n++
				if o, has := owners[name]; has && o.partition != q.partition.name && v.reason == "" {
					v.reason, v.message = v1alpha1.ReasonNodesOverlap, fmt.Sprintf("spec.requires: node %s belongs to Queue %s too, which has other nodes besides: the nodes of two queues must be the same or have none in common", name, o.queue)
				}
			}
			if n == 0 && q.partition.selector != nil {
				v.reason, v.message = v1alpha1.ReasonNoNodes, fmt.Sprintf("spec.requires: no node has the labels %s", q.partition.name)
			}
			if v.reason == "" {
				for name, is := range nodes {
					if is != never {
						owners[name] = owner{q.partition.name, q.object.Name}
					}
				}
			}
			verdicts[q.partition.name] = v
		}
		if q.reason != v.reason || q.message != v.message && q.reason != v1alpha1.ReasonNodesOverlap {
			changed = append(changed, q.object.Name)
			q.reason, q.message = v.reason, v.message
		}
	}
	return changed
}

// anyNode are rules that allow all nodes, whatever their taints.
var anyNode = nodeRules{tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
