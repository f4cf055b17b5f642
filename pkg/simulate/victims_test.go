package simulate

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/preemption"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// A victim is drawn as one line.
func (v Victim) line() string {
	text := fmt.Sprintf("%s %s/%s of %d %s", v.Kind, v.Namespace, v.Name, v.Priority, v.How)
	if v.Owner != "" {
		text += " by " + v.Owner
	}
	if v.ComesBack {
		text += " comes back"
	}
	if v.Protected > 0 {
		text += fmt.Sprintf(" protected %d", v.Protected)
	}
	for _, p := range v.Pods {
		text += fmt.Sprintf(" %s@%s", p.Pod, p.Node)
	}
	return text
}

// gangOn returns a group of pods of 4 CPUs, and its PodGroup. Each pod is on the node of its name, or on none if there
// are fewer names.
func gangOn(name string, priority int32, size int, nodes ...string) Cluster {
	c := Cluster{PodGroups: []scheduling.PodGroup{podGroup(name, int32(size))}}
	for i := range size {
		pod := objects.Pod(fmt.Sprintf("%s-%d", name, i), objects.InGroup(name), objects.CPU("4"))
		pod.Spec.Priority = &priority
		if i < len(nodes) {
			objects.CreatedOn(nodes[i])(pod)
			pod.Status.Phase = corev1.PodRunning
		}
		c.Objects = append(c.Objects, pod)
	}
	return c
}

// edited returns a cluster with a change to each pod.
func (c Cluster) edited(edit func(*corev1.Pod)) Cluster {
	for _, o := range c.Objects {
		if pod, ok := o.(*corev1.Pod); ok {
			edit(pod)
		}
	}
	return c
}

// ownedBy returns a cluster with an object that controls each pod.
func (c Cluster) ownedBy(apiGroup, kind string, o metav1.Object) Cluster {
	o.SetNamespace(objects.Namespace)
	o.SetUID(types.UID(o.GetName()))
	c.edited(objects.OwnedBy(group.Owner{Group: apiGroup, Kind: kind, Name: o.GetName(), UID: o.GetUID()}))
	c.Objects = append(c.Objects, o.(runtime.Object))
	return c
}

func lowJob(labels map[string]string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "work", Labels: labels}}
}

// withJobSet is a cluster with a JobSet.
func withJobSet(labels map[string]string) Cluster {
	return Cluster{Owners: []metav1.PartialObjectMetadata{{
		TypeMeta:   metav1.TypeMeta{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: objects.Namespace, Name: "set", UID: "u-set", Labels: labels},
	}}}
}

// inJobSet returns a Job as one of this JobSet.
func inJobSet(job *batchv1.Job) *batchv1.Job {
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "set", UID: "u-set", Controller: new(true)}}
	return job
}

// kept is a namespace whose pods stay.
func kept() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: objects.Namespace, Annotations: map[string]string{group.EvictAnnotation: group.EvictNever}}}
}

// budget protects the pods with a label.
func budget(key, value string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: objects.Namespace, Name: "budget"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}},
	}
}

