package chart_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/webhook"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/stack"
)

// patience bounds a request.
const patience = 60 * time.Second

// A site is a cluster with the chart installed.
type site struct {
	*testing.T
	*stack.Stack
}

// Helm installs Fluence on a real control plane. Fluence works with the rights
// that the chart grants, and uses all of them. It is upgraded and uninstalled.
func TestInstalled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{StockScheduler: true, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	allIsValid(t, c)
	nothingIsHalfInstalled(t, c)
	eachIsUpgraded(t, c)
	remediesHelp(t, c)
	otherKinds(t, c)
	st, err := stack.Start(ctx, c, stack.Config{
		Chart: &stack.Chart{Set: []string{"controller.emptyGroupDelay=1s", "controller.enforceDuration=true"}}, Verbosity: 4, Log: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t, st}
	t.Cleanup(s.dump)
	s.runAsDeployed()
	s.podsAreAdmitted()
	s.firstJob()
	s.outlasts()
	s.usersSeeTheirGroups()
	s.everyKind()
	s.evicts()
	s.restarts()
	s.queues()
	s.certificateIsMended()
	s.webhookIsGuarded()
	s.metricsAreForReaders()
	s.outlasted()
	s.checkRights()
	s.upgrade()
	s.uninstall()
}

// webhookIsGuarded tries, as the controller, changes that would make
// the webhook change every object, or stop the creation of objects.
func (s *site) webhookIsGuarded() {
	s.Helper()
	for what, change := range guarded {
		s.mayNotChange(what, webhook.ConfigurationName, change)
	}
	// Here the webhook has a url. In a cluster it has a service, as in the manifests.
	text, err := os.ReadFile(filepath.Join(root(s.T), "manifests", "webhook", "configuration.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	s.apply(strings.Replace(string(text), "\n  name: fluence-webhook\n", "\n  name: guarded\n", 1))
	s.mayNotChange("service", "guarded", `{"op": "replace", "path": "/webhooks/0/clientConfig/service/namespace", "value": "other"}`, "--as-group", "system:masters")
	s.kubectl("delete", "mutatingwebhookconfiguration", "guarded")
}

// mayNotChange fails if the controller may make a change of a webhook's configuration.
func (s *site) mayNotChange(what, name, change string, as ...string) {
	s.Helper()
	args := []string{"patch", "mutatingwebhookconfiguration", name, "--type=json", "-p", "[" + change + "]", "--dry-run=server", "--as", "system:serviceaccount:" + stack.Namespace + ":fluence-controller"}
	_, text, err := s.Kubectl(s.Context(), append(args, as...)...)
	if err == nil || !strings.Contains(text, "may change caBundle alone") {
		s.Errorf("the controller may change %s: %v: %s", what, err, text)
	}
}

// guarded are changes of the webhook's configuration that the controller must not make.
var guarded = map[string]string{
	"rules":                   `{"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["*"]}`,
	"matchConditions":         `{"op": "remove", "path": "/webhooks/0/matchConditions"}`,
	"namespaceSelector":       `{"op": "remove", "path": "/webhooks/0/namespaceSelector"}`,
	"objectSelector":          `{"op": "add", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"a": "b"}}}`,
	"failurePolicy":           `{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}`,
	"matchPolicy":             `{"op": "replace", "path": "/webhooks/0/matchPolicy", "value": "Exact"}`,
	"reinvocationPolicy":      `{"op": "replace", "path": "/webhooks/0/reinvocationPolicy", "value": "IfNeeded"}`,
	"sideEffects":             `{"op": "replace", "path": "/webhooks/0/sideEffects", "value": "NoneOnDryRun"}`,
	"timeoutSeconds":          `{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 30}`,
	"admissionReviewVersions": `{"op": "add", "path": "/webhooks/0/admissionReviewVersions/-", "value": "v1beta1"}`,
	"url":                     `{"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": "https://example.com/label"}`,
	"the last entry":          `{"op": "replace", "path": "/webhooks/2/failurePolicy", "value": "Fail"}`,
	"an entry's name":         `{"op": "replace", "path": "/webhooks/0/name", "value": "a.example.com"}`,
	"fewer entries":           `{"op": "remove", "path": "/webhooks/0"}`,
	"more entries": `{"op": "add", "path": "/webhooks/-", "value": {"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
		"clientConfig": {"url": "https://example.com"}, "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}}`,
}

// allIsValid checks that the API server accepts everything that the chart can render.
func allIsValid(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, file := range []string{"minimal", "alone", "everything"} {
		text, err := template(t, "--values", filepath.Join("testdata", "values", file+".yaml"), "--namespace", "default")
		if err != nil {
			t.Fatal(err)
		}
		var known []string
		for doc := range strings.SplitSeq(text, "\n---\n") {
			if !strings.Contains(doc, "\nkind: ServiceMonitor\n") && !strings.Contains(doc, "\nkind: PrometheusRule\n") { // not installed here
				known = append(known, doc)
			}
		}
		in := strings.NewReader(strings.Join(known, "\n---\n"))
		if _, _, err := c.KubectlInput(t.Context(), in, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// metricsAreForReaders reads the controller's metrics with
// the right that docs/metrics.md describes, and without it.
func (s *site) metricsAreForReaders() {
	s.Helper()
	s.kubectl("create", "serviceaccount", "prometheus", "-n", "first")
	token := strings.TrimSpace(s.kubectl("create", "token", "prometheus", "-n", "first"))
	ask := func(ctx context.Context, token string) (code int, text string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.ControllerMetricsURL(), http.NoBody)
		if err != nil {
			return 0, err.Error()
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		client := &http.Client{Timeout: patience, Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the certificate is self-signed
		}}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body) + fmt.Sprint(err)
	}
	if code, text := ask(s.Context(), ""); code != http.StatusUnauthorized {
		s.Errorf("without a token: %d, %.200s", code, text)
	}
	if code, text := ask(s.Context(), token); code != http.StatusForbidden {
		s.Errorf("without the right: %d, %.200s", code, text)
	}
	s.kubectl("create", "clusterrole", "metrics-reader", "--verb=get", "--non-resource-url=/metrics")
	s.kubectl("create", "clusterrolebinding", "metrics-reader", "--clusterrole=metrics-reader", "--serviceaccount=first:prometheus")
	// A refusal counts for half a minute.
	eventually.True(s.Context(), s, "who has the right reads the metrics", func(ctx context.Context) (bool, string) {
		code, text := ask(ctx, token)
		return code == http.StatusOK && strings.Contains(text, "\nfluence_controller_podgroups_total{"), fmt.Sprintf("%d, %.200s", code, text)
	})
	eventually.True(s.Context(), s, "the scheduler serves its sidecar's metrics", func(ctx context.Context) (bool, string) {
		nodes, err := s.SchedulerMetric(ctx, "fluence_sidecar_nodes")
		return err == nil && nodes == 4, fmt.Sprint(nodes, err)
	})
}

func (s *site) kubectl(args ...string) string {
	s.Helper()
	out, _, err := s.Kubectl(s.Context(), args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

func (s *site) apply(manifest string) {
	s.Helper()
	if _, _, err := s.KubectlInput(s.Context(), strings.NewReader(manifest), "apply", "-f", "-"); err != nil {
		s.Fatal(err)
	}
}

func (s *site) dump() {
	if !s.Failed() {
		return
	}
	for _, name := range []string{stack.Scheduler, stack.Controller, stack.Sidecar} {
		if p := s.Process(name); p != nil {
			s.Logf("--- %s:\n%s", name, p.Tail(40))
		}
	}
}

// podsAreAdmitted waits for the pods of both Deployments,
// in a namespace that admits only restricted pods.
func (s *site) podsAreAdmitted() {
	s.Helper()
	eventually.True(s.Context(), s, "two pods of each Deployment", func(ctx context.Context) (bool, string) {
		pods, err := s.Client().CoreV1().Pods(stack.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=fluence"})
		if err != nil {
			return false, err.Error()
		}
		n := map[string]int{}
		for _, p := range pods.Items {
			n[p.Labels["app.kubernetes.io/component"]]++
			s.tokens(p)
		}
		return n["scheduler"] == 2 && n["controller"] == 2, fmt.Sprint(n)
	})
}

// tokens fails unless exactly the containers of an admitted pod that need a token have one.
func (s *site) tokens(p corev1.Pod) {
	s.Helper()
	for _, c := range containers(p.Spec) {
		has := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return strings.HasPrefix(m.MountPath, "/var/run/secrets/kubernetes.io")
		})
		if needs := c.Name != "sidecar"; has != needs {
			s.Errorf("container %s of %s has a token: %t, needs one: %t", c.Name, p.Name, has, needs)
		}
	}
}

// firstJob runs the first example of a user.
func (s *site) firstJob() {
	s.Helper()
	if _, err := s.AddNodes(s.Context(), cluster.Nodes{Count: 4, Name: func(i int) string { return fmt.Sprintf("node-%d", i) }}); err != nil {
		s.Fatal(err)
	}
	s.kubectl("create", "namespace", "first")
	s.kubectl("apply", "-n", "first", "-f", s.Example("job.yaml"))
	if _, err := s.WaitPlaced(s.Context(), "first", 1); err != nil {
		s.Fatal(err)
	}
	s.kubectl("delete", "job", "--all", "-n", "first")
}

// outlasts makes a pod that outlasts its duration, because a PodDisruptionBudget refuses its eviction.
func (s *site) outlasts() {
	s.Helper()
	s.apply(`apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: outlasts, namespace: first}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: outlasts}}
---
apiVersion: v1
kind: Pod
metadata:
  name: outlasts
  namespace: first
  labels: {app: outlasts}
spec:
  schedulerName: fluence
  containers: [{name: c, image: none}]
`)
	s.kubectl("wait", "--for=jsonpath={.status.currentHealthy}=1", "--timeout=60s", "pdb/outlasts", "-n", "first")
	s.kubectl("annotate", "pod", "outlasts", "-n", "first", "fluence.flux-framework.org/duration=1s")
}

// outlasted checks that the controller has deleted the pod.
func (s *site) outlasted() {
	s.Helper()
	s.kubectl("wait", "--for=delete", "--timeout=60s", "pod/outlasts", "-n", "first")
}

// usersSeeTheirGroups checks what Kubernetes' own roles of users allow.
func (s *site) usersSeeTheirGroups() {
	s.Helper()
	const groups, jobs, queues = "podgroups.scheduling.x-k8s.io", "fluxjobs.fluence.flux-framework.org", "queues.fluence.flux-framework.org"
	may := map[string][]string{
		"view":  {"list " + groups, "list " + jobs},
		"edit":  {"list " + groups, "create " + groups, "delete " + groups, "list " + jobs, "patch " + jobs},
		"admin": {"create " + groups, "patch " + jobs},
	}
	mayNot := map[string][]string{
		"view":  {"create " + groups, "patch " + jobs},
		"edit":  {"create " + jobs, "delete " + jobs, "patch " + jobs + " --subresource=status", "list " + queues},
		"admin": {"create " + jobs, "delete " + jobs, "patch " + jobs + " --subresource=status", "patch " + queues},
	}
	can := func(ctx context.Context, role, what string) (bool, string) {
		where := "--namespace=first"
		if strings.HasSuffix(what, queues) {
			where = "--all-namespaces" // a RoleBinding grants also what no namespace has
		}
		said, _, err := s.Kubectl(ctx, slices.Concat([]string{"auth", "can-i", where, "--as=" + role}, strings.Fields(what))...)
		return err == nil, fmt.Sprint(said, err)
	}
	for role := range may {
		s.kubectl("create", "rolebinding", role, "--clusterrole="+role, "--user="+role, "-n", "first")
		for _, what := range may[role] {
			eventually.True(s.Context(), s, role+" may "+what, func(ctx context.Context) (bool, string) { return can(ctx, role, what) })
		}
		for _, what := range mayNot[role] {
			if is, _ := can(s.Context(), role, what); is {
				s.Errorf("who has the role %s in a namespace may %s", role, what)
			}
		}
	}
	// Queues are of the cluster: a RoleBinding does not show them.
	s.kubectl("create", "clusterrolebinding", "queues", "--clusterrole=fluence-queues-view", "--group=system:authenticated")
	eventually.True(s.Context(), s, "all users may list queues", func(ctx context.Context) (bool, string) { return can(ctx, "edit", "list "+queues) })
}

// stop ends a process as a shutdown does. Its token ends with its account.
func (s *site) stop(process string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := s.Process(process).Stop(ctx); err != nil {
		s.Fatalf("stop %s: %v", process, err)
	}
}

func (s *site) helm(args ...string) string {
	s.Helper()
	out, err := s.Helm(s.Context(), args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}
