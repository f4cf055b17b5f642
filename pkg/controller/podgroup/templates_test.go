package podgroup

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// leaderAndWorkers is a group of an owner that makes three workers once their leader is ready.
func leaderAndWorkers() observation {
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}, Annotations: map[string]string{"much": "text"}}}
	pod.Spec.SchedulerName = "fluence"
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "image", Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
	ref := metav1.OwnerReference{APIVersion: "leaderworkerset.x-k8s.io/v1", Kind: "LeaderWorkerSet", Name: "train", UID: "1"}
	top := topOwner{topOwnerRef: topOwnerRefFrom(ref), state: readable, size: group.Size{Size: 4, Min: 1}, templates: []group.Template{
		{Name: "leader", Coming: 1, Pod: pod}, {Name: "worker", Expected: 3, After: group.AfterReady, Pod: pod},
	}}
	return observation{key: types.NamespacedName{Namespace: "ns", Name: top.owner.PodGroupName()}, now: now, topOwners: []topOwner{top}}
}

// A PodGroup says which pods its owner makes later, and of these no more than how they are placed.
func TestTemplatesOfAPodGroup(t *testing.T) {
	got := leaderAndWorkers().wantedTemplates()
	if len(got) != 2 || got[0].Name != "leader" || got[0].Coming != 1 || got[1].Expected != 3 || got[1].After != "Ready" {
		t.Fatalf("templates %+v, want a leader and three workers that come after it is ready", got)
	}
	const want = `{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"2"}}}],"schedulerName":"fluence"}}`
	if text := string(got[1].Pod.Raw); text != want {
		t.Errorf("the pod of a worker is %s, want %s", text, want)
	}
}

func TestWhichPodGroupsHaveNoTemplates(t *testing.T) {
	cases := map[string]func(o *observation){
		"a user gives a size": func(o *observation) {
			o.pods = each(pods(1, labelled(group.SizeLabel, "4")))
		},
		"the owner makes all pods at once": func(o *observation) { o.topOwners[0].templates = nil },
		"the owner cannot be read":         func(o *observation) { o.topOwners[0].state = unreadable },
		"there are two owners":             func(o *observation) { o.topOwners = append(o.topOwners, o.topOwners[0]) },
		"the group is named by a label":    func(o *observation) { o.key.Name = "named" },
		"the CRD has none of our fields":   func(o *observation) { o.legacyCRD = true },
		"the CRD has no templates":         func(o *observation) { o.noTemplates = true },
		"the pods have too many terms to keep": func(o *observation) {
			o.topOwners[0].templates[1].Pod.Labels["much"] = strings.Repeat("x", maxTemplates)
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			o := leaderAndWorkers()
			change(&o)
			if got := o.wantedTemplates(); got != nil {
				t.Errorf("templates %+v, want none", got)
			}
		})
	}
}

func TestFirstStage(t *testing.T) {
	cases := map[string]struct {
		templates []group.Template
		done      map[string]int32
		want      int32
	}{
		"those that come at once":       {[]group.Template{{Coming: 2, Expected: 5}, {Coming: 1}}, nil, 3},
		"none of a later stage":         {[]group.Template{{Coming: 2}, {Coming: 4, Stage: 1}}, nil, 2},
		"others have the stages before": {[]group.Template{{Coming: 4, Stage: 1}, {Coming: 2, Stage: 2}}, nil, 4},
		"one at least":                  {[]group.Template{{Expected: 4}}, nil, 1},
		"no more than a group has":      {[]group.Template{{Coming: group.MaxSize}, {Coming: group.MaxSize}}, nil, group.MaxSize},
		"without those that are done":   {[]group.Template{{Name: "a", Coming: 4}, {Name: "b", Coming: 3, Stage: 1}}, map[string]int32{"a": 3, "b": 1}, 1},
		"followers are done first":      {[]group.Template{{Name: "a", Coming: 1, Expected: 3}, {Name: "b", Coming: 2}}, map[string]int32{"a": 3}, 3},
		"all of a template are done":    {[]group.Template{{Name: "a", Coming: 1, Expected: 3}, {Name: "b", Coming: 2}}, map[string]int32{"a": 4}, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := firstStage(tc.templates, tc.done); got != tc.want {
				t.Errorf("firstStage = %d, want %d", got, tc.want)
			}
		})
	}
}

// The API server may write the fields of a pod in another order.
func TestSameTemplates(t *testing.T) {
	of := func(text string) []scheduling.PodsOfTemplate {
		return []scheduling.PodsOfTemplate{{Name: "a", Expected: 1, Pod: &runtime.RawExtension{Raw: []byte(text)}}}
	}
	one := of(`{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[]}}`)
	if !sameTemplates(one, of(`{"spec":{"containers":[]},"metadata":{"labels":{"a":"b"}}}`)) {
		t.Error("templates differ by the order of their fields")
	}
	more := of(`{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[]}}`)
	more[0].Expected = 2
	for name, other := range map[string][]scheduling.PodsOfTemplate{"no templates": nil, "another number": more, "another pod": of(`{"spec":{}}`)} {
		if sameTemplates(one, other) {
			t.Errorf("%s are the same templates", name)
		}
	}
}

// With a CRD that lacks templates the rest is written, and nothing is written again and again.
func TestACRDWithoutTemplates(t *testing.T) {
	var sent []string
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
		data, err := patch.Data(obj)
		if err != nil {
			return err
		}
		if sent = append(sent, string(data)); strings.Contains(string(data), `"templates"`) {
			return errors.New("failed to create typed patch object: .spec.templates: field not declared in schema")
		}
		return nil
	}})
	r := &reconciler{config: DefaultConfig(), client: c}
	o := leaderAndWorkers()
	o.podGroup = &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: o.key.Name}}
	if err := r.write(t.Context(), o, decision{apply: &fieldsToApply{minMember: 1, templates: o.wantedTemplates()}}); err != nil {
		t.Fatalf("the write fails: %v", err)
	}
	if len(sent) != 2 || !strings.Contains(sent[1], `"minMember":1`) {
		t.Errorf("sent %q, want the minMember without templates after the first was refused", sent)
	}
	if !now.Before(r.noTemplatesUntil) {
		t.Error("the next reconcile does not know that there are no templates")
	}
	// A CRD that was renewed is found out by and by.
	if late := now.Add(legacyRetry); late.Before(r.noTemplatesUntil) {
		t.Errorf("templates are not tried before %s", r.noTemplatesUntil)
	}
	r.client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return errors.New("another error")
	}})
	if err := r.write(t.Context(), o, decision{apply: &fieldsToApply{minMember: 1}}); err == nil {
		t.Error("another error is dropped")
	}
}
