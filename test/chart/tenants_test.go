package chart_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
)

// tenants are the bounds for the cases of TestTenants.
const tenants = `image: {registry: registry.example.com}
tenantPolicy:
  enabled: true
  namespaces:
    matchLabels: {team: hpc}
    matchExpressions:
    - {key: env, operator: In, values: [prod, stage]}
    - {key: tier, operator: NotIn, values: [low, lower]}
    - {key: owner, operator: Exists}
    - {key: closed, operator: DoesNotExist}
  restartNamespaces: {matchLabels: {restart: "yes"}}
  maxGroupSize: 10
  maxAntiAffinityTerms: 1
  maxSpreadConstraints: 2
`

// A bounded is a cluster with the bounds of tenants.
type bounded struct {
	*testing.T
	*cluster.Cluster
}

// tell sends a manifest to the API server by kubectl. It
// returns the refusal or the warnings, "" if there are none.
func (b *bounded) tell(manifest string, args ...string) string {
	b.Helper()
	out, told, err := b.KubectlInput(b.Context(), strings.NewReader(manifest), args...)
	if err == nil {
		return told
	}
	if !strings.Contains(told, "denied request: ") {
		b.Fatalf("%v: %s%s", err, out, manifest)
	}
	_, why, _ := strings.Cut(told, "denied request: ")
	return strings.TrimSpace(why)
}

func (b *bounded) kubectl(args ...string) {
	b.Helper()
	if _, _, err := b.Kubectl(b.Context(), args...); err != nil {
		b.Fatal(err)
	}
}

// install installs the chart's policies with some values, and
// the PodGroup CRD. It waits until both policies are in force.
func (b *bounded) install(values string) {
	b.Helper()
	file := b.TempDir() + "/values.yaml"
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		b.Fatal(err)
	}
	text, err := template(b.T, "--values", file)
	if err != nil {
		b.Fatal(err)
	}
	for _, o := range objects(b.T, text) {
		if k := o.kind(); !strings.HasPrefix(k, "ValidatingAdmissionPolicy") && k != "CustomResourceDefinition" || o.name() == "fluence-webhook-guard" {
			continue
		}
		manifest, err := yaml.Marshal(o)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := b.KubectlInput(b.Context(), strings.NewReader(string(manifest)), "apply", "--server-side", "-f", "-"); err != nil {
			b.Fatal(err)
		}
	}
	if err := b.WaitCRDs(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// namespace makes one with these labels, in which pods can be made.
func (b *bounded) namespace(name, labels string) {
	b.Helper()
	manifest := fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {%s}}}", name, labels)
	if _, _, err := b.KubectlInput(b.Context(), strings.NewReader(manifest), "apply", "-f", "-"); err != nil {
		b.Fatal(err)
	}
	eventually.True(b.Context(), b, "a service account", func(ctx context.Context) (bool, string) {
		_, err := b.Client().CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// These are the manifests of the cases. Each has the
// metadata, and further fields of its pods' spec.
const (
	askingPod = `schedulerName: fluence, containers: [{name: c, image: none}]`
	matching  = `selector: {matchLabels: {app: a}}`
)

func barePod(metadata, spec string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: p, %s}, spec: {%s, %s}}`, metadata, askingPod, spec)
}

func jobOf(metadata, spec string) string {
	return fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {%s, template: {metadata: {%s}, spec: {restartPolicy: Never, %s}}}}`, spec, metadata, askingPod)
}

func cronJobOf(metadata, spec string) string {
	return fmt.Sprintf(`{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {%s, template: {metadata: {%s}, spec: {restartPolicy: Never, %s}}}}}}`, spec, metadata, askingPod)
}

