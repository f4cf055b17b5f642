package chart_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// elsewhere are the flags of Helm for a namespace that only these tests use.
var elsewhere = []string{"--namespace", "elsewhere"}

const crd = "customresourcedefinition/podgroups.scheduling.x-k8s.io"

// deleteCRDs deletes the CRDs of the chart, which stay when a release is removed.
func deleteCRDs(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	const queues, jobs = "customresourcedefinition/queues.fluence.flux-framework.org", "customresourcedefinition/fluxjobs.fluence.flux-framework.org"
	if _, _, err := c.Kubectl(t.Context(), "delete", "--wait", crd, queues, jobs); err != nil {
		t.Fatal(err)
	}
}

// nothingIsHalfInstalled tries installations that must fail, on a cluster without Fluence.
func nothingIsHalfInstalled(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	install := slices.Concat(documented(t, "install"), elsewhere)
	for _, value := range stack.ChartValues() {
		install = append(install, "--set", value)
	}
	refused := func(what, set string, want ...string) {
		t.Helper()
		_, err := c.Helm(t.Context(), append(slices.Clone(install), "--set", set)...)
		for _, words := range want {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%s: Helm says nothing of %q: %v", what, words, err)
			}
		}
	}
	kubectl := func(args ...string) {
		t.Helper()
		if _, _, err := c.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	refused("without the CRD", "crds.install=false", "the cluster has no CRD podgroups.scheduling.x-k8s.io")
	refused("without the class", "priorityClassName=nobodys", `the cluster has no PriorityClass "nobodys"`)
	refused("without the Prometheus operator", "metrics.enabled=true,serviceMonitor.enabled=true,networkPolicy.enabled=false", `no matches for kind "ServiceMonitor"`)
	refused("what only the API server refuses", "controller.resources.limits.memory=64Mi",
		"must be less than or equal to memory limit", "has been uninstalled due to rollback-on-failure")
	// No node accepts the pods.
	_, err := c.Helm(t.Context(), append(slices.Clone(install), "--timeout=5s")...)
	if err == nil || !strings.Contains(err.Error(), "Deployment/elsewhere/fluence-scheduler not ready") || !strings.Contains(err.Error(), "has been uninstalled") {
		t.Errorf("pods that do not get ready: Helm says %v", err)
	}
	deleteCRDs(t, c)

	crds := filepath.Join(root(t), "manifests", "crds")
	kubectl("apply", "--server-side", "-f", crds)
	refused("with a CRD of somebody else", "replicas=2", `CustomResourceDefinition "podgroups.scheduling.x-k8s.io"`)
	kubectl("patch", crd, "--type=json", "-p",
		`[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/conditions"}]`)
	refused("with a CRD that has no conditions", "crds.install=false", "has no status.conditions", "manifests/crds")
	nothingIsLeft(t, c)
	deleteCRDs(t, c)
}

// nothingIsLeft fails if objects of the chart, or Helm's own of a release, are left.
func nothingIsLeft(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	kinds := "clusterroles,clusterrolebindings,roles,rolebindings,flowschemas,mutatingwebhookconfigurations,deployments,services," +
		"serviceaccounts,configmaps,networkpolicies,poddisruptionbudgets,secrets"
	for _, label := range []string{"app.kubernetes.io/name=fluence", "owner=helm"} {
		left, _, err := c.Kubectl(t.Context(), "get", kinds, "-A", "-l", label, "-o", "name")
		if err != nil || left != "" {
			t.Errorf("what was refused left %q, %v", left, err)
		}
	}
}

// eachIsUpgraded upgrades from each set of values of
// testdata to another, on a cluster without Fluence.
func eachIsUpgraded(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	command := []string{"install", "--create-namespace"}
	for _, file := range []string{"minimal", "alone", "everything", "minimal", "everything", "alone", "minimal"} {
		args := slices.Concat(command, []string{"fluence", chartDir(t), "--values", filepath.Join("testdata", "values", file+".yaml"),
			"--set", "serviceMonitor.enabled=false", "--set", "prometheusRule.enabled=false"}, elsewhere) // not installed here
		if _, err := c.Helm(t.Context(), args...); err != nil {
			t.Fatalf("%s with the values %s: %v", command[0], file, err)
		}
		command = []string{"upgrade", "--reset-values"}
	}
}

// remediesHelp tries the remedies of docs/install.md for two refusals,
// on the release that eachIsUpgraded left. It removes the release.
func remediesHelp(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if _, _, err := c.Kubectl(t.Context(), append([]string{"scale", "deployment/fluence-scheduler", "--replicas=1"}, elsewhere...)...); err != nil {
		t.Fatal(err)
	}
	run := func(command, release string, more ...string) error {
		_, err := c.Helm(t.Context(), slices.Concat([]string{command, release}, elsewhere, more)...)
		return err
	}
	helps := func(command, release, says, remedy string) {
		t.Helper()
		with := []string{chartDir(t), "--set", registry}
		if err := run(command, release, with...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s %s: Helm says nothing of %q: %v", command, release, says, err)
		}
		if command == "install" {
			_ = run("uninstall", release) // if the refusal left a release
		}
		if err := run(command, release, append(with, remedy)...); err != nil {
			t.Errorf("%s does not help: %v", remedy, err)
		}
		if err := run("uninstall", release); err != nil {
			t.Fatal(err)
		}
		nothingIsLeft(t, c)
	}
	helps("upgrade", "fluence", `conflict with "kubectl" with subresource "scale"`, "--force-conflicts")
	helps("install", "another", `CustomResourceDefinition "podgroups.scheduling.x-k8s.io"`, "--take-ownership")
	deleteCRDs(t, c)
}
