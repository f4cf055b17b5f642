package fluence

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// A podKey is a pod that is to be told something.
type podKey struct {
	namespace string
	uid       types.UID
}

// turns is a queue of pods in which namespaces take turns: who has many pods to be told holds up
// nobody else's. Within a namespace those that are urgent come first. It is a workqueue.Queue, which
// is called under a lock; hurry alone may be called at any time.
type turns struct {
	lines map[string]*line
	// order are the namespaces that have a pod here, the next one first.
	order []string
	count int

	mu     sync.Mutex
	urgent map[podKey]bool
}

// A line is the pods of one namespace. A pod may stand in it twice, and is taken once.
type line struct {
	first, rest []types.UID
	// waits are those that are to be taken, and whether they stand in first.
	waits map[types.UID]bool
}

func newTurns() *turns { return &turns{lines: map[string]*line{}, urgent: map[podKey]bool{}} }

// hurry has a pod be urgent until it is taken. It is to be added after that.
func (t *turns) hurry(k podKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.urgent[k] = true
}

func (t *turns) isUrgent(k podKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.urgent[k]
}

// Push implements workqueue.Queue.
func (t *turns) Push(k podKey) {
	l := t.lines[k.namespace]
	if l == nil {
		l = &line{waits: map[types.UID]bool{}}
		t.lines[k.namespace], t.order = l, append(t.order, k.namespace)
	}
	t.count++
	l.put(k.uid, t.isUrgent(k))
}

// Touch implements workqueue.Queue.
func (t *turns) Touch(k podKey) {
	l := t.lines[k.namespace]
	if l == nil {
		return
	}
	if first, waits := l.waits[k.uid]; waits && !first && t.isUrgent(k) {
		l.put(k.uid, true)
	}
}

// Len implements workqueue.Queue.
func (t *turns) Len() int { return t.count }

// Pop implements workqueue.Queue. It is called where there is a pod.
func (t *turns) Pop() podKey {
	namespace := t.order[0]
	t.order = t.order[1:]
	l := t.lines[namespace]
	k := podKey{namespace, l.take()}
	t.count--
	if len(l.waits) == 0 {
		delete(t.lines, namespace)
	} else {
		t.order = append(t.order, namespace)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.urgent, k)
	return k
}

func (l *line) put(uid types.UID, urgent bool) {
	l.waits[uid] = urgent
	if urgent {
		l.first = append(l.first, uid)
	} else {
		l.rest = append(l.rest, uid)
	}
}

// take takes the next pod, of which there is one.
func (l *line) take() types.UID {
	for {
		of := &l.first
		if len(l.first) == 0 {
			of = &l.rest
		}
		uid := (*of)[0]
		*of = (*of)[1:]
		if _, waits := l.waits[uid]; waits {
			delete(l.waits, uid)
			return uid
		}
	}
}
