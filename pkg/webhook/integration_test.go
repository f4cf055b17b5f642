package webhook_test

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
)

const (
	podSpec  = `{schedulerName: fluence, restartPolicy: Never, containers: [{name: c, image: none}]}`
	forever  = `{schedulerName: fluence, containers: [{name: c, image: none}]}`
	job      = `{apiVersion: batch/v1, kind: Job, metadata: {name: train}, spec: {parallelism: 3, completions: 3, template: {spec: ` + podSpec + `}}}`
	selector = `selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: ` + forever + `}`
)

// TestOnARealAPIServer is one story on one control plane: the webhook
// comes up as its parts are installed, labels, and comes back when its
// certificate is lost. Everything works without it when it is gone.
func TestOnARealAPIServer(t *testing.T) {
	e := newEnv(t)
	stop, log := e.serve(e.port)

	t.Run("without rights it waits for them", func(t *testing.T) {
		e := e.in(t)
		e.until("it says what it lacks", func() bool {
			return strings.Contains(log.String(), "get Secret fluence-system/fluence-webhook-cert: secrets")
		})
		e.install("rbac")
		e.until("it says what else it lacks", func() bool {
			return strings.Contains(log.String(), "get MutatingWebhookConfiguration fluence-webhook: mutatingwebhookconfigurations")
		})
		// An operator does it this way. Here no Service leads to the webhook.
		if _, _, err := e.Kubectl(e.ctx, "apply", "--dry-run=server", "-f", "../../manifests/webhook"); err != nil {
			t.Error(err)
		}
		e.configure()
		e.untilServed()
	})
	t.Run("every kind is labelled when it is created", testKinds(e))
	t.Run("pods are labelled as they are made", testPods(e))
	t.Run("who asks in vain for whole nodes is warned", func(t *testing.T) {
		e := e.in(t)
		ns := e.namespace()
		const template = "spec: {parallelism: 3, completions: 3, template: {"
		whole := strings.Replace(job, template, template+`metadata: {annotations: {`+group.ExclusiveAnnotation+`: "true"}}, `, 1)
		warned := func() string {
			out, told, err := e.KubectlInput(e.ctx, strings.NewReader(whole), "create", "-n", ns, "--dry-run=server", "-f", "-")
			if err != nil || !strings.Contains(out, "created") {
				t.Errorf("it is not created: %v: %s", err, out)
			}
			return told
		}
		const want = `Warning: annotation ` + group.ExclusiveAnnotation + `: "true": namespace %q may not have whole nodes: its label ` + group.WholeNodesLabel + ` is "", and an administrator has to set it to "allowed"`
		if told := warned(); !strings.Contains(told, fmt.Sprintf(want, ns)) {
			t.Errorf("the user is told %q, want %q", told, fmt.Sprintf(want, ns))
		}
		if _, _, err := e.Kubectl(e.ctx, "label", "namespace", ns, group.WholeNodesLabel+"="+group.WholeNodesAllowed); err != nil {
			t.Fatal(err)
		}
		if told := warned(); told != "" {
			t.Errorf("with the label the user is told %q", told)
		}
	})
	t.Run("who writes a key that has no effect is warned", testKeyWarnings(e))
	t.Run("it is called for nothing else", testCalls(e))
	t.Run("a dry run shows the labels and leaves nothing", func(t *testing.T) {
		e := e.in(t)
		ns := e.namespace()
		if got := e.create(ns, job, client.DryRunAll).GetLabels()[group.SizeLabel]; got != "3" {
			t.Errorf("size %q, want 3", got)
		}
		out, _, err := e.Kubectl(e.ctx, "get", "jobs,pods,secrets,events", "-n", ns, "--ignore-not-found")
		if err != nil || out != "" {
			t.Errorf("after a dry run there is %s (%v)", out, err)
		}
	})
	t.Run("a JobSet gives its Jobs group and size", testJobSet(e))
	t.Run("Jobs and pods wait in queues", testQueues(e))
	t.Run("a certificate that is lost or spoilt is made again", testCertificates(e))
	t.Run("a second replica serves the same certificate", func(t *testing.T) {
		e := e.in(t)
		port := freePort(t)
		e.serve(port)
		e.until("it serves the certificate of the secret", func() bool {
			return string(e.secret().Data["tls.crt"]) == pemOf(t, port)
		})
	})
	t.Run("creation goes on at once when it is gone", func(t *testing.T) {
		e := e.in(t)
		ns := e.namespace()
		stop()
		begin := time.Now()
		u := e.create(ns, job)
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		if size, ok := u.GetLabels()[group.SizeLabel]; ok {
			t.Errorf("size %q from nobody", size)
		}
		for _, p := range e.pods(ns, 3) {
			if name, ok := p.Labels[group.Label]; ok {
				t.Errorf("pod %s has the group %q from nobody", p.Name, name)
			}
		}
	})
}

