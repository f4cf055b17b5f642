package webhook

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/group"
)

func TestWhoAsksInVainForWholeNodesIsWarned(t *testing.T) {
	const (
		exclusive = `fluence.flux-framework.org/exclusive: "true"`
		policy    = `fluence.flux-framework.org/match-policy: `
		lacks     = `namespace "ns" may not have whole nodes: its label fluence.flux-framework.org/whole-nodes is "", and an administrator has to set it to "allowed"`
		nothing   = "; no pod of the group starts (NotAllowed)"
		asks      = "annotation " + exclusive + ": "
		template  = "{annotations: {" + exclusive + "}}"
	)
	alone := func(annotations string) string {
		return "{metadata: {name: p, annotations: {" + annotations + "}}, spec: {schedulerName: fluence}}"
	}
	cases := map[string]struct {
		kind, object string
		mode, label  string
		unknown      bool
		want         []string
	}{
		"a pod":                          {object: alone(exclusive), want: []string{asks + lacks + nothing}},
		"a pod by its policy":            {object: alone(policy + "hinodex"), want: []string{"annotation " + policy + `"hinodex": ` + lacks + nothing}},
		"a pod with another label":       {object: alone(exclusive), label: "yes", want: []string{asks + `namespace "ns" may not have whole nodes: its label fluence.flux-framework.org/whole-nodes is "yes", and an administrator has to set it to "allowed"` + nothing}},
		"a pod that may":                 {object: alone(exclusive), label: "allowed"},
		"a pod where all may":            {object: alone(exclusive), mode: group.WholeNodesAll, unknown: true},
		"a pod where nobody may":         {object: alone(exclusive), mode: group.WholeNodesNone, unknown: true, want: []string{asks + "annotations cannot ask for whole nodes in this cluster (the argument wholeNodes of the scheduler is none)" + nothing}},
		"a pod whose namespace is hid":   {object: alone(exclusive), unknown: true},
		"a pod that shares":              {object: alone(policy + "hinode")},
		"a pod of no such policy":        {object: alone(policy + "nonesuch"), want: []string{group.ValidateMatchPolicy("nonesuch").Error()}},
		"a pod that says no":             {object: alone(`fluence.flux-framework.org/exclusive: "false"`)},
		"a pod of another scheduler":     {object: "{metadata: {annotations: {" + exclusive + "}}, spec: {schedulerName: other}}"},
		"a pod that a controller made":   {object: pod("batch Job train", "", exclusive)},
		"a Job":                          {kind: "Job", object: workload("{}", "", template), want: []string{asks + lacks + nothing}},
		"a Job that a controller made":   {kind: "Job", object: workload(controlled("batch CronJob night"), "", template)},
		"a Job that says it of itself":   {kind: "Job", object: workload(template, "", "{}"), want: []string{"annotation fluence.flux-framework.org/exclusive of the Job: has no effect there, only as an annotation of the pod template or PodGroup or native PodGroup"}},
		"a CronJob":                      {kind: "CronJob", object: cronJob("{}", "{}", template), want: []string{asks + lacks + nothing}},
		"a Deployment":                   {kind: "Deployment", object: workload("{}", "", template), want: []string{asks + lacks + nothing}},
		"a ReplicaSet":                   {kind: "ReplicaSet", object: workload("{}", "", template), want: []string{asks + lacks + nothing}},
		"a StatefulSet":                  {kind: "StatefulSet", object: workload("{}", "", template), want: []string{asks + lacks + nothing}},
		"a StatefulSet of another's pod": {kind: "StatefulSet", object: workload(controlled("core Pod serve-0"), "", template)},
	}
	groups := map[string]string{"Job": "batch", "CronJob": "batch", "Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps"}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.YAMLToJSON([]byte(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			if tc.mode == "" {
				tc.mode = group.WholeNodesLabelled
			}
			if tc.kind == "" {
				tc.kind = "Pod"
			}
			h := &handler{
				scheduler: "fluence", timeout: time.Second,
				find: func(context.Context, string, group.Owner) (OwnerInfo, bool) { return OwnerInfo{}, false },
				whole: wholeRule{mode: tc.mode, label: func(_ context.Context, namespace string) (string, bool) {
					return tc.label, namespace == "ns" && !tc.unknown
				}},
			}
			got := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind{Group: groups[tc.kind], Version: "v1", Kind: tc.kind}, Namespace: "ns", Operation: admissionv1.Create,
				Object: runtime.RawExtension{Raw: raw},
			}})
			if !got.Allowed || !slices.Equal(got.Warnings, tc.want) {
				t.Errorf("allowed %t with the warnings %q, want %q", got.Allowed, got.Warnings, tc.want)
			}
		})
	}
}

var allowed = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{group.WholeNodesLabel: group.WholeNodesAllowed}}}

func TestTheLabelOfANamespace(t *testing.T) {
	refused := false
	live := seeing(func(context.Context) error {
		if refused {
			return errors.New("forbidden")
		}
		return nil
	}, nil, []client.Object{allowed, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}})
	n := newNamespaces(live.live, live.timeout)
	for name, want := range map[string]struct {
		label string
		ok    bool
	}{"ns": {group.WholeNodesAllowed, true}, "other": {"", true}, "none": {"", false}} {
		if label, ok := n.wholeNodes(t.Context(), name); label != want.label || ok != want.ok {
			t.Errorf("namespace %s: %q, %t, want %q, %t", name, label, ok, want.label, want.ok)
		}
	}
	refused = true
	if _, ok := n.wholeNodes(t.Context(), "ns"); ok {
		t.Error("the label is known from before")
	}
}

// Many creations at once cause one request, which ends in time. Above
// the limit there is at once no warning, and owners are still looked up.
func TestNamespacesAreAskedForWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		silent := false
		s := seeing(func(ctx context.Context) error {
			asked.Add(1)
			if silent {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(time.Millisecond)
			return nil
		}, nil, []client.Object{allowed})
		n := newNamespaces(s.live, s.timeout)
		var done sync.WaitGroup
		for range 100 {
			done.Go(func() {
				if _, ok := n.wholeNodes(t.Context(), "ns"); !ok {
					t.Error("the label is not known")
				}
			})
		}
		done.Wait()
		if asked.Load() != 1 {
			t.Errorf("asked %d times, want once", asked.Load())
		}
		silent = true
		begin := time.Now()
		if _, ok := n.wholeNodes(t.Context(), "ns"); ok || time.Since(begin) != s.timeout {
			t.Errorf("known: %t after %v, want it given up after %v", ok, time.Since(begin), s.timeout)
		}
		silent = false
		for range 3 * namespaceReadBurst {
			n.wholeNodes(t.Context(), "ns")
		}
		before, begin := asked.Load(), time.Now()
		if _, ok := n.wholeNodes(t.Context(), "ns"); ok || asked.Load() != before || time.Since(begin) != 0 {
			t.Errorf("past what may be asked it is known: %t, after %v and %d questions", ok, time.Since(begin), asked.Load()-before)
		}
		if end, err := s.acquire(t.Context()); err != nil || time.Since(begin) != 0 {
			t.Errorf("an object waits for %v since namespaces were asked for: %v", time.Since(begin), err)
		} else {
			end()
		}
		time.Sleep(namespaceReadInterval)
		if _, ok := n.wholeNodes(t.Context(), "ns"); !ok {
			t.Error("it is not asked a while later")
		}
	})
}
