package fluence

import (
	"sync"

	"github.com/flux-k8s/fluence/pkg/report"
)

// lastMessages has the last message about each object, to suppress repetitions.
// Messages that differ only in numbers count as equal. The zero value is ready for use.
type lastMessages[K comparable] struct {
	mu   sync.Mutex
	last map[K]lastMessage
}

// A lastMessage is a message and what it is compared by.
type lastMessage struct{ text, stable string }

// update stores a message and reports whether it differs from the last one about the object.
func (w *lastMessages[K]) update(key K, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.last[key]
	if known && before.text == text {
		return false // as mostly
	}
	if w.last == nil {
		w.last = map[K]lastMessage{}
	}
	now := lastMessage{text: text, stable: report.StableText(text)}
	w.last[key] = now
	return before.stable != now.stable
}

// forget drops the last message about an object, such as a pod that is gone or has a node.
func (w *lastMessages[K]) forget(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, key)
}
