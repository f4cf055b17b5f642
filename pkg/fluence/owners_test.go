package fluence

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/test/objects"
)

// transport sends each request to the API server that serves it.
type transport struct {
	podGroups *podGroupAPI
	native    *nativeAPI
	owners    *ownerAPI
	binds     *bindAPI
	pods      *podAPI
	queues    *queueAPI
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/apis/scheduling.x-k8s.io/") {
		return t.podGroups.RoundTrip(r)
	}
	if strings.HasPrefix(r.URL.Path, "/apis/fluence.flux-framework.org/") {
		return t.queues.RoundTrip(r)
	}
	if strings.HasPrefix(r.URL.Path, "/apis/scheduling.k8s.io/") {
		return t.native.RoundTrip(r)
	}
	if t.pods != nil && t.pods.serves(r) {
		return t.pods.RoundTrip(r)
	}
	if r.Method == http.MethodPost {
		return t.binds.RoundTrip(r)
	}
	return t.owners.RoundTrip(r)
}

// ownerAPI serves the metadata of objects that control pods, by resource, and Jobs with their deadlines.
type ownerAPI struct {
	// deadlines are the deadlines of Jobs and the times when these began, by UID.
	deadlines map[types.UID]deadline
	mu        sync.Mutex
	objects   map[string][]metav1.PartialObjectMetadata
	watches   map[string][]*io.PipeWriter
	// forbidden makes the server forbid every request.
	forbidden bool
	// unserved are resources that the server does not have. patched are the objects that were patched, by path.
	unserved map[string]bool
	patched  []string
	// onPatch, if set, is called before an object is patched.
	onPatch func()
	// suspendedFor is for whom the objects are suspended. delay is how long the answer takes to a request for one.
	suspendedFor types.UID
	delay        time.Duration
	// jobs change Jobs before they are shown, by UID.
	jobs map[types.UID]func(*batchv1.Job)
}

// A deadline is when a Job ends.
type deadline struct {
	seconds int64
	from    time.Time
}

func newOwnerAPI() *ownerAPI {
	return &ownerAPI{deadlines: map[types.UID]deadline{}, jobs: map[types.UID]func(*batchv1.Job){}, objects: map[string][]metav1.PartialObjectMetadata{}, watches: map[string][]*io.PipeWriter{}}
}

// create adds an object of a resource. above is its controller, unless above is zero.
func (a *ownerAPI) create(resource, name string, uid types.UID, above group.Owner) {
	m := metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: uid, ResourceVersion: "1"},
	}
	if above != (group.Owner{}) {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: above.Group + "/v1", Kind: above.Kind, Name: above.Name, UID: above.UID, Controller: new(true)}}
	}
	a.mu.Lock()
	a.objects[resource] = append(a.objects[resource], m)
	a.mu.Unlock()
	a.tell("ADDED", resource, &m)
}

// remove deletes an object of a resource.
func (a *ownerAPI) remove(resource, name string) {
	a.mu.Lock()
	i := slices.IndexFunc(a.objects[resource], func(m metav1.PartialObjectMetadata) bool { return m.Name == name })
	m := a.objects[resource][i]
	a.objects[resource] = slices.Delete(a.objects[resource], i, i+1)
	a.mu.Unlock()
	a.tell("DELETED", resource, &m)
}

// setDeadline gives a Job a deadline that counts from a time, or takes it away.
func (a *ownerAPI) setDeadline(job string, d deadline) {
	a.mu.Lock()
	i := slices.IndexFunc(a.objects["jobs"], func(m metav1.PartialObjectMetadata) bool { return m.Name == job })
	m := a.objects["jobs"][i]
	a.deadlines[m.UID] = d
	a.mu.Unlock()
	a.tell("MODIFIED", "jobs", &m)
}

// tell tells the watches of a resource of a change of an object.
func (a *ownerAPI) tell(change, resource string, m *metav1.PartialObjectMetadata) {
	a.mu.Lock()
	watches, event := slices.Clone(a.watches[resource]), encode(map[string]any{"type": change, "object": a.shown(resource, m)})
	a.mu.Unlock()
	for _, w := range watches {
		_, _ = w.Write(event)
	}
}

