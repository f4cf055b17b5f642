package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/test/cluster"
)

// jobOn returns a Job of n pods for the nodes with a value
// of the label case, with the lines of its pods' spec.
func jobOn(name, nodes string, n int, spec string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  parallelism: %d
  completions: %d
  template:
    spec:
      schedulerName: fluence
      restartPolicy: Never
      nodeSelector: {case: %s}
      %s
---
`, name, n, n, nodes, strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n      "))
}

// asking returns a pod spec with one container and its requests.
func asking(requests string) string {
	return "containers: [{name: main, image: busybox, resources: {requests: {" + requests + "}, limits: {" + limitsOf(requests) + "}}}]"
}

// limitsOf returns limits that equal the requests of resources
// that must not be overcommitted. The API server requires them.
func limitsOf(requests string) string {
	var limits []string
	for r := range strings.SplitSeq(requests, ", ") {
		if strings.Contains(r, "hugepages-") || strings.Contains(r, "/") {
			limits = append(limits, r)
		}
	}
	return strings.Join(limits, ", ")
}

// A fill is a node and the pods that use up one resource of it.
type fill struct {
	node string // the node's resources, such as "cpu=4 memory=1Gi"
	pods int
	spec string
	// short is the message for one more pod.
	short string
}

// filled creates the nodes of all cases. A Job of its pods fills each node, and must be matched
// at once. One more pod must be refused with numbers, by the match and not by a filter after it.
func (s *story) filled(cases map[string]fill) {
	s.Helper()
	for name, c := range cases {
		s.nodeWith(name, name, c.node)
	}
	for name, c := range cases {
		s.applyText(jobOn("fits-"+name, name, c.pods, c.spec))
	}
	for name, c := range cases {
		s.running("fits-"+name+"-", c.pods)
		if got := s.matches("job-fits-" + name + "-"); len(got) != 1 {
			s.Errorf("%s: %d matches, want one", name, len(got))
		}
		s.applyText(jobOn("over-"+name, name, 1, c.spec))
	}
	for name, c := range cases {
		s.refused("job-over-"+name+"-", "NoRoom", "needs 1 pod", "room for 0", c.short)
	}
	s.noneOnNodes("over-")
	s.noneRejected()
}

// nodeWith creates a node with resources and the label case.
func (s *story) nodeWith(name, label, has string, edit ...func(*corev1.Node)) {
	s.Helper()
	_, err := s.AddNodes(s.Context(), cluster.Nodes{
		Count: 1,
		Name:  func(int) string { return name },
		Edit: func(_ int, n *corev1.Node) {
			n.Labels["case"] = label
			for pair := range strings.FieldsSeq(has) {
				resource, amount, _ := strings.Cut(pair, "=")
				n.Status.Allocatable[corev1.ResourceName(resource)] = apiresource.MustParse(amount)
			}
			n.Status.Capacity = n.Status.Allocatable.DeepCopy()
			for _, e := range edit {
				e(n)
			}
		},
	})
	if err != nil {
		s.Fatalf("add node %s: %v", name, err)
	}
}

// Requests 10 of the lessons of earlier systems: each pod is charged its own
// requests, never the first pod's times the count, whichever pod is first.
func TestMembersThatDifferAreChargedEachItsOwn(t *testing.T) {
	for first, size := range map[string]string{"leader": "4", "worker": "1"} {
		t.Run(first+" first", func(t *testing.T) {
			s := tell(t)
			s.nodes("small", 2, "2")
			s.nodes("large", 1, "4")
			s.applyText(member("a-"+first, "mixed", size, sized(5)))
			var others string
			if first == "leader" {
				others = member("b-worker", "mixed", "1", sized(5))
			} else {
				others = member("b-leader", "mixed", "4", sized(5))
			}
			for i := range 3 {
				others += member(fmt.Sprintf("c-%d", i), "mixed", "1", sized(5))
			}
			s.applyText(others)
			s.running("", 5)
			for pod, node := range s.onNodes("") {
				if strings.HasSuffix(pod, "leader") != (node == "large-0") {
					t.Errorf("pod %s is on %s; there is room for all only with the leader alone on large-0", pod, node)
				}
			}
			if got := s.matches("mixed"); len(got) != 1 || got[0] != 5 {
				t.Errorf("matches of %v pods, want one of 5", got)
			}
			// Exactly the eight CPUs are used up.
			s.applyText(job("more", 1, "1"))
			s.refused("job-more-", "NoRoom", "needs 1 pod with cpu 1", "room for 0")
			s.noneRejected()
		})
	}
}

// Requests 11 of the lessons of earlier systems: several members fill
// one node completely. (Whole cores and whole GiB were rounded up.)
func TestSeveralMembersFillANode(t *testing.T) {
	tell(t).filled(map[string]fill{
		"whole-cores":    {node: "cpu=4", pods: 4, spec: asking("cpu: 1"), short: "cpu is short"},
		"parts-of-cores": {node: "cpu=2", pods: 8, spec: asking("cpu: 250m"), short: "cpu is short"},
		"parts-of-gib":   {node: "memory=1000Mi", pods: 10, spec: asking("memory: 100Mi"), short: "memory is short"},
	})
}

// Requests 12 of the lessons of earlier systems: init and sidecar containers,
// overhead, pod-level resources, huge pages, ephemeral storage, extended
// resources and the node's limit of pods are charged as a kubelet does.
func TestPodsAreChargedWhatAKubeletCharges(t *testing.T) {
	s := tell(t)
	s.applyText(`apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: ` + s.ns + `}