// in is the environment for a part of the story.
func (e *env) in(t *testing.T) *env {
	part := *e
	part.T = t
	return &part
}

// testKeyWarnings creates a Job with as many wrong keys as there are warnings at most, and longer ones than
// a warning may be, because the API server cuts warnings that are too long.
func testKeyWarnings(e *env) func(*testing.T) {
	return func(t *testing.T) {
		e := e.in(t)
		ns := e.namespace()
		annotations := `fluence.flux-framework.org/topology-require: rack`
		for n := range group.MaxKeyProblems {
			annotations += fmt.Sprintf(", fluence.flux-framework.org/x%d%s: x", n, strings.Repeat("y", 60))
		}
		const template = "spec: {parallelism: 3, completions: 3, template: {"
		// The Job is suspended, so that nobody makes pods of it while calls are counted.
		wrong := strings.Replace(job, template, "spec: {suspend: true, parallelism: 3, completions: 3, template: {metadata: {annotations: {"+annotations+`}}, `, 1)
		out, told, err := e.KubectlInput(e.ctx, strings.NewReader(wrong), "create", "-n", ns, "-f", "-")
		if err != nil || !strings.Contains(out, "created") {
			t.Errorf("it is not created: %v: %s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(told), "\n")
		want := "Warning: annotation fluence.flux-framework.org/topology-require of the pod template: there is no such key, and it has no effect; did you mean " + group.TopologyRequiredAnnotation + "?"
		if len(lines) != group.MaxKeyProblems || lines[0] != want {
			t.Errorf("the user gets the warnings %q, want %d with %q first", lines, group.MaxKeyProblems, want)
		}
		for _, line := range lines[1 : len(lines)-1] {
			if !strings.HasSuffix(line, "it has no effect") {
				t.Errorf("the API server cut the warning %q", line)
			}
		}
	}
}

func testKinds(e *env) func(*testing.T) {
	cases := map[string]struct {
		object     string
		size, note string
	}{
		"a Job":         {job, "3/3", "3/3"},
		"a CronJob":     {`{apiVersion: batch/v1, kind: CronJob, metadata: {name: w}, spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {parallelism: 2, template: {spec: ` + podSpec + `}}}}}`, "2/2", "2/2"},
		"a Deployment":  {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {replicas: 2, ` + selector + `}}`, "2/1", "2/1"},
		"a ReplicaSet":  {`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: w}, spec: {replicas: 2, ` + selector + `}}`, "2/1", "2/1"},
		"a StatefulSet": {`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: w}, spec: {serviceName: s, replicas: 2, podManagementPolicy: Parallel, ` + selector + `}}`, "2/2", "2/2"},
		"a Job whose user says the size": {
			`{apiVersion: batch/v1, kind: Job, metadata: {name: w, labels: {fluence.group-size: "2"}}, spec: {parallelism: 3, template: {spec: ` + podSpec + `}}}`, "2/", ""},
		"a Job of a size that is wrong": {
			`{apiVersion: batch/v1, kind: Job, metadata: {name: w, labels: {app: a}}, spec: {parallelism: 3, template: {metadata: {labels: {fluence.group-size: x}}, spec: ` + podSpec + `}}}`, "/", ""},
	}
	return func(t *testing.T) {
		e := e.in(t)
		ns := e.namespace()
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				// A dry run passes every step of a creation, and creates no pods.
				got := e.in(t).create(ns, tc.object, client.DryRunAll)
				if size := got.GetLabels()[group.SizeLabel] + "/" + got.GetLabels()[group.MinLabel]; size != tc.size {
					t.Errorf("size and minimum %s, want %s", size, tc.size)
				}
				if note := got.GetAnnotations()[group.DefaultedAnnotation]; note != tc.note {
					t.Errorf("note %q, want %q", note, tc.note)
				}
				if _, ok := got.GetLabels()[group.Label]; ok {
					t.Errorf("labels %v with a group that has no name yet", got.GetLabels())
				}
			})
		}
	}
}

// testPods creates workloads whose controllers create pods.
func testPods(e *env) func(*testing.T) {
	cases := map[string]struct {
		object string
		pods   int
		size   string
	}{
		"of a Job":         {job, 3, "3/3"},
		"of a Deployment":  {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: ` + strings.Repeat("long-", 30) + `name}, spec: {replicas: 2, ` + selector + `}}`, 2, "2/1"},
		"of a StatefulSet": {`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: w}, spec: {serviceName: s, replicas: 2, podManagementPolicy: Parallel, ` + selector + `}}`, 2, "2/2"},
	}
	return func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				e := e.in(t)
				ns := e.namespace()
				u := e.create(ns, tc.object)
				gvk := u.GroupVersionKind()
				want := map[string]string{group.Label: group.Owner{Group: gvk.Group, Kind: gvk.Kind, Name: u.GetName(), UID: u.GetUID()}.PodGroupName()}
				want[group.SizeLabel], want[group.MinLabel], _ = strings.Cut(tc.size, "/")
				for _, p := range e.pods(ns, tc.pods) {
					ours := cmpopts.IgnoreMapEntries(func(key, _ string) bool { _, ok := want[key]; return !ok })
					if diff := cmp.Diff(want, p.Labels, ours); diff != "" {
						t.Errorf("labels of pod %s (-want +got):\n%s", p.Name, diff)
					}
				}
				now := u.DeepCopy()
				if err := e.client.Get(e.ctx, client.ObjectKeyFromObject(u), now); err != nil {
					t.Fatal(err)
				}
				labels, _, _ := unstructured.NestedStringMap(now.Object, "spec", "template", "metadata", "labels")
				if _, ok := labels[group.SizeLabel]; ok {
					t.Errorf("template labels %v", labels)
				}
			})
		}
		t.Run("that stand alone", func(t *testing.T) {
			e := e.in(t)
			u := e.create(e.namespace(), `{apiVersion: v1, kind: Pod, metadata: {generateName: p-}, spec: `+podSpec+`}`)
			if len(u.GetLabels()) > 0 || len(u.GetAnnotations()) > 0 {
				t.Errorf("labels %v, annotations %v", u.GetLabels(), u.GetAnnotations())
			}
		})
	}
}

