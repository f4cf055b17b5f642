package webhook_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// testQueues: without the CRDs nothing is held. With them a Job is made suspended, and a pod gated.
func testQueues(e *env) func(*testing.T) {
	return func(t *testing.T) {
		e := e.in(t)
		ns := e.namespace()
		named := strings.Replace(job, "name: train", "name: train, labels: {"+group.QueueLabel+": batch}", 1)
		held := func() *unstructured.Unstructured { return e.create(ns, named, client.DryRunAll) }
		suspended := func(u *unstructured.Unstructured) bool {
			is, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
			return is
		}
		if suspended(held()) {
			t.Error("it is suspended without the CRDs: nobody would let it go")
		}
		e.install("crds")
		if err := e.WaitCRDs(e.ctx, v1alpha1.QueueCRDName, v1alpha1.FluxJobCRDName); err != nil {
			t.Fatal(err)
		}
		queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Spec: v1alpha1.QueueSpec{NamespaceSelector: &metav1.LabelSelector{}}}
		if err := e.client.Create(e.ctx, queue); err != nil {
			t.Fatal(err)
		}
		e.until("a Job is suspended", func() bool { return suspended(held()) })
		u := held()
		if u.GetAnnotations()[group.QueuedAnnotation] == "" {
			t.Errorf("annotations %v", u.GetAnnotations())
		}
		if label, _, _ := unstructured.NestedString(u.Object, "spec", "template", "metadata", "labels", group.QueueLabel); label != "batch" {
			t.Errorf("its pods have the label %q", label)
		}
		single := `{apiVersion: v1, kind: Pod, metadata: {name: one, labels: {` + group.QueueLabel + `: batch}}, spec: ` + podSpec + `}`
		pod := e.create(ns, single, client.DryRunAll)
		gates, _, _ := unstructured.NestedSlice(pod.Object, "spec", "schedulingGates")
		if len(gates) != 1 || gates[0].(map[string]any)["name"] != v1alpha1.QueueGate {
			t.Errorf("gates %v", gates)
		}
		warned := func(manifest string) string {
			_, told, err := e.KubectlInput(e.ctx, strings.NewReader(manifest), "create", "-n", ns, "--dry-run=server", "-f", "-")
			if err != nil {
				t.Error(err)
			}
			return told
		}
		if told := warned(named); told != "" {
			t.Errorf("the user is told %q", told)
		}
		if told := warned(strings.Replace(named, "queue: batch", "queue: bach", 1)); !strings.Contains(told, "queue bach: NoQueue: there is no such Queue") {
			t.Errorf("the user is told %q", told)
		}
		for _, manifest := range []string{named, single} {
			elsewhere := strings.Replace(manifest, "schedulerName: fluence", "schedulerName: default-scheduler", 1)
			if told := warned(elsewhere); !strings.Contains(told, "only pods of the scheduler fluence wait in queues") {
				t.Errorf("the user of another scheduler is told %q of %s", told, elsewhere)
			}
		}
		if err := e.client.Delete(e.ctx, queue); err != nil {
			t.Fatal(err)
		}
	}
}
