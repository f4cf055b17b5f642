package admission

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// happened is what has happened since the loop last looked, besides changes of jobs.
type happened struct {
	mu sync.Mutex
	news
	// asking are the nodes where room has become free for which jobs are about to ask.
	asking map[string]struct{}
	// wake wakes the loop.
	wake chan<- struct{}
}

// news are what has happened.
type news struct {
	// nodes came, went, or have other labels or taints. freed are nodes where room has become free.
	nodes, freed map[string]struct{}
	// anywhere is set if room has become free, and it is not known where.
	anywhere bool
	// grown is set if the matcher's graph has more than before: nodes, or room that does not become free by itself.
	grown bool
	// loaded is set if the matcher's graph was loaded.
	loaded bool
	// queues is set if any of them has changed. namespaces have come or gone, or have other labels.
	queues     bool
	namespaces map[string]struct{}
	refusals   []refusal
	// overlapped are jobs on whose promised nodes others may have taken the room, with the reason in words fit for a user.
	overlapped map[types.NamespacedName]string
}

// A refusal says that filters have refused nodes.
type refusal struct {
	class string
	nodes []string
}

func newHappened(wake chan<- struct{}) *happened {
	h := &happened{wake: wake, asking: map[string]struct{}{}}
	h.clear()
	return h
}

func (h *happened) clear() {
	h.news = news{nodes: map[string]struct{}{}, freed: map[string]struct{}{}, namespaces: map[string]struct{}{}, overlapped: map[types.NamespacedName]string{}}
}

// add records news.
func (h *happened) add(f func(e *news)) {
	h.mu.Lock()
	f(&h.news)
	h.mu.Unlock()
	signal.Send(h.wake)
}

// take returns the news, and forgets them.
func (h *happened) take() news {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.news
	maps.Copy(h.asking, e.freed)
	h.clear()
	return e
}

// names returns the names of a set, in order.
func names(set map[string]struct{}) []string { return slices.Sorted(maps.Keys(set)) }

// queueStore are all Queues (cache.ReflectorStore).
type queueStore struct {
	mu       sync.Mutex
	byName   map[string]*v1alpha1.Queue
	happened *happened
}

// Add implements cache.ReflectorStore.
func (s *queueStore) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *queueStore) Update(obj any) error {
	q, ok := obj.(*v1alpha1.Queue)
	if !ok {
		return nil
	}
	s.mu.Lock()
	s.byName[q.Name] = q
	s.mu.Unlock()
	s.happened.add(func(e *news) { e.queues = true })
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *queueStore) Delete(obj any) error {
	q, ok := obj.(*v1alpha1.Queue)
	if !ok {
		return nil
	}
	s.mu.Lock()
	delete(s.byName, q.Name)
	s.mu.Unlock()
	s.happened.add(func(e *news) { e.queues = true })
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *queueStore) Replace(all []any, _ string) error {
	s.mu.Lock()
	clear(s.byName)
	for _, obj := range all {
		if q, ok := obj.(*v1alpha1.Queue); ok {
			s.byName[q.Name] = q
		}
	}
	s.mu.Unlock()
	s.happened.add(func(e *news) { e.queues = true })
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *queueStore) Resync() error { return nil }

// list returns all Queues by name. They must not be changed.
func (s *queueStore) list() map[string]*v1alpha1.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byName)
}

// nodesOf returns the selector of the nodes of a Queue. It is nil for all nodes, and if there is no such Queue any more.
func (s *queueStore) nodesOf(name string) labels.Selector {
	s.mu.Lock()
	q := s.byName[name]
	s.mu.Unlock()
	if q == nil || q.Spec.Requires == nil {
		return nil
	}
	selector, _ := selectorOf("spec.requires", q.Spec.Requires) // the condition Ready of the Queue tells of an error
	return selector
}

// keyOf returns the key of an object's name in a namespace.
func keyOf(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