func testCalls(e *env) func(*testing.T) {
	return func(t *testing.T) {
		e := e.in(t)
		ns := e.namespace()
		suspended := e.create(ns, strings.Replace(job, "parallelism: 3", "suspend: true, parallelism: 3", 1))
		before := e.calls()
		if before == 0 {
			t.Fatal("no call is counted")
		}
		const pod = `{apiVersion: v1, kind: Pod, metadata: {generateName: p-}, spec: `
		e.create(ns, pod+strings.Replace(podSpec, "fluence", "default-scheduler", 1)+"}")
		e.create(ns, strings.Replace(strings.Replace(job, "fluence", "other", 1), "train", "other", 1), client.DryRunAll)
		for _, excluded := range []string{"kube-system", "fluence-system"} {
			e.until("the namespace has a service account", func() bool {
				return e.client.Create(e.ctx, e.read(excluded, pod+podSpec+"}"), client.DryRunAll) == nil
			})
		}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"x": "y"}}}`))
		if err := e.client.Patch(e.ctx, suspended, patch); err != nil {
			t.Fatal(err)
		}
		if n := e.calls() - before; n != 0 {
			t.Errorf("it was called %v times", n)
		}
		e.create(ns, pod+podSpec+"}", client.DryRunAll)
		if n := e.calls() - before; n != 1 {
			t.Errorf("it was called %v times for one pod", n)
		}
	}
}

// jobSets is a CRD with the fields of JobSet that the webhook reads.
const jobSets = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: jobsets.jobset.x-k8s.io}, spec: {
group: jobset.x-k8s.io, scope: Namespaced, names: {kind: JobSet, plural: jobsets}, versions: [{name: v1alpha2, served: true, storage: true,
schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}]}}`