// setOf returns a Deployment, ReplicaSet, StatefulSet or DaemonSet.
func setOf(kind, metadata, labels, spec, pods string) string {
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: %s, metadata: {name: s, %s}, spec: {%s, %s, template: {metadata: {labels: {app: a%s}}, spec: {%s, %s}}}}`,
		kind, metadata, spec, matching, labels, askingPod, pods)
}

func podGroup(metadata string, members int) string {
	return fmt.Sprintf(`{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g, %s}, spec: {minMember: %d}}`, metadata, members)
}

// terms returns n affinity terms of a pod's spec.
func terms(n int) string {
	one := `{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: a}}}`
	return `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [` + strings.TrimSuffix(strings.Repeat(one+", ", n), ", ") + `]}}`
}

func spreads(hard, soft int) string {
	var all []string
	for i := range hard + soft {
		what := "DoNotSchedule"
		if i >= hard {
			what = "ScheduleAnyway"
		}
		all = append(all, fmt.Sprintf(`{topologyKey: l%d, maxSkew: 1, whenUnsatisfiable: %s, labelSelector: {matchLabels: {app: a}}}`, i, what))
	}
	return "topologySpreadConstraints: [" + strings.Join(all, ", ") + "]"
}

// Each bound of tenantPolicy, on a real API server, refuses an object
// beyond it with the field's name and value. It admits an object within it.
func TestTenants(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	b := &bounded{t, c}
	const good = "team: hpc, env: prod, owner: us"
	b.namespace("plain", good)
	b.namespace("rich", good+`, tier: high, restart: "yes", fluence.flux-framework.org/whole-nodes: allowed`)
	for name, labels := range map[string]string{
		"no-team": "env: prod, owner: us", "other-team": "team: web, env: prod, owner: us", "no-env": "team: hpc, owner: us", "other-env": "team: hpc, env: test, owner: us",
		"low-tier": good + ", tier: lower", "no-owner": "team: hpc, env: prod", "closed": good + `, closed: ""`,
	} {
		b.namespace(name, labels)
	}
	// This object was created before the policies.
	b.tell(strings.Replace(setOf("Deployment", "namespace: plain", "", "replicas: 0", spreads(4, 0)), "name: s", "name: before", 1), "create", "-f", "-")
	b.tell(strings.Replace(setOf("DaemonSet", "namespace: no-team", "", "minReadySeconds: 0", ""), "schedulerName: fluence", "schedulerName: other", 1), "create", "-f", "-")
	b.install(tenants)
	for _, probe := range []string{barePod("", spreads(3, 0)), podGroup("", 11)} {
		eventually.True(b.Context(), b, "a refusal", func(ctx context.Context) (bool, string) {
			_, told, err := b.KubectlInput(ctx, strings.NewReader(probe), "create", "-n", "plain", "--dry-run=server", "-f", "-")
			return err != nil && strings.Contains(told, "denied request"), told
		})
	}
	b.noWarnings()
	t.Run("each bound", b.eachBound)
	t.Run("namespaces", b.whichNamespaces)
	t.Run("updates", b.updates)
	t.Run("the controller's own", b.theControllers)
	t.Run("by other values", b.otherValues)
}

// in returns the cluster for a part of the test.
func (b *bounded) in(t *testing.T) *bounded { return &bounded{t, b.Cluster} }

// noWarnings waits until the types of both policies were checked without a warning.
func (b *bounded) noWarnings() {
	b.Helper()
	for _, name := range []string{"fluence-tenants", "fluence-tenants-podgroups"} {
		var p *admissionregistrationv1.ValidatingAdmissionPolicy
		eventually.True(b.Context(), b, "a look at "+name, func(ctx context.Context) (bool, string) {
			var err error
			p, err = b.Client().AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
			return err == nil && p.Status.TypeChecking != nil && p.Status.ObservedGeneration == p.Generation, fmt.Sprint(err)
		})
		for _, w := range p.Status.TypeChecking.ExpressionWarnings {
			b.Errorf("%s: %s: %s", name, w.FieldRef, w.Warning)
		}
	}
}

func (b *bounded) eachBound(t *testing.T) {
	const (
		exclusive = `annotations: {fluence.flux-framework.org/exclusive: "true"}`
		policy    = `annotations: {fluence.flux-framework.org/match-policy: hinodex}`
		restart   = `annotations: {fluence.flux-framework.org/incomplete-policy: restart}`
		noNodes   = `: namespace "plain" may not have whole nodes: its label fluence.flux-framework.org/whole-nodes has to be "allowed"`
		noRestart = `metadata.annotations: fluence.flux-framework.org/incomplete-policy: "restart": namespace "plain" is none of tenantPolicy.restartNamespaces: {"matchLabels":{"restart":"yes"}}`
		tooLarge  = ": a group has at most 10 pods (tenantPolicy.maxGroupSize)"
		tooMany   = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution: 2 terms: a pod has at most 1 (tenantPolicy.maxAntiAffinityTerms)"
		tooSpread = `spec.topologySpreadConstraints: 3 with whenUnsatisfiable "DoNotSchedule": a pod has at most 2 (tenantPolicy.maxSpreadConstraints)`
		controls  = "ownerReferences: [{apiVersion: v1, kind: Thing, name: t, uid: u, controller: true}]"
	)
	size := func(key string, n any) string { return fmt.Sprintf(`labels: {fluence.group-%s: "%v"}`, key, n) }
	cases := map[string]struct{ in, object, want string }{
		"a pod of nothing":                   {"plain", barePod("", ""), ""},
		"a pod on whole nodes":               {"plain", barePod(exclusive, ""), `metadata.annotations: fluence.flux-framework.org/exclusive: "true"` + noNodes},
		"a pod on whole nodes by policy":     {"plain", barePod(policy, ""), `metadata.annotations: fluence.flux-framework.org/match-policy: "hinodex"` + noNodes},
		"a pod on whole nodes that may":      {"rich", barePod(exclusive, ""), ""},
		"a pod on shared nodes":              {"plain", barePod(`annotations: {fluence.flux-framework.org/exclusive: "false", fluence.flux-framework.org/match-policy: hinode}`, ""), ""},
		"a Job on whole nodes":               {"plain", jobOf(exclusive, "parallelism: 1"), `spec.template.metadata.annotations: fluence.flux-framework.org/exclusive: "true"` + noNodes},
		"a CronJob on whole nodes":           {"plain", cronJobOf(policy, "parallelism: 1"), `spec.jobTemplate.spec.template.metadata.annotations: fluence.flux-framework.org/match-policy: "hinodex"` + noNodes},
		"a CronJob on whole nodes that may":  {"rich", cronJobOf(policy, "parallelism: 1"), ""},
		"a PodGroup on whole nodes":          {"plain", podGroup(exclusive, 1), `metadata.annotations: fluence.flux-framework.org/exclusive: "true"` + noNodes},
		"a PodGroup on whole nodes that may": {"rich", podGroup(exclusive, 1), ""},
		"a pod that restarts others":         {"plain", barePod(restart, ""), noRestart},
		"a pod that waits":                   {"plain", barePod(`annotations: {fluence.flux-framework.org/incomplete-policy: wait}`, ""), ""},
		"a Job that restarts":                {"plain", jobOf(restart, "parallelism: 1"), "spec.template." + noRestart},
		"a Job that restarts and may":        {"rich", jobOf(restart, "parallelism: 1"), ""},
		"a PodGroup that restarts":           {"plain", podGroup(restart, 1), noRestart},
		"a PodGroup that restarts and may":   {"rich", podGroup(restart, 1), ""},
		"a pod of a large group":             {"plain", barePod(size("size", 11), ""), `metadata.labels: fluence.group-size: "11"` + tooLarge},
		"a pod of a group just as large":     {"plain", barePod(size("size", 10), ""), ""},
		"a pod of a group with a large part": {"plain", barePod(size("min", "0000000000011"), ""), `metadata.labels: fluence.group-min: "0000000000011"` + tooLarge},
		"a pod of a size that is none":       {"plain", barePod(size("size", "large"), ""), ""},
		"a Job that says a large size":       {"plain", jobOf(size("size", 11), "parallelism: 1"), `spec.template.metadata.labels: fluence.group-size: "11"` + tooLarge},
		"a large Job":                        {"plain", jobOf("", "parallelism: 11"), "spec.parallelism: 11" + tooLarge},
		"a Job just as large":                {"plain", jobOf("", "parallelism: 10, completions: 1000"), ""},
		"a large Job of many completions":    {"plain", jobOf("", "parallelism: 11, completions: 11"), "spec.parallelism: 11" + tooLarge},
		"a large Job of few completions":     {"plain", jobOf("", "parallelism: 1000, completions: 10"), ""},
		"a large CronJob":                    {"plain", cronJobOf("", "parallelism: 11"), "spec.jobTemplate.spec.parallelism: 11" + tooLarge},
		"a CronJob just as large":            {"plain", cronJobOf("", "parallelism: 10"), ""},
		"a large Deployment":                 {"plain", setOf("Deployment", "", "", "replicas: 11", ""), "spec.replicas: 11" + tooLarge},
		"a Deployment just as large":         {"plain", setOf("Deployment", "", "", "replicas: 10", ""), ""},
		"a large ReplicaSet":                 {"plain", setOf("ReplicaSet", "", "", "replicas: 11", ""), "spec.replicas: 11" + tooLarge},
		"a ReplicaSet of another's":          {"plain", setOf("ReplicaSet", controls, "", "replicas: 11", ""), ""},
		"another's ReplicaSet of large ones": {"plain", setOf("ReplicaSet", controls, `, fluence.group-size: "11"`, "replicas: 1", ""), `spec.template.metadata.labels: fluence.group-size: "11"` + tooLarge},
		"a large StatefulSet":                {"plain", setOf("StatefulSet", "", "", "serviceName: x, replicas: 11", ""), "spec.replicas: 11" + tooLarge},
		"a StatefulSet just as large":        {"plain", setOf("StatefulSet", "", "", "serviceName: x, replicas: 10", ""), ""},
		"a large PodGroup":                   {"plain", podGroup("", 11), "spec.minMember: 11" + tooLarge},
		"a PodGroup just as large":           {"plain", podGroup("", 10), ""},
		"a PodGroup of many owners":          {"plain", podGroup(owners(129, "thing"), 1), "metadata.ownerReferences: 129 references: a PodGroup has at most 128"},
		"a PodGroup of some owners":          {"plain", podGroup(owners(128, "thing"), 1), ""},
		"a PodGroup of a long owner":         {"plain", podGroup(owners(1, strings.Repeat("thing-", 53)), 1), "metadata.ownerReferences: a field of a reference has at most 317 characters"},
		"a PodGroup of many resources":       {"plain", manyResources(129), "spec.minResources: 129 resources: a PodGroup has at most 128"},
		"a PodGroup of some resources":       {"plain", manyResources(128), ""},
		"a PodGroup of many labels":          {"plain", podGroup(manyLabels(128)+`, finalizers: [a/b]`, 1), "metadata: 129 labels and finalizers: a PodGroup has at most 128"},
		"a PodGroup of some labels":          {"plain", podGroup(manyLabels(128), 1), ""},
		"a pod of many terms":                {"plain", barePod("", terms(2)), tooMany},
		"a pod of one term":                  {"plain", barePod("", terms(1)), ""},
		"a DaemonSet of many terms":          {"plain", setOf("DaemonSet", "", "", "minReadySeconds: 0", terms(2)), "spec.template." + tooMany},
		"a DaemonSet of one term":            {"plain", setOf("DaemonSet", "", "", "minReadySeconds: 0", terms(1)), ""},
		"a pod of many spreads":              {"plain", barePod("", spreads(3, 0)), tooSpread},
		"a pod of some spreads":              {"plain", barePod("", spreads(2, 5)), ""},
		"a StatefulSet of many spreads":      {"plain", setOf("StatefulSet", "", "", "serviceName: x", spreads(3, 0)), "spec.template." + tooSpread},
		"a StatefulSet of some spreads":      {"plain", setOf("StatefulSet", "", "", "serviceName: x", spreads(2, 1)), ""},
		"a pod of another scheduler":         {"plain", strings.Replace(barePod(exclusive, terms(2)+", "+spreads(3, 0)), "schedulerName: fluence", "schedulerName: other", 1), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if told := b.in(t).tell(tc.object, "create", "-n", tc.in, "--dry-run=server", "-f", "-"); told != tc.want {
				t.Errorf("it says  %q\nwant it  %q", told, tc.want)
			}
		})
	}
}

// owners are so many owner references of this name, as a field of metadata.
func owners(n int, name string) string {
	refs := make([]string, n)
	for i := range refs {
		refs[i] = fmt.Sprintf("{apiVersion: v1, kind: Thing, name: %s, uid: u-%d}", name, i)
	}
	return "ownerReferences: [" + strings.Join(refs, ", ") + "]"
}

// manyResources is a PodGroup with so many types of resources.
func manyResources(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"example.com/r-%d": 1`, i)
	}
	return `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 1, minResources: {` + strings.Join(all, ", ") + `}}}`
}

