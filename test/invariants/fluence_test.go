package invariants_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/invariants"
	"github.com/flux-k8s/fluence/test/stack"
)

// groupJob returns a Job of pods with a number of CPUs each, which run for a while.
func groupJob(name string, pods, cpu int, duration string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  parallelism: %d
  completions: %d
  template:
    metadata: {annotations: {kwok.fluence.flux-framework.org/run-for: %s}}
    spec:
      schedulerName: fluence
      restartPolicy: Never
      containers: [{name: c, image: none, resources: {requests: {cpu: %d}}}]
---
`, name, pods, pods, duration, cpu)
}

const lonePod = `apiVersion: v1
kind: Pod
metadata: {name: lone}
spec:
  schedulerName: fluence
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: none, resources: {requests: {cpu: 100}}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: strict}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: strict}}
  template:
    metadata:
      labels: {app: strict}
      annotations: {fluence.flux-framework.org/incomplete-timeout: 2s, fluence.flux-framework.org/incomplete-policy: restart}
    spec:
      schedulerName: fluence
      terminationGracePeriodSeconds: 0
      nodeSelector: {kind: strict}
      containers: [{name: c, image: none, resources: {requests: {cpu: 8}}}]
`

// A few groups come and go under the checker, and the scheduler
// is killed. Every rule is checked, and none is broken.
func TestFluenceBreaksNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{
		Nodes: cluster.Nodes{Count: 4, Labels: strictly}, Log: os.Stderr,
		FeatureGates:  map[string]bool{"GenericWorkload": true},
		RuntimeConfig: map[string]bool{"scheduling.k8s.io/v1beta1": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	s, err := stack.Start(ctx, c, stack.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	checker, err := invariants.Watch(t.Context(), invariants.Config{REST: c.RESTConfig(), Audit: c.AuditLog(), Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	p := &plant{T: t, Cluster: c, Checker: checker}
	client, err := dynamic.NewForConfig(c.RESTConfig())
	p.must(err)
	p.groups = client.Resource(podGroups)
	p.apply(lonePod)
	p.running("strict-0")
	p.running("strict-1")
	p.losesANodeForGood("strict-0")
	for round := range 3 {
		p.apply(groupJob(fmt.Sprintf("small-%d", round), 3, 2, "1s") + groupJob(fmt.Sprintf("large-%d", round), 2, 7, "3s") + groupJob(fmt.Sprintf("never-%d", round), 9, 8, "1s") + nativeGang(fmt.Sprintf("native-%d", round), 3, 2, "2s"))
		p.settle()
	}
	p.restart(s)
	p.settle()
	_, _, err = p.Kubectl(t.Context(), "delete", "jobs,statefulsets,pods", "--all", "--timeout=60s")
	p.must(err)
	violations, err := p.End(t.Context())
	p.must(err)
	for _, v := range violations {
		t.Error(v)
	}
	if t.Failed() {
		t.Log(c.Process(stack.Scheduler).Tail(40))
	}
	st := p.Stats()
	t.Log(st)
	if min(st.Binds, st.Started, st.Together, st.Partial, st.Removals, st.Waited, st.Told, st.Events, st.Excuses, st.Probed) == 0 || st.BindsUnknown > 0 {
		t.Errorf("a rule was not put to the test: %v", st)
	}
}

// nativeGang returns a native PodGroup and its pods, each of which asks for an amount of CPU and runs for a time.
func nativeGang(name string, pods, cpu int, runFor string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: %s}
spec: {schedulingPolicy: {gang: {minCount: %d}}}
`, name, pods)
	for i := range pods {
		fmt.Fprintf(&text, `
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s-%[2]d, annotations: {kwok.fluence.flux-framework.org/run-for: %[4]s}}
spec:
  schedulerName: fluence
  restartPolicy: Never
  schedulingGroup: {podGroupName: %[1]s}
  containers: [{name: c, image: none, resources: {requests: {cpu: %[3]d}}}]
`, name, i, cpu, runFor)
	}
	return text.String()
}

// strictly labels half of the nodes.
func strictly(i int) map[string]string {
	if i%2 == 0 {
		return map[string]string{"kind": "strict"}
	}
	return nil
}

func (p *plant) apply(manifest string) {
	p.Helper()
	_, _, err := p.KubectlInput(p.Context(), strings.NewReader(manifest), "apply", "-f", "-")
	p.must(err)
}

// settle waits until all groups are at rest.
func (p *plant) settle() {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	if err := p.Settle(ctx); err != nil {
		p.Error(err)
	}
}

// losesANodeForGood removes a pod's node, so that its group becomes incomplete and is restarted.
func (p *plant) losesANodeForGood(pod string) {
	p.Helper()
	pods := p.Client().CoreV1().Pods("default")
	got, err := pods.Get(p.Context(), pod, metav1.GetOptions{})
	p.must(err)
	p.must(p.RemoveNodes(p.Context(), got.Spec.NodeName))
	p.must(pods.Delete(p.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	p.eventually("the group is started again", func(context.Context) bool { return p.Stats().Removals > 0 })
}

// restart kills the scheduler and starts it again.
func (p *plant) restart(s *stack.Stack) {
	p.Helper()
	end := p.Excuse("the scheduler is killed")
	p.must(s.Process(stack.Scheduler).Kill(p.Context()))
	p.must(s.StartScheduler(p.Context()))
	p.apply(groupJob("after", 2, 1, "1s"))
	p.eventually("the new scheduler places a group", func(ctx context.Context) bool {
		job, err := p.Client().BatchV1().Jobs("default").Get(ctx, "after", metav1.GetOptions{})
		return err == nil && job.Status.Succeeded == 2
	})
	end()
}
