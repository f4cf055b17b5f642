package admission

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/trials"
)

// A chance is a rig to which random things happen.
type chance struct {
	*rig
	rng  *rand.Rand
	jobs []types.NamespacedName
	// podsOf are the pods that have nodes, in the matcher, by job.
	podsOf map[types.NamespacedName]match.JobID
}

func TestRandomStories(t *testing.T) {
	for seed := range trials.Seeds(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			limit := int32(3)
			r := newRig(t, 4, easy("batch"), fcfs("small", func(q *v1alpha1.Queue) { q.Spec.Limits.Running = &limit }))
			c := &chance{rig: r, rng: rand.New(rand.NewPCG(seed, 7)), podsOf: map[types.NamespacedName]match.JobID{}}
			for range 60 {
				c.happens()
				c.now = c.now.Add(time.Duration(c.rng.IntN(3)) * time.Minute)
				c.step()
				c.check()
			}
		})
	}
}

// some returns a random job of which something is so.
func (c *chance) some(is func(*v1alpha1.FluxJob) bool) (types.NamespacedName, bool) {
	var all []types.NamespacedName
	for _, key := range c.jobs {
		if fj := c.api.objects[key]; fj != nil && is(fj) {
			all = append(all, key)
		}
	}
	if len(all) == 0 {
		return types.NamespacedName{}, false
	}
	return all[c.rng.IntN(len(all))], true
}

func hasRoom(fj *v1alpha1.FluxJob) bool {
	return fj.Status.Allocation != nil && fj.Status.Phase != v1alpha1.Finished
}

// happens makes one random thing happen.
func (c *chance) happens() {
	c.Helper()
	node := fmt.Sprint("n", 1+c.rng.IntN(4))
	switch c.rng.IntN(14) {
	case 0, 1, 2, 3:
		name := fmt.Sprintf("j%02d", len(c.jobs))
		duration := []string{"", "5m", "20m", "1h"}[c.rng.IntN(4)]
		queue := []string{"batch", "batch", "small"}[c.rng.IntN(3)]
		c.jobs = append(c.jobs, c.submit(name, queue, int32(1+c.rng.IntN(5)), int64(1+c.rng.IntN(4)), duration, func(fj *v1alpha1.FluxJob) { fj.Spec.Priority = int32(c.rng.IntN(2)) }))
	case 4, 5:
		if key, ok := c.some(func(fj *v1alpha1.FluxJob) bool { return fj.Status.Phase == v1alpha1.Ready }); ok {
			c.release(key)
		}
	case 6, 7:
		if key, ok := c.some(func(fj *v1alpha1.FluxJob) bool { return hasRoom(fj) && fj.Status.Phase == v1alpha1.Running }); ok {
			c.come(key)
		}
	case 8, 9:
		if key, ok := c.some(hasRoom); ok {
			c.end(key)
			c.finish(key)
		}
	case 10:
		c.changeNode(node, func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
	case 11:
		if key, ok := c.some(func(fj *v1alpha1.FluxJob) bool { return hasRoom(fj) && fj.Status.Phase == v1alpha1.Running }); ok {
			c.d.Refused(key, []string{node}, "no")
		}
	case 12:
		if key, ok := c.some(hasRoom); ok {
			for c.d.Preempt(c.Context(), key, "evicted") != nil {
				continue // as the plugin does
			}
			c.end(key)
		}
	case 13:
		switch c.rng.IntN(4) {
		case 0: // another scheduler
			c.build()
			for _, q := range []*v1alpha1.Queue{easy("batch"), fcfs("small", func(q *v1alpha1.Queue) { q.Spec.Limits.Running = new(int32(3)) })} {
				c.putQueue(q)
			}
			c.reload()
			c.bookPods()
		case 1: // another engine
			c.reload()
			c.bookPods()
		case 2: // a write fails
			c.api.fail = func(*applied) error { c.api.fail = nil; return errors.New("timeout") }
		default: // or its answer is lost
			c.api.lost = func(*applied) error { c.api.lost = nil; return errors.New("timeout") }
		}
	}
}

// come gives a pod of a job a node, as the plugin does.
func (c *chance) come(key types.NamespacedName) {
	c.Helper()
	room, ok := c.d.Allocation(key)
	if !ok || len(room.Slots) == 0 {
		return
	}
	slot := room.Slots[0]
	c.placed[key] = append(c.placed[key], slot.Node)
	c.podsOf[key] = match.NewJobID("pods", string(c.job(key).UID))
	c.must(c.engine.Release(c.Context(), c.epoch, room.Job, slot.Key))
	c.bookPods()
	c.d.TakenOver(key, []string{slot.Key})
}

// bookPods books the pods that have nodes.
func (c *chance) bookPods() {
	c.Helper()
	for key, id := range c.podsOf {
		fj := c.api.objects[key]
		amounts := translate.Amounts{translate.TypeCore: 1000 * fj.Spec.Requests.Cpu().Value(), translate.TypePods: 1}
		set := amounts.Set()
		job := match.Job{ID: id}
		for i, node := range c.placed[key] {
			job.Slots = append(job.Slots, match.Slot{Key: fmt.Sprint("pod", i), Node: node, R: set})
		}
		if len(job.Slots) > 0 {
			c.must(c.engine.Update(c.Context(), c.epoch, job))
		}
	}
}

// end ends the pods of a job.
func (c *chance) end(key types.NamespacedName) {
	c.Helper()
	if id := c.podsOf[key]; id != 0 {
		c.must(c.engine.Release(c.Context(), c.epoch, id))
		c.d.RoomFreed()
	}
	delete(c.podsOf, key)
	delete(c.placed, key)
	c.d.Recheck(key)
}

// check checks what must always hold.
func (c *chance) check() {
	c.Helper()
	all, err := c.engine.Jobs(c.Context(), c.epoch)
	c.must(err)
	pods := map[match.JobID]bool{}
	for _, id := range c.podsOf {
		pods[id] = true
	}
	c.agrees(slices.DeleteFunc(all, func(j match.Job) bool { return pods[j.ID] }))
	// No node has more than it can hold.
	held := map[string]int64{}
	running := 0
	for key, fj := range c.api.objects {
		if !hasRoom(fj) {
			continue
		}
		if fj.Spec.Queue == "small" {
			running++
		}
		nodes, err := fj.Status.Allocation.Nodes()
		c.must(err)
		q := fj.Spec.Requests.Cpu()
		for _, node := range nodes {
			held[node] += q.Value()
		}
		if n := int32(len(nodes)); n > fj.Spec.Pods || n < fj.Spec.Pods && len(c.placed[key]) == 0 {
			c.Errorf("job %s of %d pods has room for %d", key.Name, fj.Spec.Pods, n)
		}
	}
	for node, n := range held {
		if n > 4 {
			c.Errorf("jobs have %d of 4 cores of node %s", n, node)
		}
	}
	if running > 3 {
		c.Errorf("%d jobs of queue small run, and 3 may", running)
	}
	for key, fj := range c.api.objects {
		if fj.Status.Promise != nil && (hasRoom(fj) || fj.Status.Phase == v1alpha1.Running) {
			c.Errorf("job %s has room, and is promised some: %+v", key.Name, fj.Status)
		}
	}
}