func testJobSet(e *env) func(*testing.T) {
	return func(t *testing.T) {
		e := e.in(t)
		ns := e.namespace()
		e.create("", jobSets)
		if err := e.WaitCRDs(e.ctx, "jobsets.jobset.x-k8s.io"); err != nil {
			t.Fatal(err)
		}
		const set = `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: set}, spec: {replicatedJobs: [{replicas: 2, template: {spec: {parallelism: 3}}}]}}`
		u := e.read(ns, set)
		e.until("the API server knows JobSets", func() bool { return e.client.Create(e.ctx, u) == nil })
		j := e.read(ns, job)
		j.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(u, u.GroupVersionKind())})
		if err := e.client.Create(e.ctx, j); err != nil {
			t.Fatal(err)
		}
		want := group.Owner{Group: "jobset.x-k8s.io", Kind: "JobSet", Name: "set", UID: u.GetUID()}.PodGroupName() + " 6/6"
		if got := j.GetLabels()[group.Label] + " " + j.GetAnnotations()[group.DefaultedAnnotation]; got != want {
			t.Errorf("the Job is of group %q, want %q", got, want)
		}
		for _, p := range e.pods(ns, 3) {
			if got := p.Labels[group.Label] + " " + p.Annotations[group.DefaultedAnnotation]; got != want {
				t.Errorf("pod %s is of group %q, want %q", p.Name, got, want)
			}
		}
	}
}

func testCertificates(e *env) func(*testing.T) {
	return func(t *testing.T) {
		e := e.in(t)
		old := e.secret()
		if err := e.client.Delete(e.ctx, old); err != nil {
			t.Fatal(err)
		}
		e.until("there is another secret, and it is trusted", func() bool {
			s := e.secret()
			return s.UID != "" && s.UID != old.UID && e.trusts(s.Data["ca.crt"])
		})
		e.untilServed()

		lost := e.secret()
		spoilt := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data": {"tls.crt": %q}}`, "bm9uZQ=="))
		if err := e.client.Patch(e.ctx, lost.DeepCopy(), spoilt); err != nil {
			t.Fatal(err)
		}
		e.until("the secret holds another certificate, and it is trusted", func() bool {
			s := e.secret()
			return strings.HasPrefix(string(s.Data["tls.crt"]), "-----BEGIN") && !cmp.Equal(s.Data, lost.Data) && e.trusts(s.Data["ca.crt"])
		})
		e.untilServed()

		if _, _, err := e.Kubectl(e.ctx, "patch", "mutatingwebhookconfiguration", "fluence-webhook", "--type=json",
			`-p=[{"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"}]`); err != nil {
			t.Fatal(err)
		}
		e.until("the authority is written again", func() bool { return e.trusts(e.secret().Data["ca.crt"]) })
		e.untilServed()
	}
}

// pemOf is the certificate that is served at a port of loopback. It is "" if none is served.
func pemOf(t *testing.T, port int) string {
	t.Helper()
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return ""
	}
	defer conn.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw}))
}
