package fluence

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/translate"
)

// maxShared bounds the amounts that sharedRequests knows, because users choose them.
const maxShared = 4096

// sharedRequests returns a function that returns the requests of a pod. Pods with
// equal requests share one map, because the caller keeps it for each pod.
func sharedRequests() func(*corev1.Pod) map[string]int64 {
	var mu sync.Mutex
	known := map[translate.AmountsKey]translate.Amounts{}
	return func(pod *corev1.Pod) map[string]int64 {
		amounts := translate.Requests(pod)
		key := amounts.Key()
		mu.Lock()
		defer mu.Unlock()
		if same, ok := known[key]; ok {
			return same
		}
		if len(known) >= maxShared {
			clear(known)
		}
		known[key] = amounts
		return amounts
	}
}
