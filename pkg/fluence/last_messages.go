package fluence

import (
	"sync"

	"github.com/flux-k8s/fluence/pkg/report"
)

// lastMessages are what was said last of something, such as to a pod, by UID. The zero value
// is ready for use.
type lastMessages[K comparable] struct {
	mu   sync.Mutex
	last map[K]string
}

// update says whether something is said that was not said last.
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

// forget drops what was said of something, such as a pod that is gone or has a node.
func (w *lastMessages[K]) forget(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, key)
}
