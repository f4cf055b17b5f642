package cluster_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/objects"
)

// A benchmark of schedulers leaves out everything else that would write.
func TestSwitches(t *testing.T) {
	c := start(t, cluster.Config{
		NoAudit:     true,
		NoKubelet:   true,
		NoPodStages: true,
		NoHeartbeat: true,
		NodeLease:   600 * time.Second,
		Nodes:       cluster.Nodes{Count: 1, Allocatable: objects.Amounts("cpu", "2")},
		// What history there is of ConfigMaps is etcd's.
		ExtraArgs: map[string][]string{cluster.KubeAPIServer: {"--watch-cache-sizes=configmaps#0"}},
	})
	t.Run("nobody writes the status of a pod, or removes it", func(t *testing.T) { testNobodyRunsPods(t, c) })
	t.Run("the fake kubelet does not run", func(t *testing.T) {
		if p := c.Process(cluster.FakeKubelet); p != nil {
			t.Errorf("process %d is the fake kubelet", p.PID())
		}
	})
	t.Run("there is no audit log", func(t *testing.T) {
		if _, err := os.Stat(c.AuditLog()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the audit log: %v, want none", err)
		}
		for _, err := range c.AuditEvents() {
			if err == nil {
				t.Fatal("AuditEvents() has an event")
			}
		}
	})
	t.Run("KWOK knows only how to make a node Ready", func(t *testing.T) {
		config, err := os.ReadFile(filepath.Join(c.Dir(), "kwok.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		stages := regexp.MustCompile(`(?m)^kind: Stage\nmetadata:\n  name: (.*)$`).FindAllSubmatch(config, -1)
		if len(stages) != 1 || string(stages[0][1]) != "node-initialize" {
			t.Errorf("the stages of KWOK: %q", stages)
		}
	})
	t.Run("a node's lease is as long as it is told to be", func(t *testing.T) {
		lease, err := c.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(within(t, time.Minute), "node-0000", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := lease.Spec.LeaseDurationSeconds; got == nil || *got != 600 {
			t.Errorf("the lease lasts %v seconds, want 600", got)
		}
	})
	t.Run("history is dropped on demand", func(t *testing.T) { testCompact(t, c) })
}

// testNobodyRunsPods binds a pod with the kubelet's admission, and
// deletes another with a grace period. Then it waits until KWOK has
// made a node Ready. By then KWOK would have acted on both pods.
func testNobodyRunsPods(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, time.Minute)
	pods := c.Client().CoreV1().Pods(corev1.NamespaceDefault)
	for _, name := range []string{"bound", "deleted"} {
		create(ctx, t, c, name, podSpec("cpu", "1"), nil)
		bind(ctx, t, c, name, "node-0000")
	}
	was, err := pods.Get(ctx, "bound", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	was.Status.Conditions = append(was.Status.Conditions, corev1.PodCondition{Type: kubelet.Admitted, Status: corev1.ConditionTrue})
	was, err = pods.UpdateStatus(ctx, was, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(ctx, "deleted", *metav1.NewDeleteOptions(1)); err != nil {
		t.Fatal(err)
	}
	later := cluster.Nodes{Count: 1, Name: func(int) string { return "later" }}
	if _, err := c.AddNodes(ctx, later); err != nil {
		t.Fatal(err)
	}
	is, err := pods.Get(ctx, "bound", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if is.ResourceVersion != was.ResourceVersion {
		t.Errorf("somebody wrote the bound pod: %+v", is.Status)
	}
	if _, err := pods.Get(ctx, "deleted", metav1.GetOptions{}); err != nil {
		t.Errorf("the deleted pod: %v, want it to stay", err)
	}
}

func testCompact(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, time.Minute)
	configs := c.Client().CoreV1().ConfigMaps(corev1.NamespaceDefault)
	m, err := configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "old"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	then := metav1.ListOptions{ResourceVersion: m.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	if list, err := configs.List(ctx, then); err != nil || len(list.Items) == 0 {
		t.Fatalf("list as it was: %v, %v", list, err)
	}
	if err := configs.Delete(ctx, "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if list, err := configs.List(ctx, then); !apierrors.IsResourceExpired(err) {
		t.Errorf("list as it was before Compact(): %d ConfigMaps, %v, want it expired", len(list.Items), err)
	}
}
