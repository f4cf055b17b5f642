package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/process"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/metricdoc"
)

const (
	manifests = "../../manifests"
	crdFile   = manifests + "/crds/scheduling.x-k8s.io_podgroups.yaml"
)

// The program starts before the CRD is installed, works with a CRD that is older than itself and
// without the webhook's configuration, ends when it gets a signal, and continues after a restart.
func TestProgramOutlivesAMissingAndAnOldCRD(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	binary := filepath.Join(t.TempDir(), "fluence-controller")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	c, err := cluster.Start(t.Context(), cluster.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// Without rights it lives, is not ready, and ends when it gets a signal.
	p, url, _ := launch(ctx, t, c, binary)
	if code := status(ctx, t, url+"/readyz"); code == http.StatusOK {
		t.Error("it is ready without any right")
	}
	if err := p.WaitLog(ctx, "is forbidden"); err != nil {
		t.Fatal(err)
	}
	stop(ctx, t, p)
	p, url, metricsURL := launch(ctx, t, c, binary)
	kubectl(ctx, t, c, nil, "apply", "-f", manifests+"/rbac")
	if err := p.WaitHTTP(ctx, http.DefaultClient, url+"/readyz"); err != nil {
		t.Fatal(err)
	}
	metricsAreForReaders(ctx, t, c, metricsURL)
	if err := p.WaitLog(ctx, "CRD podgroups.scheduling.x-k8s.io is not installed; apply manifests/crds"); err != nil {
		t.Fatal(err)
	}
	servesWhatAlertsAskFor(ctx, t, metricsURL, token(ctx, t, c, "reader"))
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "train"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			SchedulerName: "fluence", RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "c", Image: "none"}},
		}}},
	}
	if job, err = c.Client().BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: job.Namespace, Name: group.Owner{Group: "batch", Kind: "Job", Name: job.Name, UID: job.UID}.PodGroupName()}

	kubectl(ctx, t, c, plainCRD(t), "apply", "-f", "-")
	if err := c.WaitCRDs(ctx, scheduling.CRDName); err != nil {
		t.Fatal(err)
	}
	old := until(ctx, t, c, key, func(pg *scheduling.PodGroup) bool { return pg.Status.Phase == scheduling.PodGroupPending })
	lease, err := c.Client().CoordinationV1().Leases("fluence-system").Get(ctx, "fluence-controller", metav1.GetOptions{})
	if err != nil || lease.Spec.LeaseDurationSeconds == nil || *lease.Spec.LeaseDurationSeconds != 20 {
		t.Errorf("the lease is %+v, %v; want one of 20 s", lease.Spec, err)
	}
	if old.Status.CreationTime != nil || len(old.Status.Conditions) > 0 {
		t.Fatalf("status %+v under a CRD that has no such fields", old.Status)
	}
	if err := p.WaitLog(ctx, "The CRD of PodGroup is older than this controller"); err != nil {
		t.Error(err)
	}
	if err := p.WaitLog(ctx, "Serving the webhook"); err != nil {
		t.Error(err)
	}
	stop(ctx, t, p)

	kubectl(ctx, t, c, nil, "apply", "-f", crdFile)
	p = start(ctx, t, c, binary)
	now := until(ctx, t, c, key, func(pg *scheduling.PodGroup) bool { return pg.Status.CreationTime != nil })
	if now.UID != old.UID || len(now.Status.Conditions) == 0 {
		t.Errorf("after the CRD was brought up to date: %+v, want the same PodGroup with conditions", now)
	}
	queuesComeAndGo(ctx, t, c, p)
	stop(ctx, t, p)
}

// queuesComeAndGo installs the CRDs of queues while the program runs, and removes them. Without them no Job is suspended.
func queuesComeAndGo(ctx context.Context, t *testing.T, c *cluster.Cluster, p *process.Process) {
	t.Helper()
	queued := func(name string) *batchv1.Job {
		job, err := c.Client().BatchV1().Jobs(corev1.NamespaceDefault).Create(ctx, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.QueueLabel: "batch"}},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				SchedulerName: "fluence", RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "none"}},
			}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	podGroup := func(job *batchv1.Job) client.ObjectKey {
		return client.ObjectKey{Namespace: job.Namespace, Name: group.Owner{Group: "batch", Kind: "Job", Name: job.Name, UID: job.UID}.PodGroupName()}
	}
	until(ctx, t, c, podGroup(queued("before")), func(*scheduling.PodGroup) bool { return true })
	kubectl(ctx, t, c, nil, "apply", "-f", manifests+"/crds")
	if err := p.WaitLog(ctx, "The API server serves Queues and FluxJobs"); err != nil {
		t.Fatal(err)
	}
	queued("waits")
	eventually.True(ctx, t, "the Job is suspended", func(ctx context.Context) (bool, string) {
		job, err := c.Client().BatchV1().Jobs(corev1.NamespaceDefault).Get(ctx, "waits", metav1.GetOptions{})
		return err == nil && *job.Spec.Suspend, fmt.Sprint(err)
	})
	kubectl(ctx, t, c, nil, "delete", "crd", v1alpha1.QueueCRDName, v1alpha1.FluxJobCRDName)
	if err := p.WaitLog(ctx, "does not serve Queues and FluxJobs any more"); err != nil {
		t.Fatal(err)
	}
	after := queued("after")
	until(ctx, t, c, podGroup(after), func(*scheduling.PodGroup) bool { return true })
	if job, err := c.Client().BatchV1().Jobs(after.Namespace).Get(ctx, after.Name, metav1.GetOptions{}); err != nil || *job.Spec.Suspend {
		t.Errorf("the Job is suspended without the CRDs, %v", err)
	}
}