func TestADecisionNamesWhoWouldBeEvicted(t *testing.T) {
	never := corev1.PreemptNever
	low := func() Cluster { return gangOn("low", 0, 2, "n0", "n1") }
	with := func(c Cluster, more ...runtime.Object) Cluster { return c.With(Cluster{Objects: more}) }
	delayed := gangOn("g", 10, 2)
	delayed.PodGroups[0].Annotations = map[string]string{group.PreemptionDelayAnnotation: "5m"}
	const wouldStart = "waits without g-0,g-1: Preempting: would start after the eviction of "
	cases := map[string]struct {
		there, ask Cluster
		// want is the begin of the decision, and has what it contains.
		want, has string
		evicts    []string
	}{
		"a Job that is suspended": {
			there: low().ownedBy("batch", "Job", lowJob(nil)), want: wouldStart + "1 group with 2 pods",
			evicts: []string{"PodGroup ns/low of 0 suspended by Job/work comes back low-0@n0 low-1@n1"},
		},
		"a JobSet that is suspended": {
			there: low().ownedBy("batch", "Job", inJobSet(lowJob(nil))).With(withJobSet(nil)), want: wouldStart,
			evicts: []string{"PodGroup ns/low of 0 suspended by JobSet/set comes back low-0@n0 low-1@n1"},
		},
		"a JobSet that Kueue manages": {
			there: low().ownedBy("batch", "Job", inJobSet(lowJob(nil))).With(withJobSet(map[string]string{preemption.QueueLabel: "q"})), want: wouldStart,
			evicts: []string{"PodGroup ns/low of 0 deleted low-0@n0 low-1@n1"},
		},
		"a Job of a JobSet that is not known": {
			there: low().ownedBy("batch", "Job", inJobSet(lowJob(nil))), want: wouldStart,
			evicts: []string{"PodGroup ns/low of 0 deleted low-0@n0 low-1@n1"},
		},
		"a Job that Kueue manages": {
			there: low().ownedBy("batch", "Job", lowJob(map[string]string{preemption.QueueLabel: "q"})), want: wouldStart,
			evicts: []string{"PodGroup ns/low of 0 deleted low-0@n0 low-1@n1"},
		},
		"a StatefulSet": {
			there: low().ownedBy("apps", "StatefulSet", &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}}), want: wouldStart,
			evicts: []string{"PodGroup ns/low of 0 deleted comes back low-0@n0 low-1@n1"},
		},
		"a group and a pod alone": {
			there: gangOn("low", 5, 1, "n0").With(Cluster{Objects: []runtime.Object{placed("one", "n1", "1")}}),
			want:  wouldStart + "1 group with 1 pod, and of 1 single pod",
			evicts: []string{
				"Pod ns/one of 0 deleted one@n1",
				"PodGroup ns/low of 5 deleted low-0@n0",
			},
		},
		"the group without a budget": {
			there:  with(low(), budget(group.Label, "low"), objects.ReadyNode("n2", 4), objects.ReadyNode("n3", 4)).With(gangOn("other", 0, 2, "n2", "n3")),
			want:   wouldStart,
			evicts: []string{"PodGroup ns/other of 0 deleted other-0@n2 other-1@n3"},
		},
		"a group whose budget protects it, if there is no other": {
			there: with(low(), budget(group.Label, "low")), want: wouldStart,
			evicts: []string{"PodGroup ns/low of 0 deleted protected 2 low-0@n0 low-1@n1"},
		},
		"nobody, if the group does not fit even then": {
			there: with(low(), objects.ReadyNode("n2", 4)).With(gangOn("high", 10, 1, "n2")), ask: gangOn("g", 10, 3), want: "waits without g-0,g-1,g-2: NoRoom: ", has: "room for 2 even without all of lower priority",
		},
		"nobody, for a group of the same priority": {there: low(), ask: gangOn("g", 0, 2), want: "waits without g-0,g-1: NoRoom: "},
		"nobody, for a group that may not evict": {
			there: low(), ask: gangOn("g", 10, 2).edited(func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never }),
			want: "waits without g-0,g-1: NoRoom: ", has: "may not evict: preemptionPolicy Never",
		},
		"nobody before the delay has passed": {there: low(), ask: delayed, want: "waits without g-0,g-1: NoRoom: ", has: "evicts nobody before "},
		"nobody of a namespace that is kept": {
			there: with(low(), kept()), want: "waits without g-0,g-1: NoRoom: ", has: "room for 0",
		},
	}
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.ask.Objects == nil {
				tc.ask = gangOn("g", 10, 2)
			}
			c := tc.there.With(tc.ask).With(Cluster{Objects: []runtime.Object{objects.ReadyNode("n0", 4), objects.ReadyNode("n1", 4)}})
			r, err := New(t.Context(), c, shipped)
			if err != nil {
				t.Fatal(err)
			}
			d, err := r.Decide(t.Context(), r.Groups()[0])
			if err != nil {
				t.Fatal(err)
			}
			if got := d.line(); !strings.HasPrefix(got, tc.want) || !strings.Contains(got, tc.has) {
				t.Errorf("%s\nwant  %s ... %s", got, tc.want, tc.has)
			}
			var evicts []string
			for _, v := range d.Evicts {
				evicts = append(evicts, v.line())
			}
			if !slices.Equal(evicts, tc.evicts) {
				t.Errorf("evicts\n%s\nwant\n%s", strings.Join(evicts, "\n"), strings.Join(tc.evicts, "\n"))
			}
		})
	}
}

// The groups of a queue have victims of their own, and the room that evictions make is left to whom it is made for.
func TestEachGroupInTheQueueHasVictimsOfItsOwn(t *testing.T) {
	c := gangOn("low", 0, 1, "n0").With(gangOn("mid", 5, 1, "n1")).With(gangOn("g", 20, 1)).With(gangOn("h", 10, 1)).With(gangOn("i", 9, 1))
	c.Objects = append(c.Objects, objects.ReadyNode("n0", 4), objects.ReadyNode("n1", 4))
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(t.Context(), c, shipped)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, key := range r.Groups() {
		d, err := r.Decide(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		text := key.Name
		for _, v := range d.Evicts {
			text += " evicts " + v.Name
		}
		got = append(got, text)
	}
	if want := []string{"g evicts low", "h evicts mid", "i"}; !slices.Equal(got, want) {
		t.Errorf("the groups: %q, want %q", got, want)
	}
}

// readOnly counts requests other than reads.
type readOnly struct {
	fakeAPI
	mu     sync.Mutex
	writes []string
}

func (a *readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		a.mu.Lock()
		a.writes = append(a.writes, r.Method+" "+r.URL.Path)
		a.mu.Unlock()
	}
	return a.fakeAPI.RoundTrip(r)
}

func TestAPlanToEvictIsNotCarriedOut(t *testing.T) {
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(t *testing.T, ctx context.Context) {
		c := gangOn("low", 0, 2, "n0", "n1").ownedBy("batch", "Job", lowJob(nil)).With(gangOn("g", 10, 2))
		c.Objects = append(c.Objects, objects.ReadyNode("n0", 4), objects.ReadyNode("n1", 4))
		served, err := newFakeAPI(c)
		if err != nil {
			t.Fatal(err)
		}
		client, api := fake.NewClientset(c.Objects...), &readOnly{fakeAPI: served}
		r, err := build(ctx, client, api, shipped, func() bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		r.enqueue(ctx, c, shipped.Scheduler())
		d, err := r.Decide(ctx, r.Groups()[0])
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Evicts) != 1 {
			t.Fatalf("%d victims, want 1: %s", len(d.Evicts), d.line())
		}
		time.Sleep(time.Minute) // of the bubble's clock
		for _, a := range client.Actions() {
			if v := a.GetVerb(); v != "get" && v != "list" && v != "watch" {
				api.writes = append(api.writes, v+" "+a.GetResource().Resource)
			}
		}
		if len(api.writes) > 0 {
			t.Errorf("sent: %q, want nothing", api.writes)
		}
	})
}