// shown returns an object as the server shows it. The caller holds mu.
func (a *ownerAPI) shown(resource string, m *metav1.PartialObjectMetadata) any {
	if resource != "jobs" {
		return m
	}
	job := &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: m.ObjectMeta}
	if d := a.deadlines[m.UID]; d != (deadline{}) {
		job.Spec.ActiveDeadlineSeconds, job.Status.StartTime = &d.seconds, new(metav1.NewTime(d.from))
	}
	if edit := a.jobs[m.UID]; edit != nil {
		edit(job)
	}
	return job
}

// editJob changes how a Job is shown from now on.
func (a *ownerAPI) editJob(name string, edit func(*batchv1.Job)) {
	a.mu.Lock()
	i := slices.IndexFunc(a.objects["jobs"], func(m metav1.PartialObjectMetadata) bool { return m.Name == name })
	m := a.objects["jobs"][i]
	before := a.jobs[m.UID]
	a.jobs[m.UID] = func(job *batchv1.Job) {
		if before != nil {
			before(job)
		}
		edit(job)
	}
	a.mu.Unlock()
	a.tell("MODIFIED", "jobs", &m)
}

// object answers a request for one object. The caller holds mu.
func (a *ownerAPI) object(r *http.Request) *http.Response {
	parts := strings.Split(r.URL.Path, "/")
	resource, name := parts[len(parts)-2], parts[len(parts)-1]
	i := slices.IndexFunc(a.objects[resource], func(m metav1.PartialObjectMetadata) bool { return m.Name == name })
	if i < 0 {
		return failed(apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name))
	}
	if r.Method == http.MethodPatch {
		if a.onPatch != nil {
			a.onPatch()
		}
		a.patched = append(a.patched, r.URL.Path)
	}
	m := a.objects[resource][i].DeepCopy()
	m.Annotations = map[string]string{group.SuspendedForAnnotation: string(a.suspendedFor)}
	return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(struct {
		*metav1.PartialObjectMetadata
		Spec map[string]any `json:"spec"`
	}{m, map[string]any{"suspend": a.suspendedFor != ""}}))))
}

// RoundTrip lists and watches, and answers requests for one object.
func (a *ownerAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	q := r.URL.Query()
	if strings.Contains(r.URL.Path, "/namespaces/") {
		time.Sleep(a.delay)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.forbidden:
		return failed(apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)), nil
	case a.unserved[resource]:
		return failed(apierrors.NewNotFound(schema.GroupResource{Resource: resource}, "")), nil
	case strings.Contains(r.URL.Path, "/namespaces/"):
		return a.object(r), nil
	case q.Get("sendInitialEvents") != "":
		return failed(apierrors.NewInvalid(schema.GroupKind{Kind: resource}, "", nil)), nil
	case q.Get("watch") != "":
		reader, writer := io.Pipe()
		a.watches[resource] = append(a.watches[resource], writer)
		return response(http.StatusOK, reader), nil
	default:
		kind := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}
		if resource == "jobs" {
			kind = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "JobList"}
		}
		items := []any{}
		for i := range a.objects[resource] {
			items = append(items, a.shown(resource, &a.objects[resource][i]))
		}
		list := map[string]any{"apiVersion": kind.APIVersion, "kind": kind.Kind, "metadata": metav1.ListMeta{ResourceVersion: "1"}, "items": items}
		return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(list)))), nil
	}
}

// controlledBy returns an edit: an object is the controller of a pod.
func controlledBy(apiVersion, kind, name string, uid types.UID) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	}
}

// scheduledCondition returns the condition Scheduled of PodGroup g.
func (r *rig) scheduledCondition() metav1.Condition {
	r.Helper()
	c := meta.FindStatusCondition(r.podGroupAPI.get(g).Status.Conditions, report.ConditionScheduled)
	if c == nil {
		r.Fatal("the PodGroup has no such condition")
	}
	return *c
}

