package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/stack"
)

// These are the labels of the levels in the stories of topology.
const (
	blockLabel = "network.topology.nvidia.com/block"
	rackLabel  = "topology.example.com/rack"
)

// counts counts the story's pods with a prefix by the
// part of their node's name before the last hyphen.
func (s *story) counts(prefix string) map[string]int {
	s.Helper()
	n := map[string]int{}
	for _, node := range s.onNodes(prefix) {
		n[node[:strings.LastIndex(node, "-")]]++
	}
	return n
}

// spreadOut fails the test unless the pods with a prefix are
// on n nodes, one each, and no event reports a rejection.
func (s *story) spreadOut(prefix string, n int) {
	s.Helper()
	s.running(prefix, n)
	on := s.onNodes(prefix)
	if nodes := slices.Compact(slices.Sorted(maps.Values(on))); len(nodes) != n {
		s.Errorf("pods on nodes: %v, want a node each", on)
	}
}

func TestPodsWithAntiAffinityGetANodeEach(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	s.apply("keep-apart.yaml")
	s.spreadOut("apart-", 4)
	if got := s.matches("job-apart-"); len(got) != 1 {
		t.Errorf("matches = %v, want one", got)
	}
	// A fifth has nowhere to go.
	s.applyText(strings.NewReplacer("apart", "five", ": 4", ": 5").Replace(keepApart))
	s.refused("job-five-", "NeverFits", "needs 5 pods", "4")
}

// keepApart is a Job as in the example.
const keepApart = `apiVersion: batch/v1
kind: Job
metadata: {name: apart}
spec:
  parallelism: 4
  completions: 4
  template:
    metadata: {labels: {app: apart}}
    spec:
      schedulerName: fluence
      restartPolicy: Never
      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: apart}}}]}}
      containers: [{name: main, image: busybox, resources: {requests: {cpu: 100m}}}]
`

func TestPodsPerNodeHoldForMatchesLateMembersAndReplacements(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	s.apply("one-pod-per-node.yaml")
	s.spreadOut("one-each-", 4)
	if got := s.matches("job-one-each-"); len(got) != 1 {
		t.Errorf("matches = %v, want one", got)
	}
	const words = "at most 1 to a node (annotation pods-per-node)"
	s.applyText(strings.NewReplacer("NAME", "five", "PODS", "5").Replace(onePerNode))
	s.refused("job-five-", "NeverFits", "needs 5 pods", "could hold 4", words)
	s.applyText(strings.NewReplacer("NAME", "grows", "PODS", "3").Replace(onePerNode))
	s.spreadOut("grows-", 3)
	s.kubectl("patch", "job", "grows", "-n", s.ns, "-p", `{"spec":{"parallelism":5}}`)
	s.spreadOut("grows-", 4)
	s.condition("job-grows-", "Scheduled", metav1.ConditionTrue, "Placed", "1 more pod is without a node: NoRoom", words)
	s.nodes("late", 1, "8")
	s.spreadOut("grows-", 5)
	s.lose(s.pods("grows-")[0].Name)
	s.eventually("five pods after the loss", func(context.Context) (bool, string) {
		n := len(s.onNodes("grows-"))
		return n == 5, fmt.Sprintf("%d pods", n)
	})
	s.spreadOut("grows-", 5)
}

// onePerNode is a Job that may grow, with at most one pod on a node.
const onePerNode = `apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  parallelism: PODS
  template:
    metadata: {annotations: {fluence.flux-framework.org/pods-per-node: "1"}}
    spec:
      schedulerName: fluence
      restartPolicy: Never
      containers: [{name: main, image: busybox, resources: {requests: {cpu: 100m}}}]
`

func TestPodsWithOneHostPortGetANodeEach(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	s.apply("host-ports.yaml")
	s.spreadOut("servers-", 4)
}

func TestPodsAreSpreadOverZones(t *testing.T) {
	s := tell(t)
	for _, z := range []string{"a", "b", "c"} {
		s.nodes(z, 2, "8", zone(z))
	}
	s.apply("spread-over-zones.yaml")
	s.running("zones-", 6)
	if got := s.counts("zones-"); got["a"] != 2 || got["b"] != 2 || got["c"] != 2 {
		t.Errorf("pods by zone: %v, want two each", got)
	}
	// With these four more, no zone may have more than one above another.
	s.applyText(strings.NewReplacer("name: apart", "name: more", "app: apart", "app: zones", ": 4", ": 4",
		"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: apart}}}]}}",
		"topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: zones}}}]").Replace(keepApart))
	s.running("more-", 4)
	got := slices.Sorted(maps.Values(s.counts("more-")))
	if !slices.Equal(got, []int{1, 1, 2}) {
		t.Errorf("four more by zone: %v, want 1, 1 and 2", got)
	}
}

func TestAVolumeOfAZoneBindsTheGroupToIt(t *testing.T) {
	s := tell(t)
	s.nodes("a", 2, "16", zone("a"))
	s.nodes("b", 2, "8", zone("b"))
	s.discard("persistentvolume/zonal")
	s.discard("persistentvolumeclaim/zonal")
	s.discard("storageclass/waits-for-consumer")
	s.apply("volume-in-a-zone.yaml")
	s.running("readers-", 2)
	if got := s.counts("readers-"); got["b"] != 2 {
		t.Errorf("pods by zone: %v, want both in b", got)
	}
	// Now the claim is bound.
	s.applyText(`apiVersion: batch/v1
kind: Job
metadata: {name: later}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      schedulerName: fluence
      restartPolicy: Never
      volumes: [{name: data, persistentVolumeClaim: {claimName: zonal}}]
      containers: [{name: main, image: busybox, resources: {requests: {cpu: "6"}}}]
`)
	s.running("later-", 2)
	if got := s.counts("later-"); got["b"] != 2 {
		t.Errorf("pods by zone: %v, want both in b", got)
	}
}

