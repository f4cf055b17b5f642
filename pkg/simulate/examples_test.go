package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/objects"
)

// exampleCluster is a cluster of 16 nodes in two zones and four racks, with a device each.
func exampleCluster() Cluster {
	c := Cluster{Objects: []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "ns", Labels: map[string]string{group.WholeNodesLabel: group.WholeNodesAllowed},
	}}}}
	for i := range 16 {
		n := objects.ReadyNode(fmt.Sprintf("n%02d", i), 8)
		n.Labels = map[string]string{corev1.LabelHostname: n.Name, corev1.LabelTopologyZone: []string{"a", "b"}[i/8], "network.topology.nvidia.com/block": fmt.Sprintf("block%d", i/8), "example.com/rack": fmt.Sprintf("rack%d", i/4), "topology.fluence.flux-framework.org/rack": fmt.Sprintf("rack%d", i/4), "role": map[bool]string{true: "login"}[i == 0]}
		c.Objects = append(c.Objects, n, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "accelerator.example.com", NodeName: &n.Name, Pool: resourcev1.ResourcePool{Name: n.Name, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "d"}},
		}})
	}
	return c
}

func TestEachExampleCanBeSimulated(t *testing.T) {
	// These do not start on an empty cluster, for the reason given.
	waits := map[string]string{
		"five-in-a-rack.yaml":  "NeverFits",
		"missing-member.yaml":  "Gathering",
		"nodes-ruled-out.yaml": "NeverFits",
	}
	// The kinds of these owners are not known.
	unknown := []string{"daemonset.yaml", "kueue.yaml", "queue.yaml", "trainjob.yaml"}
	examples := filepath.Join("..", "..", "manifests", "examples")
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	ofOperators, err2 := filepath.Glob(filepath.Join(examples, "operators", "*.yaml"))
	if err != nil || err2 != nil || len(files) == 0 || len(ofOperators) == 0 {
		t.Fatalf("examples %v and %v, errors %v and %v", files, ofOperators, err, err2)
	}
	files = append(files, ofOperators...)
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := shipped.WithLevels([]string{corev1.LabelTopologyZone, "network.topology.nvidia.com/block", "example.com/rack"})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := exampleCluster()
			w, err := Make(parsed(t, string(text)), c, "fluence", time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			isUnknown := slices.ContainsFunc(w.Notes, func(n string) bool { return strings.Contains(n, "kind is not known") })
			if want := slices.Contains(unknown, filepath.Base(file)); isUnknown != want {
				t.Errorf("notes %q: a kind is not known: %v, want %v", w.Notes, isUnknown, want)
			}
			r, err := New(t.Context(), c.With(w.Cluster), configuration)
			if err != nil {
				t.Fatal(err)
			}
			want := waits[filepath.Base(file)]
			for _, key := range r.Groups() {
				d, err := r.Decide(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if d.Starts != (want == "") || !d.Starts && d.Reason != want {
					t.Errorf("%s: %s, want %q", key, d.line(), want)
				}
			}
		})
	}
}
