package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Beside is a pod that waits beside the one that asks for its group.
type Beside struct {
	Key types.NamespacedName
	Pod *corev1.Pod
	// Reason and Message say why the group waits.
	Reason, Message string
}

// Besides lists them, of groups that have not started and cannot ask now.
func (g *Groups) Besides(now time.Time) []Beside {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Beside
	for _, s := range g.unseated {
		if s.started {
			continue
		}
		why, msg := g.incomplete(s)
		if why == "" && s.refusal.standsAt(now) {
			why, msg = s.refusal.Reason, s.refusal.Message
		}
		if why == "" {
			continue
		}
		asks := s.choose()
		for uid, m := range s.members {
			if uid != asks && m.waits() && m.seat == nil {
				all = append(all, Beside{Key: s.key, Pod: m.pod, Reason: why, Message: msg})
			}
		}
	}
	return all
}
