package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A podGroupRecord is what was seen of a PodGroup.
type podGroupRecord struct {
	owned, there bool
	// running and placed are when the phase and the condition were first seen.
	running, placed time.Time
	// refusals are the reasons for which it was refused so far.
	refusals sets.Set[string]
	// placedAs is the first message of the condition.
	placedAs string
	// again reports whether it was created again after it had gone.
	again bool
	// states are its states, with the time since the burst began.
	states []string
}

func (w *burstWatch) podGroupSeen(t *testing.T, u *unstructured.Unstructured) {
	var pg scheduling.PodGroup
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pg); err != nil {
		t.Errorf("read PodGroup %s: %v", u.GetName(), err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.podGroups[pg.Name]
	if r == nil {
		r = &podGroupRecord{refusals: sets.New[string]()}
		w.podGroups[pg.Name] = r
	}
	r.again = r.again || !r.there && len(r.states) > 0
	r.there, r.owned = true, r.owned || len(pg.OwnerReferences) > 0
	r.states = append(r.states, fmt.Sprintf("%.3fs: minMember %d, phase %q, scheduled %d, running %d, conditions %s",
		time.Since(w.start).Seconds(), pg.Spec.MinMember, pg.Status.Phase, pg.Status.Scheduled, pg.Status.Running, conditionsOf(&pg)))
	if pg.Status.Phase == scheduling.PodGroupRunning && r.running.IsZero() {
		r.running = time.Now()
	}
	c := meta.FindStatusCondition(pg.Status.Conditions, "Scheduled")
	switch {
	case c == nil:
	case c.Status == "True":
		if r.placed.IsZero() {
			r.placed = time.Now()
		}
		// Pods beyond the minimum are reported as they follow.
		if g := w.groupOf(pg.Name); r.placedAs == "" {
			r.placedAs = c.Message
		} else if g != nil && g.minimum() < g.size && c.Message != r.placedAs {
			r.refusals.Insert("members beyond the minimum")
		}
	case c.Status == "False":
		r.refusals.Insert(c.Reason)
		// The scheduler must not report that a group has started in part.
		if g := w.groupOf(pg.Name); g != nil && g.partlyPlaced() && strings.Contains(c.Message, "pods have nodes") {
			w.inPart = append(w.inPart, pg.Name+": "+c.Message)
		}
	}
}

// conditionsOf returns the conditions in one line.
func conditionsOf(pg *scheduling.PodGroup) string {
	var all []string
	for _, c := range pg.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, ", ")
}

// groupOf returns the record of a PodGroup's group, by the PodGroup's
// name: the group's name for bare pods, otherwise KIND-NAME-HASH.
func (w *burstWatch) groupOf(podGroup string) *burstRecord {
	for part := range strings.SplitSeq(podGroup, "-") {
		if r := w.records[part]; r != nil {
			return r
		}
	}
	return nil
}

func (w *burstWatch) podGroupGone(obj any) {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.podGroups[name.Name].there = false
}

// podGroupsLeft returns the PodGroups that exist, separately with and without owners.
func (w *burstWatch) podGroupsLeft() (owned, bare []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, r := range w.podGroups {
		switch {
		case !r.there:
		case r.owned:
			owned = append(owned, name)
		default:
			bare = append(bare, name)
		}
	}
	return owned, bare
}