// The pods of all Jobs of a JobSet start together without a label.
func TestPodsFindTheirGroupByWhatControlsThem(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n", 4)
		set := group.Owner{Group: "jobset.x-k8s.io", Kind: "JobSet", Name: "sim", UID: "set-uid"}
		r.owners.create("jobs", "sim-a", "a-uid", set)
		r.pass(0)
		first := r.pod("sim-a-0", controlledBy("batch/v1", "Job", "sim-a", "a-uid"))
		second := r.pod("sim-b-0", controlledBy("batch/v1", "Job", "sim-b", "b-uid"))
		r.wantHeld(second, "waits until the scheduler has seen Job sim-b, the owner of the pod")
		pg := aPodGroup(set.PodGroupName(), 2, "pg")
		r.podGroupAPI.put(pg)
		r.pass(0)
		r.wantHeld(first, "waits for 1 more pod: has 1 of minMember 2")
		r.schedule()
		r.owners.create("jobs", "sim-b", "b-uid", set)
		r.pass(time.Second)
		if got := r.assigned(); len(got) != 2 {
			t.Errorf("assigned %v, want both pods", got)
		}
		if got := r.matches(); len(got) != 1 || len(got[0].Keys) != 2 {
			t.Errorf("matches %+v, want one for both pods", got)
		}
	})
}

// An object that was deleted and recreated under the same name is another object.
func TestANamesakeOfAnOwnerIsNotTakenForIt(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.owners.create("replicasets", "web", "old-uid", group.Owner{Group: "apps", Kind: "Deployment", Name: "web", UID: "d"})
		r.pass(0)
		pod := r.pod("web-0", controlledBy("apps/v1", "ReplicaSet", "web", "new-uid"))
		r.wantHeld(pod, "waits until the scheduler has seen ReplicaSet web, the owner of the pod")
	})
}

// Late members are placed when room comes, and one match is enough for
// all of one shape (Requests 14 of the lessons of earlier systems).
func TestLateMembersFollowInOneMatch(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n", 4)
		r.gang(2, 8)
		r.schedule()
		r.pass(time.Minute)
		if got := r.assigned(); len(got) != 4 {
			t.Errorf("assigned %v, want as many as there is room for", got)
		}
		before := len(r.matches())
		if before > 3 {
			t.Errorf("%d matches for eight pods of one group", before)
		}
		c := r.scheduledCondition()
		if c.Reason != reason.Placed || !strings.Contains(c.Message, "4 more pods are without a node: NoRoom") {
			t.Errorf("condition %+v, want that the group is placed and four pods cannot follow", c)
		}
		r.node("m", 8)
		r.pass(time.Minute)
		if got := r.assigned(); len(got) != 8 {
			t.Errorf("assigned %v, want all", got)
		}
		// The scheduler may see the node before the matcher does.
		if n := len(r.matches()) - before; n > 2 {
			t.Errorf("%d matches for the four that followed, want one for all", n)
		}
		if c := r.scheduledCondition(); strings.Contains(c.Message, "without a node") {
			t.Errorf("condition %+v though all pods have nodes", c)
		}
	})
}

// A group is matched by its own policy and in its own name.
func TestAGroupIsMatchedByItsOwnPolicy(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pg := aPodGroup(g.Name, 1, "pg")
		pg.Annotations = map[string]string{group.MatchPolicyAnnotation: match.PolicyLonodex}
		r.podGroupAPI.put(pg)
		r.preFilter(r.pod("g-0", objects.InGroup(g.Name)))
		got := r.matches()
		if len(got) != 1 || got[0].Policy != match.PolicyLonodex || got[0].Holder != "ns/g" {
			t.Errorf("matches %+v, want one by %s for ns/g", got, match.PolicyLonodex)
		}
	})
}

// As after an interrupted watch, the informer sends an update.
func TestRecreatedOwnerIsObserved(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n", 8)
		r.schedule()
		r.owners.create("jobs", "train", "old", group.Owner{})
		r.pass(time.Second)
		o := group.Owner{Group: "batch", Kind: "Job", Name: "train", UID: "new"}
		r.podGroupAPI.put(aPodGroup(o.PodGroupName(), 1, "pg"))
		r.pod("train-0", controlledBy("batch/v1", "Job", "train", "new"))
		r.pass(10 * time.Second)
		r.owners.create("jobs", "train", "new", group.Owner{})
		r.pass(time.Second)
		if got := r.assigned(); len(got) != 1 {
			t.Errorf("assigned %v, want the pod of the new Job", got)
		}
	})
}

