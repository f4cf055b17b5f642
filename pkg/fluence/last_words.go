package fluence

import (
	"sync"

	"github.com/flux-k8s/fluence/pkg/report"
)

// lastWords are what was said last of something, such as to a pod, by UID. The zero value
// is ready for use.
type lastWords[K comparable] struct {
	mu   sync.Mutex
	last map[K]string
}

// isNews says whether something is said that was not said last.
func (w *lastWords[K]) isNews(of K, text string) bool {
	text = report.Gist(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last[of] == text {
		return false
	}
	if w.last == nil {
		w.last = map[K]string{}
	}
	w.last[of] = text
	return true
}

// forget drops what was said of something, such as a pod that is gone or has a node.
func (w *lastWords[K]) forget(of K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, of)
}