// Only one filter knows that a device is taken, and only after a pod is reserved.
func TestClaimsOfDevicesLeadTheGroupToNodesThatHaveThem(t *testing.T) {
	s := tell(t)
	s.nodes("n", 6, "16")
	s.discard("deviceclass/accelerator.example.com")
	for i := range 5 {
		s.discard(fmt.Sprintf("resourceslice/n-%d", i))
		s.applyText(fmt.Sprintf(`apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n-%[1]d}
spec:
  driver: accelerator.example.com
  nodeName: n-%[1]d
  pool: {name: n-%[1]d, generation: 1, resourceSliceCount: 1}
  devices: [{name: first}]
`, i))
	}
	s.apply("devices.yaml")
	s.spreadOut("claimants-", 4)
	for pod, node := range s.onNodes("claimants-") {
		if node == "n-5" {
			t.Errorf("pod %s is on a node without a device", pod)
		}
	}
}

func TestTolerationsOfOneShapeAreItsOwn(t *testing.T) {
	s := tell(t)
	s.nodes("login", 1, "8", label("role", "login"), func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "login", Effect: corev1.TaintEffectNoSchedule}}
	})
	s.nodes("work", 1, "8")
	s.apply("some-tolerate.yaml")
	s.running("tolerant-", 3)
	want := map[string]string{"tolerant-leader": "login-0", "tolerant-worker-0": "work-0", "tolerant-worker-1": "work-0"}
	if got := s.onNodes("tolerant-"); !maps.Equal(got, want) {
		t.Errorf("pods on nodes: %v, want %v", got, want)
	}
}

func TestGroupsStandTogetherAsTheySay(t *testing.T) {
	s := tell(t)
	levels := func(keys ...string) func(*stack.Config) {
		return func(c *stack.Config) { c.Args = map[string]any{"topologyLevels": keys} }
	}
	s.restart(stack.Scheduler, levels(corev1.LabelTopologyZone, blockLabel, rackLabel))
	s.Cleanup(func() { s.restart(stack.Scheduler, levels(corev1.LabelTopologyZone)) })
	for r := range 2 {
		s.nodes(fmt.Sprintf("r%d", r), 3, "8", label(blockLabel, "racks"), label(rackLabel, fmt.Sprintf("r%d", r)))
	}
	// No rack has four nodes.
	s.apply("topology-required.yaml")
	s.refused("job-one-rack-", "NeverFits", "needs 4 pods", "rack")
	s.noneOnNodes("one-rack-")
	s.apply("topology-preferred.yaml")
	s.running("few-racks-", 4)
	if got := s.counts("few-racks-"); got["r0"]+got["r1"] != 4 || len(got) != 2 {
		t.Errorf("pods by rack: %v, want all in the two racks", got)
	}
	s.kubectl("delete", "job", "few-racks", "-n", s.ns)
	s.none("few-racks-")
	s.nodes("r2", 4, "8", label(blockLabel, "racks"), label(rackLabel, "r2"))
	s.running("one-rack-", 4)
	if got := s.counts("one-rack-"); got["r2"] != 4 {
		t.Errorf("pods by rack: %v, want all in r2", got)
	}
	// No rack of four nodes can ever have five.
	s.apply("five-in-a-rack.yaml")
	s.refused("job-five-in-a-rack-", "NeverFits", "needs 5 pods with cpu 8 in one rack; rack r2 could hold 4 if it were empty")
	s.noneOnNodes("five-in-a-rack-")
	s.kubectl("delete", "job", "five-in-a-rack", "-n", s.ns)
	// An unknown level is reported. After its correction the group continues.
	s.applyText(job("odd", 1, "1", "annotations: {fluence.flux-framework.org/topology-required: row}"))
	s.refused("job-odd-", "InvalidTopology", "fluence.flux-framework.org/topology-required", `"row"`, "the levels are node, zone, block, rack")
	s.noneOnNodes("odd-")
	s.kubectl("annotate", podGroups, s.group(t.Context(), "job-odd-").Name, "-n", s.ns, "fluence.flux-framework.org/topology-required=rack")
	s.running("odd-", 1)
}

func TestAGroupIsBalancedOverBlocks(t *testing.T) {
	s := tell(t)
	levels := func(keys ...string) func(*stack.Config) {
		return func(c *stack.Config) { c.Args = map[string]any{"topologyLevels": keys} }
	}
	s.restart(stack.Scheduler, levels(blockLabel))
	s.Cleanup(func() { s.restart(stack.Scheduler, levels(corev1.LabelTopologyZone)) })
	// 31 fit in the first block, and only one would fit in the second.
	s.nodes("big", 1, "31", label(blockLabel, "big"))
	s.nodes("small", 1, "17", label(blockLabel, "small"))
	s.apply("topology-balanced.yaml")
	s.running("even-blocks-", 32)
	if got := s.counts("even-blocks-"); got["big"] != 16 || got["small"] != 16 {
		t.Errorf("pods by block: %v, want 16 each", got)
	}
}

func TestAnExclusiveGroupHasItsNodesAlone(t *testing.T) {
	s := tell(t)
	s.inOrder("n", 2)
	s.apply("exclusive.yaml")
	s.running("alone-", 2)
	s.applyText(job("others", 1, "8"))
	s.running("others-", 1)
	s.applyText(job("more", 1, "1"))
	s.refused("job-more-", "NoRoom", "1 node", "used exclusively by another group")
}