// manyLabels are so many labels, as a field of metadata.
func manyLabels(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`l-%d: ""`, i)
	}
	return "labels: {" + strings.Join(all, ", ") + "}"
}

func (b *bounded) whichNamespaces(t *testing.T) {
	b = b.in(t)
	for name, ok := range map[string]bool{
		"plain": true, "rich": true, "no-team": false, "other-team": false, "no-env": false, "other-env": false, "low-tier": false, "no-owner": false, "closed": false,
	} {
		told := b.tell(barePod("", ""), "create", "-n", name, "--dry-run=server", "-f", "-")
		want := fmt.Sprintf(`spec.schedulerName: "fluence": namespace %q is none of tenantPolicy.namespaces: {"matchExpressions":`, name)
		if ok && told != "" || !ok && !strings.HasPrefix(told, want) {
			t.Errorf("namespace %s: it says %q, may: %t", name, told, ok)
		}
	}
}

// An object older than the policies may be updated, but not made worse.
func (b *bounded) updates(t *testing.T) {
	b = b.in(t)
	cases := map[string]struct{ in, object, patch, want string }{
		"what is beyond a bound, otherwise": {"plain", "deployment/before", `{"spec": {"replicas": 1}}`, ""},
		"it becomes too large":              {"plain", "deployment/before", `{"spec": {"replicas": 11}}`, "spec.replicas: 11: "},
		"it becomes better":                 {"plain", "deployment/before", `{"spec": {"template": {"spec": ` + asJSON(t, spreads(3, 0)) + `}}}`, ""},
		"it becomes worse":                  {"plain", "deployment/before", `{"spec": {"template": {"spec": ` + asJSON(t, spreads(5, 0)) + `}}}`, "spec.template.spec.topologySpreadConstraints: 5 "},
		"it comes to ask for whole nodes":   {"plain", "deployment/before", `{"spec": {"template": {"metadata": {"annotations": {"fluence.flux-framework.org/exclusive": "true"}}}}}`, "spec.template.metadata.annotations: fluence.flux-framework.org/exclusive"},
		"it comes to ask for Fluence":       {"no-team", "daemonset/s", `{"spec": {"template": {"spec": {"schedulerName": "fluence"}}}}`, `spec.template.spec.schedulerName: "fluence": namespace "no-team"`},
		"what asks for another":             {"no-team", "daemonset/s", `{"spec": {"template": {"spec": {"schedulerName": "third"}}}}`, ""},
	}
	for name, tc := range cases {
		told := b.tell("", "patch", tc.object, "-n", tc.in, "--type=merge", "--dry-run=server", "-p", tc.patch)
		if tc.want == "" && told != "" || !strings.HasPrefix(told, tc.want) {
			t.Errorf("%s: it says %q, want %q", name, told, tc.want)
		}
	}
}