// start starts the program and waits until it is ready.
func start(ctx context.Context, t *testing.T, c *cluster.Cluster, binary string) *process.Process {
	t.Helper()
	p, url, _ := launch(ctx, t, c, binary)
	if err := p.WaitHTTP(ctx, http.DefaultClient, url+"/readyz"); err != nil {
		t.Fatal(err)
	}
	return p
}

// launch starts the program and waits until it lives. It
// returns the addresses of its probes and of its metrics.
func launch(ctx context.Context, t *testing.T, c *cluster.Cluster, binary string) (p *process.Process, probes, metrics string) {
	t.Helper()
	kubeconfig, err := c.KubeconfigFor("system:serviceaccount:fluence-system:fluence-controller",
		"system:serviceaccounts", "system:serviceaccounts:fluence-system")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := cluster.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	addr, metricsAddr := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[2])
	p, err = c.StartProcess(ctx, "fluence-controller", binary, "--kubeconfig", kubeconfig, "-v=2",
		"--leader-elect-resource-namespace=fluence-system", "--leader-elect-lease-duration=20s",
		"--metrics-bind-address="+metricsAddr, "--health-probe-bind-address="+addr,
		"--webhook-bind-address=127.0.0.1", fmt.Sprintf("--webhook-port=%d", ports[1]))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitHTTP(ctx, http.DefaultClient, "http://"+addr+"/healthz"); err != nil {
		t.Fatal(err)
	}
	return p, "http://" + addr, "https://" + metricsAddr + "/metrics"
}

// servesWhatAlertsAskFor checks that the documented metrics of libraries
// exist once the program has its lease, and that they show the lease.
func servesWhatAlertsAskFor(ctx context.Context, t *testing.T, url, token string) {
	t.Helper()
	rows, err := metricdoc.Read()
	if err != nil {
		t.Fatal(err)
	}
	const leads = `leader_election_master_status{name="fluence-controller"} 1`
	var text string
	eventually.True(ctx, t, "it serves "+leads, func(ctx context.Context) (bool, string) {
		_, text = get(ctx, t, url, token)
		return strings.Contains(text, leads), text
	})
	for _, r := range rows[metricdoc.Libraries] {
		sample := regexp.MustCompile(`(?m)^` + r.Name + `(\{([a-z]+="[^"]*",?)*\})? `).FindString(text)
		if sample == "" {
			t.Errorf("%s is not served", r.Name)
		}
		for _, label := range r.Labels {
			if !strings.Contains(sample, label+`="`) {
				t.Errorf("%s has no label %q: %s", r.Name, label, sample)
			}
		}
	}
}

// status is the status code of a response.
func status(ctx context.Context, t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// stop ends the program by SIGTERM, which is no failure.
func stop(ctx context.Context, t *testing.T, p *process.Process) {
	t.Helper()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if code := p.State().ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0:\n%s", code, p.Tail(20))
	}
}

func kubectl(ctx context.Context, t *testing.T, c *cluster.Cluster, in []byte, args ...string) {
	t.Helper()
	if _, _, err := c.KubectlInput(ctx, bytes.NewReader(in), args...); err != nil {
		t.Fatal(err)
	}
}

// plainCRD is the CRD with only the fields of scheduler-plugins.
func plainCRD(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	withDefault := properties["status"]
	withDefault.Default = nil
	properties["status"] = withDefault
	status := withDefault.Properties
	for _, field := range []string{"creationTime", "conditions", "scheduled", "desired"} {
		if _, ok := status[field]; !ok {
			t.Fatalf("the CRD has no status.%s", field)
		}
		delete(status, field)
	}
	if text, err = yaml.Marshal(&crd); err != nil {
		t.Fatal(err)
	}
	return text
}

// until watches a PodGroup until ok returns true.
func until(ctx context.Context, t *testing.T, c *cluster.Cluster, key client.ObjectKey, ok func(*scheduling.PodGroup) bool) *scheduling.PodGroup {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := scheduling.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cl, err := client.NewWithWatch(c.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w, err := cl.Watch(ctx, &scheduling.PodGroupList{}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil {
		t.Fatalf("watch pod group %s: %v", key, err)
	}
	defer w.Stop()
	for ev := range w.ResultChan() {
		if pg, is := ev.Object.(*scheduling.PodGroup); is && ok(pg) {
			return pg
		}
	}
	t.Fatalf("pod group %s is not as wanted:\n%s", key, c.Process("fluence-controller").Tail(20))
	return nil
}
