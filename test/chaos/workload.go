package chaos

import (
	"fmt"
	"strings"
	"time"
)

// A Maker is the kind of object that creates a group's pods.
type Maker string

// These are the makers.
const (
	Job         Maker = "job"
	Pods        Maker = "pods" // bare pods, a group by label
	StatefulSet Maker = "statefulset"
	Deployment  Maker = "deployment"
	LonePod     Maker = "lone"
)

// namespaces is the number of namespaces. names is the number of names
// for each maker in a namespace. It is low, so that names are used again.
const (
	namespaces = 3
	names      = 60
)

// A Shape is the request of a pod.
type Shape struct {
	MilliCPU int
	MiB      int
	GPUs     int
}

// String returns the resources that are requested.
func (s Shape) String() string {
	text := fmt.Sprintf("%dm,%dMi", s.MilliCPU, s.MiB)
	if s.GPUs > 0 {
		text += fmt.Sprintf(",%dgpu", s.GPUs)
	}
	return text
}

// A Workload is a group to be created.
type Workload struct {
	Maker     Maker
	Namespace int
	Name      int
	// Workers is the number of members of the same shape.
	Workers int
	Worker  Shape
	// Leader is the shape of one more member. Only bare pods have one. Nil means none.
	Leader *Shape
	// Min is the minimum in a label. Zero means no label. The size is in a label
	// too, for a Deployment, and for bare pods without the user's own PodGroup.
	Min int
	// OwnPodGroup creates the PodGroup of bare pods, as a user might.
	OwnPodGroup bool
	// Policy is the match policy. Incomplete is the
	// policy for lost members. An empty one is left out.
	Policy, Incomplete string
	// Patience is the incomplete timeout. Zero means no annotation.
	Patience time.Duration
	Priority int32
	// RunFor is the time after which its pods end. Zero means never.
	RunFor time.Duration
	// Duration is the value of the pods' annotation duration. Deadline is the value of their field
	// activeDeadlineSeconds, and JobDeadline is the value of the Job's field. Zero means none.
	Duration, Deadline, JobDeadline time.Duration
	// Fails makes the pods fail after RunFor, otherwise they succeed.
	Fails bool
	// Queue is the queue in which a Job or a lone pod waits. An empty one is left out.
	Queue string
	// Zone is the zone that the pods must be in. -1 means any.
	Zone int
	// Stand is the constraints on where the members are placed.
	Stand Stand

	serial int // assigned on creation
}

// Size returns the number of pods.
func (w Workload) Size() int {
	if w.Leader != nil {
		return w.Workers + 1
	}
	return w.Workers
}

// String returns all fields that are not at their defaults.
func (w Workload) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s %dx%v", namespaceName(w.Namespace), w.name(w.Name), w.Workers, w.Worker)
	if w.Leader != nil {
		fmt.Fprintf(&b, " leader=%v", *w.Leader)
	}
	for _, f := range []struct {
		say   bool
		name  string
		value any
	}{
		{w.Min > 0, "min", w.Min},
		{w.OwnPodGroup, "own-podgroup", true},
		{w.isNative(), "native", true},
		{w.Policy != "", "policy", w.Policy},
		{w.Incomplete != "", "incomplete", w.Incomplete},
		{w.Patience > 0, "patience", w.Patience},
		{w.Priority != 0, "priority", w.Priority},
		{w.RunFor > 0, "run-for", w.RunFor},
		{w.Fails, "fails", true},
		{w.Duration > 0, "duration", w.Duration},
		{w.Deadline > 0, "deadline", w.Deadline},
		{w.JobDeadline > 0, "job-deadline", w.JobDeadline},
		{w.Queue != "", "queue", w.Queue},
		{w.Zone >= 0, "zone", w.Zone},
		{w.Stand != Stand{}, "stand", w.Stand},
	} {
		if f.say {
			fmt.Fprintf(&b, " %s=%v", f.name, f.value)
		}
	}
	return b.String()
}

