package cluster_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLoad(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	n, _ := strconv.Atoi(os.Getenv("NODES"))
	pods, _ := strconv.Atoi(os.Getenv("PODS"))
	c, err := cluster.Start(ctx, cluster.Config{NodeLease: lease(), ExtraArgs: kcm(), Nodes: cluster.Nodes{Count: n}, StockScheduler: true, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop(ctx)
	s := time.Now()
	p := int32(pods)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{Parallelism: &p, Completions: &p,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: "Never", Containers: []corev1.Container{{Name: "c", Image: "x",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}}}}
	if _, err := c.Client().BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var bound, running time.Duration
	for running == 0 {
		l, err := c.Client().CoreV1().Pods("default").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			t.Fatal(err)
		}
		b, r := 0, 0
		for _, p := range l.Items {
			if p.Spec.NodeName != "" {
				b++
			}
			if p.Status.Phase == "Running" {
				r++
			}
		}
		if b == pods && bound == 0 {
			bound = time.Since(s)
		}
		if r == pods {
			running = time.Since(s)
		}
		time.Sleep(200 * time.Millisecond)
	}
	fmt.Printf("pods %d: bound %v running %v: %.0f/s\n", pods, bound, running, float64(pods)/running.Seconds())
	for _, p := range c.Processes() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		var f [20]string
		_ = f
		fmt.Println(p.Name(), p.Memory()>>20, "MB", cpu(b))
	}
	m := map[string]int{}
	for e, err := range c.AuditEvents() {
		if err != nil {
			t.Fatal(err)
		}
		if e.ObjectRef != nil {
			m[e.User.Username+" "+e.Verb+" "+e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource]++
		}
	}
	for k, v := range m {
		if v > 100 {
			fmt.Println(v, k)
		}
	}
	if os.Getenv("KEEP") != "" {
		os.RemoveAll("/tmp/keep")
		os.CopyFS("/tmp/keep", os.DirFS(c.Logs()))
	}
}

func cpu(stat []byte) string {
	var f []string
	for _, w := range splitFields(stat) {
		f = append(f, w)
	}
	return "utime " + f[13] + " stime " + f[14]
}

func splitFields(b []byte) []string {
	var out []string
	cur := ""
	for _, c := range string(b) {
		if c == ' ' {
			out = append(out, cur)
			cur = ""
			continue
		}
		cur += string(c)
	}
	return out
}
func lease() time.Duration { d, _ := time.ParseDuration(os.Getenv("LEASE")); return d }
func kcm() map[string][]string { if os.Getenv("NOTTL") == "" { return nil }; return map[string][]string{"kube-controller-manager": {"--controllers=*,-ttl-controller"}} }
