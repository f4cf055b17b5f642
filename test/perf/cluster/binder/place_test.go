package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

// pods returns pods written NAME:CPU, or NAME:CPU@NODE
// if they are bound. Nodes are written NAME:CPU.
func pods(specs ...string) []corev1.Pod {
	var out []corev1.Pod
	for _, spec := range specs {
		spec, node, _ := strings.Cut(spec, "@")
		name, cpu, _ := strings.Cut(spec, ":")
		out = append(out, *objects.Pod(name, objects.CreatedOn(node), objects.CPU(cpu)))
	}
	return out
}

func nodes(specs ...string) []corev1.Node {
	var out []corev1.Node
	for _, spec := range specs {
		name, cpu, _ := strings.Cut(spec, ":")
		out = append(out, *objects.ReadyNode(name, 0, objects.Having("cpu", cpu)))
	}
	return out
}

func TestPlace(t *testing.T) {
	cases := map[string]struct {
		pods    []corev1.Pod
		nodes   []corev1.Node
		want    []string
		wantErr string
	}{
		"node after node":      {pods: pods("c:1", "a:1", "b:1"), nodes: nodes("y:1", "x:2"), want: []string{"a x", "b x", "c y"}},
		"fractions":            {pods: pods("a:400m", "b:400m", "c:400m"), nodes: nodes("x:1", "y:1"), want: []string{"a x", "b x", "c y"}},
		"too large for a node": {pods: pods("a:2"), nodes: nodes("x:1", "y:2"), want: []string{"a y"}},
		"bound pods stay":      {pods: pods("a:1@z", "b:1"), nodes: nodes("x:1"), want: []string{"b x"}},
		"no room":              {pods: pods("a:1", "b:1"), nodes: nodes("x:1"), wantErr: "no node has 1000 millicores left for pod b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			placed, err := place(tc.pods, tc.nodes)
			if fmt.Sprint(err) != tc.wantErr && (err != nil || tc.wantErr != "") {
				t.Fatalf("place() = %v, want %q", err, tc.wantErr)
			}
			var got []string
			for _, p := range placed {
				got = append(got, p.pod.Name+" "+p.node)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("place() (-want +got):\n%s", diff)
			}
		})
	}
}