handler: heavy
overhead: {podFixed: {cpu: 500m, memory: 64Mi}}
`)
	s.discard("runtimeclass/" + s.ns)
	s.filled(map[string]fill{
		"init-containers": {node: "cpu=4", pods: 2, short: "cpu 2; room for 0", spec: asking("cpu: 1") + `
initContainers: [{name: init, image: busybox, resources: {requests: {cpu: "2"}}}]`},
		"sidecars": {node: "cpu=4", pods: 2, short: "cpu 2; room for 0", spec: asking("cpu: 1") + `
initContainers: [{name: side, image: busybox, restartPolicy: Always, resources: {requests: {cpu: "1"}}}]`},
		"overhead": {node: "cpu=4", pods: 2, short: "cpu 2; room for 0", spec: asking("cpu: 1500m") + `
runtimeClassName: ` + s.ns},
		"pod-level": {node: "cpu=4", pods: 2, short: "cpu 2; room for 0", spec: asking("cpu: 100m") + `
resources: {requests: {cpu: "2"}}`},
		"hugepages":         {node: "hugepages-2Mi=8Mi", pods: 2, short: "hugepages-2Mi is short", spec: asking("cpu: 100m, memory: 1Mi, hugepages-2Mi: 4Mi")},
		"ephemeral-storage": {node: "ephemeral-storage=10Gi", pods: 2, short: "ephemeral-storage is short", spec: asking("ephemeral-storage: 5Gi")},
		"extended":          {node: "example.com/fpga=4", pods: 2, short: "example.com/fpga is short", spec: asking("example.com/fpga: 2")},
		"pods":              {node: "pods=3", pods: 3, short: "the number of pods is short", spec: asking("cpu: 100m")},
	})
}

// Requests 12 of the lessons of earlier systems: GPUs of a node
// that others hold are not assigned again, and the rest are.
func TestPartlyUsedGPUNodes(t *testing.T) {
	s := tell(t)
	gpus := func(n int) string { return asking(fmt.Sprintf("nvidia.com/gpu: %d", n)) }
	for node, used := range map[string]int{"gpu-a": 5, "gpu-b": 6} {
		s.nodeWith(node, "gpu", "nvidia.com/gpu=8")
		s.applyText(fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: other-%s}\nspec:\n  nodeSelector: {kubernetes.io/hostname: %s}\n  %s\n", node, node, gpus(used)))
	}
	s.running("other-", 2)
	// Three GPUs are free on one node and two on the other. Each has
	// room for one pod of two. A third pod would need GPUs of both.
	s.applyText(jobOn("three", "gpu", 3, gpus(2)))
	s.refused("job-three-", "NoRoom", "needs 3 pods with nvidia.com/gpu 2", "room for 2")
	s.applyText(jobOn("two", "gpu", 2, gpus(2)))
	s.running("two-", 2)
	nodes := map[string]bool{}
	for _, node := range s.onNodes("two-") {
		nodes[node] = true
	}
	if len(nodes) != 2 {
		t.Errorf("both pods are on %v, want one on each node", nodes)
	}
	s.applyText(jobOn("last", "gpu", 1, gpus(1)))
	s.running("last-", 1)
	s.noneOnNodes("three-")
	s.noneRejected()
}
