package rights_test

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/rights"
)

func TestGranted(t *testing.T) {
	cases := map[string]struct {
		rules []rbacv1.PolicyRule
		in    string
		want  string // the rights, or the error
	}{
		"every verb on every resource": {
			rules: []rbacv1.PolicyRule{{Verbs: []string{"list", "get"}, APIGroups: []string{"apps"}, Resources: []string{"deployments", "replicasets"}}},
			want:  "get deployments.apps, get replicasets.apps, list deployments.apps, list replicasets.apps",
		},
		"a subresource": {
			rules: []rbacv1.PolicyRule{{Verbs: []string{"patch"}, APIGroups: []string{"g"}, Resources: []string{"things/status"}}},
			want:  "patch things.g/status",
		},
		"objects by name, in a namespace": {
			rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"b", "a"}}},
			in:    "ns", want: "get secrets a in ns, get secrets b in ns",
		},
		"the same twice": {
			rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}},
				{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}},
			},
			want: "get pods",
		},
		"all verbs": {
			rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
			want:  `rules[0].verbs: ["*"]: grants all`,
		},
		"all subresources": {
			rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/*"}}},
			want:  `rules[0].resources: ["pods/*"]: grants all`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			granted, err := rights.Granted(tc.rules, tc.in)
			got := join(granted)
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("Granted() = %s, want %s", got, tc.want)
			}
		})
	}
}

func join(list []rights.Right) string {
	var words []string
	for _, r := range list {
		words = append(words, r.String())
	}
	return strings.Join(words, ", ")
}

// event returns an audit event of a user's request with its
// answer: verb, group, resource, subresource, namespace and name.
func event(user string, code int, words ...string) cluster.AuditEvent {
	var e cluster.AuditEvent
	e.User.Username, e.Verb, e.ResponseStatus.Code = user, words[0], code
	e.Annotations = map[string]string{"authorization.k8s.io/decision": "allow"}
	if len(words) == 1 {
		return e
	}
	e.ObjectRef = &struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	}{words[1], words[2], words[3], words[4], words[5]}
	return e
}

// forbidden returns the event of a request that RBAC refused.
func forbidden(e cluster.AuditEvent) cluster.AuditEvent {
	e.Annotations = map[string]string{"authorization.k8s.io/decision": "forbid"}
	return e
}

func log(events ...cluster.AuditEvent) iter.Seq2[cluster.AuditEvent, error] {
	return func(yield func(cluster.AuditEvent, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestRead(t *testing.T) {
	got, err := rights.Read(log(
		event("me", 200, "watch", "", "pods", "", "", ""),
		event("me", 200, "watch", "", "pods", "", "", ""),
		event("you", 200, "delete", "", "pods", "", "ns", "p"),
		event("me", 409, "patch", "g", "things", "status", "ns", "t"),
		forbidden(event("me", 403, "list", "", "secrets", "", "ns", "")),
		forbidden(event("me", 403, "list", "", "secrets", "", "ns", "")),
		event("me", 403, "create", "", "events", "", "going", ""),
		event("me", 200, "get"),
	), "me")
	if err != nil {
		t.Fatal(err)
	}
	if used := join(got.Used); used != "create events in going, patch things.g/status t in ns, watch pods" {
		t.Errorf("used %s", used)
	}
	if denied := join(got.Denied); denied != "list secrets in ns" {
		t.Errorf("denied %s", denied)
	}
	broken := errors.New("no log")
	if _, err := rights.Read(func(yield func(cluster.AuditEvent, error) bool) { yield(cluster.AuditEvent{}, broken) }, "me"); !errors.Is(err, broken) {
		t.Errorf("Read() of a broken log = %v", err)
	}
}

func TestUnused(t *testing.T) {
	pods := rights.Right{Verb: "get", Resource: "pods"}
	cases := map[string]struct {
		granted, used rights.Right
		want          bool
	}{
		"the right itself":                       {pods, pods, false},
		"one object of all":                      {pods, rights.Right{Verb: "get", Resource: "pods", Namespace: "ns", Name: "p"}, false},
		"another verb":                           {pods, rights.Right{Verb: "list", Resource: "pods"}, true},
		"another group":                          {pods, rights.Right{Verb: "get", Group: "metrics.k8s.io", Resource: "pods"}, true},
		"a subresource is another resource":      {pods, rights.Right{Verb: "get", Resource: "pods/log"}, true},
		"one named object, and it was used":      {rights.Right{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "s"}, rights.Right{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "s"}, false},
		"one named object, and another was used": {rights.Right{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "s"}, rights.Right{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "t"}, true},
		"another namespace":                      {rights.Right{Verb: "get", Resource: "secrets", Namespace: "ns"}, rights.Right{Verb: "get", Resource: "secrets", Namespace: "other"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			granted := []rights.Right{tc.granted}
			if got := rights.Unused(granted, []rights.Right{tc.used}); slices.Contains(got, tc.granted) != tc.want {
				t.Errorf("Unused(%v, %v) = %v", granted, tc.used, got)
			}
		})
	}
	if got := fmt.Sprint(rights.Unused([]rights.Right{pods}, nil)); got != "[get pods]" {
		t.Errorf("Unused() of nothing used = %s", got)
	}
}

// The controller reads the objects to which pods of
// a named group belong, and watches some of them.
func TestEachKindMayBeRead(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "manifests", "rbac", "controller.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var granted []rights.Right
	for text := range strings.SplitSeq(string(data), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(text), &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind != "ClusterRole" {
			continue
		}
		of, err := rights.Granted(role.Rules, "")
		if err != nil {
			t.Fatal(err)
		}
		granted = append(granted, of...)
	}
	for _, k := range group.Kinds() {
		verbs := []string{"get"}
		if k.Watched {
			verbs = []string{"get", "list", "watch"}
		}
		for _, verb := range verbs {
			use := rights.Right{Verb: verb, Group: k.Group, Resource: k.Resource}
			if k.FormsGroup && !slices.ContainsFunc(granted, func(r rights.Right) bool { return r.Covers(use) }) {
				t.Errorf("manifests/rbac/controller.yaml does not grant to %s", use)
			}
		}
	}
}