// asJSON returns a field as a JSON object.
func asJSON(t *testing.T, field string) string {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte("{" + field + "}"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The controller creates the PodGroup of an admitted object.
func (b *bounded) theControllers(t *testing.T) {
	b = b.in(t)
	const account = "system:serviceaccount:fluence-system:fluence-controller"
	b.kubectl("create", "clusterrolebinding", "controller", "--clusterrole=cluster-admin", "--user="+account)
	eventually.True(b.Context(), b, "the right to make PodGroups", func(ctx context.Context) (bool, string) {
		_, told, err := b.KubectlInput(ctx, strings.NewReader(podGroup("", 11)), "create", "-n", "plain", "--dry-run=server", "-f", "-", "--as", account)
		return err == nil, told
	})
}

// The bounds follow the values.
func (b *bounded) otherValues(t *testing.T) {
	b = b.in(t)
	const exclusive = `annotations: {fluence.flux-framework.org/exclusive: "true", fluence.flux-framework.org/incomplete-policy: restart}`
	says := func(what, part string) {
		t.Helper()
		eventually.True(b.Context(), b, what, func(context.Context) (bool, string) {
			told := b.tell(barePod(exclusive, spreads(3, 0)), "create", "-n", "rich", "--dry-run=server", "-f", "-")
			return strings.Contains(told, part) && (part != "") == (told != ""), told
		})
	}
	b.install("{image: {registry: r.example.com}, scheduler: {args: {wholeNodes: none}}, tenantPolicy: {enabled: true}}")
	says("nobody may have whole nodes", "may not have whole nodes (scheduler.args.wholeNodes is none)")
	b.install("{image: {registry: r.example.com}, scheduler: {args: {wholeNodes: all}}, tenantPolicy: {enabled: true}}")
	says("all may have whole nodes, and the other bounds have their defaults", "")
	b.install("{image: {registry: r.example.com}, tenantPolicy: {enabled: true, action: Warn, maxSpreadConstraints: 1}}")
	says("a warning instead", "Warning: ")
}
