package admission

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A counted is an engine that counts the questions of jobs.
type counted struct {
	match.Engine
	matches int
}

// Match implements match.Matcher.
func (c *counted) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	c.matches++
	return c.Engine.Match(ctx, r)
}

// counts makes a rig count the questions of its jobs.
func (r *rig) counts() *counted {
	c := &counted{Engine: r.engine}
	r.engine = c
	queues := r.d.loop.queues.list()
	r.build()
	for _, q := range queues {
		r.putQueue(q)
	}
	r.reload()
	return c
}

func TestRefusalsOfLargerRequestsFollowFromThoseOfSmallerOnes(t *testing.T) {
	const classes = 40
	r := newRig(t, 50, easy("batch"))
	asked := r.counts()
	r.submit("all", "batch", 49, 4, "1h")
	blocker := r.submit("blocker", "batch", 1, 3, "2h")
	r.step()
	r.release(blocker)
	r.submit("first", "batch", 50, 4, "1h") // it is promised all nodes in two hours
	for i := range classes {
		r.submit(fmt.Sprint("large", i), "batch", int32(i+3), int64(i%3+2), "3h")
	}
	r.step()
	asked.matches = 0
	r.d.RoomFreed()
	r.step()
	if asked.matches >= classes {
		t.Errorf("%d questions were asked for %d classes that are all refused as the smallest one is", asked.matches, classes)
	}
	// One that asks for less, or for a shorter time, asks itself.
	small := r.submit("small", "batch", 1, 1, "1h")
	r.step()
	if got := r.job(small); got.Status.Allocation == nil {
		t.Errorf("job small has no room: %s", r.message(small))
	}
}

func TestAJobThatNeverFitsSaysSoAmongRefusals(t *testing.T) {
	r := newRig(t, 3, easy("batch"))
	runs := r.submit("runs", "batch", 3, 3, "1h")
	r.step()
	r.release(runs)
	r.submit("first", "batch", 3, 3, "1h")
	r.submit("small", "batch", 2, 2, "9h")
	large := r.submit("large", "batch", 3, 4, "10h")
	r.step()
	never := r.submit("never", "batch", 4, 4, "10h")
	r.d.RoomFreed() // all ask, the small one first
	r.step()
	shown := func() []string {
		var reasons []string
		for _, key := range []string{large.Name, never.Name} {
			for _, c := range r.api.objects[keyOf(ns, key)].Status.Conditions {
				if c.Type == v1alpha1.ConditionAdmitted {
					reasons = append(reasons, c.Reason)
				}
			}
		}
		return reasons
	}
	if got := shown(); !slices.Equal(got, []string{v1alpha1.ReasonNoRoom, v1alpha1.ReasonNeverFits}) {
		t.Errorf("jobs large and never say %v", got)
	}
	// With fewer cores on a node the large one never fits either.
	r.changeNode("n3", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = *quantity("3") })
	r.after(time.Minute)
	if got := shown(); !slices.Equal(got, []string{v1alpha1.ReasonNeverFits, v1alpha1.ReasonNeverFits}) {
		t.Errorf("after a node became smaller jobs large and never say %v", got)
	}
}

// onePodANode lets a job have one pod on a node.
func onePodANode(fj *v1alpha1.FluxJob) {
	spec, err := jobspec.Parse([]byte(fj.Spec.Jobspec))
	if err != nil {
		panic(err)
	}
	label := spec.Resources[0].Label
	spec.Attributes.System.Fluence = map[string]jobspec.SlotAttributes{label: {Limits: []jobspec.Limit{{Name: "pods-per-node", Level: "node", Most: 1}}}}
	text, err := spec.EncodeYAML()
	if err != nil {
		panic(err)
	}
	fj.Spec.Jobspec = string(text)
}

// Two pods that may not be on one node do not fit where two others do.
func TestTheRefusalOfAJobWithLimitsSaysNothingOfOthers(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	short := r.submit("short", "batch", 1, 4, "10h")
	long := r.submit("long", "batch", 1, 4, "10h")
	r.step()
	r.release(short, long)
	r.submit("head", "batch", 2, 4, "10h")
	r.submit("apart", "batch", 2, 1, "1h", onePodANode)
	together := r.submit("together", "batch", 2, 1, "1h")
	r.step()
	r.finish(short)
	if r.job(together).Status.Allocation == nil {
		t.Errorf("the job has no nodes although one is free for it: %q", r.message(together))
	}
}
