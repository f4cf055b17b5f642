package fluence

import (
	"sync"

	"github.com/flux-k8s/fluence/pkg/report"
)

// lastMessages has the last message about each object, to suppress repetitions.
// Messages that differ only in numbers count as equal. The zero value is ready for use.
type lastMessages[K comparable] struct {
	mu   sync.Mutex
	last map[K]string
}

// update stores a message and reports whether it differs from the last one about the object.
func (w *lastMessages[K]) update(key K, text string) bool {
	text = report.StableText(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last[key] == text {
		return false
	}
	if w.last == nil {
		w.last = map[K]string{}
	}
	w.last[key] = text
	return true
}

// forget drops the last message about an object, such as a pod that is gone or has a node.
func (w *lastMessages[K]) forget(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, key)
}