// isNative reports whether the user's own PodGroup is of the API group scheduling.k8s.io. That follows
// from the name, so that the same dice are drawn as for other groups.
func (w Workload) isNative() bool { return w.OwnPodGroup && w.Name%3 == 1 }

func namespaceName(n int) string { return fmt.Sprintf("chaos-%d", n%namespaces) }

// name returns the name of the object, which is also the group of bare pods.
func (w Workload) name(n int) string { return fmt.Sprintf("%s-%02d", w.Maker, n%names) }

// drawCreate returns a function that draws a group of one maker.
func drawCreate(m Maker) func(*dice) Action {
	return func(d *dice) Action { return create{drawWorkload(d, m)} }
}

func drawWorkload(d *dice, m Maker) Workload {
	w := Workload{
		Maker:     m,
		Namespace: d.IntN(namespaces),
		Name:      d.IntN(names),
		Workers:   drawSize(d),
		Worker:    drawRequest(d),
		Zone:      -1,
	}
	if w.Workers >= 12 { // large groups request much, so that they need half of the cluster
		w.Worker = Shape{MilliCPU: oneOf(d, 500, 1000, 4000, 6000), MiB: 256}
	}
	if m == LonePod {
		w.Workers = 1
	}
	if m == Pods && d.chance(40) {
		w.Leader = &Shape{MilliCPU: oneOf(d, 2000, 3000, 4000), MiB: 1024}
		w.OwnPodGroup = d.chance(30)
	}
	if m == Pods && w.Name%3 == 1 {
		w.OwnPodGroup = true
	}
	if m != LonePod && w.Size() > 1 && d.chance(25) {
		w.Min = d.between(1, w.Size())
	}
	if m == Deployment && w.Min == 0 {
		w.Min = w.Workers
	}
	drawManners(d, &w)
	if d.chance(65) && (m == Job || m == Pods || m == LonePod) {
		w.RunFor = time.Duration(d.between(1, 150)) * 100 * time.Millisecond
		w.Fails = d.chance(5)
	}
	if w.Size() > 1 && d.stands.chance(standShare) {
		drawStand(d.stands, &w)
	}
	if d.cfg.Promises > 0 {
		drawEnds(d.ends, &w)
	}
	if d.cfg.Queues && (m == Job || m == LonePod) && d.queues.chance(queueShare) {
		drawQueue(d.queues, &w)
	}
	return w
}

// drawManners draws policy, priority and zone of a group.
func drawManners(d *dice, w *Workload) {
	if d.chance(20) {
		w.Policy = oneOf(d, "first", "low", "lonode", "high", "hinode", "lonodex", "never-heard-of")
	}
	if d.chance(20) {
		w.Incomplete = oneOf(d, "wait", "restart", "restart")
		w.Patience = time.Duration(d.between(1, 10)) * time.Second
	}
	if d.chance(20) {
		w.Priority = oneOf[int32](d, -10, 10, 100)
	}
	if d.cfg.Preemption && w.Priority == 0 {
		// That follows from the name, so that the same dice are drawn as without preemption.
		w.Priority = []int32{0, -10, 10, 100}[w.Name/3%4]
	}
	if d.chance(5) {
		w.Zone = d.IntN(zones)
	}
}

// drawSize draws a size from 1 to 16, and rarely half the number of nodes.
func drawSize(d *dice) int {
	switch n := d.IntN(100); {
	case n < 25:
		return 1
	case n < 75:
		return d.between(2, 4)
	case n < 93:
		return d.between(5, 8)
	case n < 98:
		return d.between(9, 16)
	default:
		return max(2, d.cfg.Nodes/2)
	}
}

// drawRequest draws the request of a pod. One in fifty never fits.
func drawRequest(d *dice) Shape {
	s := Shape{
		MilliCPU: oneOf(d, 100, 250, 500, 500, 1000, 1000, 1500, 2000, 3000, 4000, 7000),
		MiB:      oneOf(d, 64, 128, 512, 1024, 4096),
	}
	switch n := d.IntN(100); {
	case n < 2:
		s.MilliCPU = 64000
	case n < 8:
		s.GPUs = oneOf(d, 1, 1, 2, 4)
	}
	return s
}