// A late member without its claim does not hold up the next one.
func TestHeldLateMemberDoesNotBlockOthers(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n", 8)
		r.schedule()
		r.gang(2, 2)
		r.pass(time.Second)
		r.pod("g-a", objects.InGroup(g.Name), func(p *corev1.Pod) {
			claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"}
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}}}
		})
		r.pass(time.Second)
		r.pod("g-b", objects.InGroup(g.Name))
		r.pass(30 * time.Second)
		if got := r.assigned(); got["g-b"] != "n" {
			t.Errorf("assigned %v, want g-b on the empty node", got)
		}
		if c := r.scheduledCondition(); !strings.Contains(c.Message, `1 more pod is without a node: NodesRuledOut`) {
			t.Errorf("condition %+v, want why one cannot follow", c)
		}
	})
}

// A refusal of late members counts only for their shape: other shapes are still placed.
func TestRefusedShapeDoesNotBlockOtherLateMembers(t *testing.T) {
	gpu := func(p *corev1.Pod) {
		amount := corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amount, Limits: amount}
	}
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n", 4, func(n *corev1.Node) {
			n.Status.Capacity["example.com/gpu"] = resource.MustParse("1")
			n.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
		})
		r.schedule()
		r.pod("takes-the-gpu", gpu)
		r.pod("fills-1")
		r.pod("fills-2")
		r.pass(time.Second)
		r.gang(2, 2)
		r.pass(time.Second)
		r.pod("g-a", objects.InGroup(g.Name), gpu)
		r.pass(time.Second)
		r.pod("g-b", objects.InGroup(g.Name))
		r.pass(time.Minute)
		r.remove("fills-1")
		r.pass(10 * time.Second)
		if got := r.assigned(); got["g-b"] != "n" {
			t.Errorf("assigned %v, want g-b where room was freed", got)
		}
	})
}

// The scheduler keeps of owners, and of pods that a kubelet may reject, only the reference to the controller.
func TestOnlyTheControllerReferenceIsKept(t *testing.T) {
	refs := []metav1.OwnerReference{{Kind: "ConfigMap", UID: "c"}, {Kind: "JobSet", UID: "s", Controller: new(true)}, {Kind: "Secret", UID: "d"}}
	for _, tc := range []struct {
		trim func(any) (any, error)
		obj  metav1.Object
	}{
		{trimOwner, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{OwnerReferences: refs}}},
		{trimPod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: refs}}},
	} {
		kept, err := tc.trim(tc.obj)
		if err != nil {
			t.Fatal(err)
		}
		if got := kept.(metav1.Object).GetOwnerReferences(); len(got) != 1 || got[0].UID != "s" {
			t.Errorf("%T: %v are kept", tc.obj, got)
		}
	}
}

// The API server need not serve all kinds of owners. Each attempt to read one fails, and the log says so once for each error.
func TestOwnersThatCannotBeReadAreLoggedOnce(t *testing.T) {
	inRigOf(t, nil, func(r *rig) { r.owners.unserved = map[string]bool{"jobsets": true} }, func(r *rig) {
		lines := func() (n int) {
			for line := range strings.Lines(r.logged(2)) {
				if strings.Contains(line, "Owners cannot be read") && strings.Contains(line, "jobsets") {
					n++
				}
			}
			return n
		}
		r.pass(5 * time.Minute)
		if n := lines(); n != 1 {
			t.Errorf("%d lines, want 1", n)
		}
		r.owners.mu.Lock()
		r.owners.forbidden = true
		r.owners.mu.Unlock()
		r.pass(5 * time.Minute)
		if n := lines(); n != 2 {
			t.Errorf("%d lines after another error, want 2", n)
		}
	})
}
