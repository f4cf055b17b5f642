package chart_test

import (
	"fmt"
	"slices"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

// flowSchema returns a FlowSchema of the chart, decoded strictly.
func flowSchema(t *testing.T, rendered []object, name string) flowcontrolv1.FlowSchema {
	t.Helper()
	var f flowcontrolv1.FlowSchema
	find(t, rendered, "FlowSchema", name).into(t, &f)
	return f
}

// Fluence's requests have the priority levels of kube-scheduler. Its schemas go before
// the schema of all service accounts, and its schema of leases goes before its other one.
func TestFlowSchemas(t *testing.T) {
	rendered := render(t)
	leases, rest := flowSchema(t, rendered, "fluence-leader-election"), flowSchema(t, rendered, "fluence")
	for own, as := range map[*flowcontrolv1.FlowSchema]*flowcontrolv1.FlowSchema{
		&leases: bootstrap.SuggestedFlowSchemaSystemLeaderElection,
		&rest:   bootstrap.SuggestedFlowSchemaKubeScheduler,
	} {
		if got, want := own.Spec.PriorityLevelConfiguration, as.Spec.PriorityLevelConfiguration; got != want {
			t.Errorf("FlowSchema %s leads to %s, and %s to %s", own.Name, got.Name, as.Name, want.Name)
		}
	}
	var order []int32
	for _, f := range []*flowcontrolv1.FlowSchema{bootstrap.SuggestedFlowSchemaKubeSystemServiceAccounts, &leases, &rest, bootstrap.SuggestedFlowSchemaServiceAccounts} {
		order = append(order, f.Spec.MatchingPrecedence)
	}
	if !slices.IsSorted(order) || len(slices.Compact(slices.Clone(order))) != len(order) {
		t.Errorf("those of kube-system, for leases, for the rest and of all accounts have the precedences %d, want them in this order", order)
	}
	got, want := leases.Spec.Rules[0].ResourceRules[0].Verbs, bootstrap.SuggestedFlowSchemaSystemLeaderElection.Spec.Rules[0].ResourceRules[0].Verbs
	if !slices.Equal(got, want) {
		t.Errorf("leases are those of the verbs %q, and upstream those of %q", got, want)
	}
}

// The schemas name the accounts of the Deployments and
// the namespace of their leases, in any namespace.
func TestFlowSchemasNameTheAccounts(t *testing.T) {
	text, err := template(t, "--set", registry, "--namespace", "1234")
	if err != nil {
		t.Fatal(err)
	}
	rendered := objects(t, text)
	var want []string
	for _, name := range []string{"fluence-scheduler", "fluence-controller"} {
		want = append(want, "1234/"+deployment(t, rendered, name).Spec.Template.Spec.ServiceAccountName)
	}
	for _, name := range []string{"fluence-leader-election", "fluence"} {
		var accounts []string
		for _, s := range flowSchema(t, rendered, name).Spec.Rules[0].Subjects {
			accounts = append(accounts, fmt.Sprintf("%s/%s", s.ServiceAccount.Namespace, s.ServiceAccount.Name))
		}
		if !slices.Equal(accounts, want) {
			t.Errorf("FlowSchema %s is for %q, want %q", name, accounts, want)
		}
	}
	if got := flowSchema(t, rendered, "fluence-leader-election").Spec.Rules[0].ResourceRules[0].Namespaces; !slices.Equal(got, []string{"1234"}) {
		t.Errorf("leases are those of the namespaces %q, want that of the release", got)
	}
}

func TestFlowSchemasCanBeSwitchedOff(t *testing.T) {
	for _, o := range render(t, "flowSchemas.enabled=false") {
		if o.kind() == "FlowSchema" {
			t.Errorf("%s is made", o.name())
		}
	}
}
