package chart_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A node is the part of values.schema.json for one value.
type node struct {
	Properties  map[string]*node `json:"properties"`
	Additional  any              `json:"additionalProperties"`
	Items       *node            `json:"items"`
	Enum        []string         `json:"enum"`
	Required    []string         `json:"required"`
	Ref         string           `json:"$ref"`
	Definitions map[string]*node `json:"definitions"`
}

func schemaOfValues(t *testing.T) *node {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir(t), "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var n node
	if err := json.Unmarshal(text, &n); err != nil {
		t.Fatal(err)
	}
	return &n
}

// at returns the node of a path. [] is an item of a list.
func (n *node) at(t *testing.T, path string) *node {
	t.Helper()
	found := n
	for step := range strings.SplitSeq(path, ".") {
		if step == "[]" {
			found = found.Items
		} else {
			found = found.Properties[step]
		}
		if found == nil {
			t.Fatalf("the schema has no %s in %s", step, path)
		}
		if name, ok := strings.CutPrefix(found.Ref, "#/definitions/"); ok {
			found = n.Definitions[name]
		}
	}
	return found
}

func TestThePoliciesOfTheSchemaAreThoseThereAre(t *testing.T) {
	got := schemaOfValues(t).at(t, "scheduler.args.matchPolicy").Enum
	if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(match.Policies()))) {
		t.Errorf("policies %q, want %q", got, match.Policies())
	}
}

// A value with a type of Kubernetes has the type's
// fields, except for fields that cannot be set here.
func TestTheSchemaHasTheFieldsOfKubernetes(t *testing.T) {
	cases := map[string]struct {
		of      reflect.Type
		without []string
	}{
		"podSecurityContext":                {of: reflect.TypeFor[corev1.PodSecurityContext]()},
		"securityContext":                   {of: reflect.TypeFor[corev1.SecurityContext]()},
		"tolerations.[]":                    {of: reflect.TypeFor[corev1.Toleration]()},
		"affinity":                          {of: reflect.TypeFor[corev1.Affinity]()},
		"topologySpreadConstraints.[]":      {of: reflect.TypeFor[corev1.TopologySpreadConstraint]()},
		"networkPolicy.webhookFrom.[]":      {of: reflect.TypeFor[networkingv1.NetworkPolicyPeer]()},
		"networkPolicy.egress.apiServer.[]": {of: reflect.TypeFor[networkingv1.NetworkPolicyPeer]()},
		"networkPolicy.metricsFrom.[]":      {of: reflect.TypeFor[networkingv1.NetworkPolicyPeer]()},
		"tenantPolicy.namespaces":           {of: reflect.TypeFor[metav1.LabelSelector]()},
		"webhook.namespaceSelector":         {of: reflect.TypeFor[metav1.LabelSelector]()},
		// A claim refers to the pod's claims, which it has not.
		"scheduler.resources":        {of: reflect.TypeFor[corev1.ResourceRequirements](), without: []string{"claims"}},
		"scheduler.extraProfiles.[]": {of: reflect.TypeFor[schedulerconfig.KubeSchedulerProfile]()},
		// The chart sets queueSort.
		"scheduler.extraProfiles.[].plugins": {of: reflect.TypeFor[schedulerconfig.Plugins](), without: []string{"queueSort"}},
		// The chart sets these. A standby that delays its cache would never be ready.
		"scheduler.config": {of: reflect.TypeFor[schedulerconfig.KubeSchedulerConfiguration](),
			without: []string{"apiVersion", "kind", "profiles", "leaderElection", "delayCacheUntilActive"}},
	}
	schema := schemaOfValues(t)
	for path, tc := range cases {
		t.Run(path, func(t *testing.T) {
			n := schema.at(t, path)
			want := slices.DeleteFunc(fieldsOf(tc.of), func(f string) bool { return slices.Contains(tc.without, f) })
			if got := slices.Sorted(maps.Keys(n.Properties)); !slices.Equal(got, want) {
				t.Errorf("fields %q, want %q", got, want)
			}
			if n.Additional != false {
				t.Error("other fields are let through")
			}
		})
	}
}

// fieldsOf returns the JSON names of a type's fields.
func fieldsOf(of reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(of) {
		if !f.Anonymous {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// A default that is not empty cannot be removed by null, because the templates need it.
func TestDefaultsAreRequired(t *testing.T) {
	var values map[string]any
	read(t, "charts/fluence/values.yaml", &values)
	schema := schemaOfValues(t)
	var below func(prefix string, values map[string]any, required []string)
	below = func(prefix string, values map[string]any, required []string) {
		for key, value := range values {
			inner, isMap := value.(map[string]any)
			list, isList := value.([]any)
			empty := value == "" || isMap && len(inner) == 0 || isList && len(list) == 0
			if slices.Contains(required, key) == empty {
				t.Errorf("%s%s: empty by default: %t; required: %t", prefix, key, empty, empty)
			}
			if isMap && !empty && !kubernetesOwn[key] {
				below(prefix+key+".", inner, schema.at(t, prefix+key).Required)
			}
		}
	}
	below("", values, schema.Required)
}

// kubernetesOwn are values with types of Kubernetes. Any of their fields may be removed.
var kubernetesOwn = map[string]bool{"resources": true, "podSecurityContext": true, "securityContext": true}
