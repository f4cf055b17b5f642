package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A narrowed Job may only run on the nodes good-* of its
// case. The nodes bad-* have more room and come first.
type narrowed struct {
	bad, good func(*corev1.Node)
	// before is created before the Job. BAD and GOOD are replaced by the nodes' names.
	before string
	spec   string
	pods   int
}

// volumeInZone returns a claim and a volume for it in the zone of GOOD.
// Without a class the two are bound from the start. In a class whose volumes
// wait for their first consumer they are bound when a pod is placed.
func volumeInZone(name, class, bound string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata: {name: NS-%[1]s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  storageClassName: %[2]q
  hostPath: {path: /none}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-GOOD]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec:
  resources: {requests: {storage: 1Gi}}
  accessModes: [ReadWriteMany]
  storageClassName: %[2]q
  volumeName: %[3]q
---
`, name, class, bound)
}

// waitingClass is a class of volumes that wait for their first consumer.
const waitingClass = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NS}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
`

// Requests 13 of the lessons of earlier systems: the match respects each
// of these alone: node selectors, affinity, taints and tolerations,
// cordons, the zones of volumes, host ports and topology spread.
func TestTheMatchRespectsTheFilters(t *testing.T) {
	s := tell(t)
	one := asking("cpu: 1")
	nothing := func(*corev1.Node) {}
	taint := func(value string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "for", Value: value, Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	cases := map[string]narrowed{
		"selector": {bad: nothing, good: label("disk", "ssd"), pods: 2, spec: one + "\nnodeSelector: {case: selector, disk: ssd}"},
		"affinity": {bad: label("disk", "hdd"), good: label("disk", "ssd"), pods: 2, spec: one + `
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: NotIn, values: [hdd]}]}]}}}`},
		"pod-affinity": {bad: nothing, good: nothing, pods: 2, before: podOn("anchor", "GOOD", "labels: {app: anchor}", ""), spec: one + `
affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: anchor}}, topologyKey: kubernetes.io/hostname}]}}`},
		"anti-affinity": {bad: nothing, good: nothing, pods: 2, before: podOn("noisy", "BAD", "labels: {app: noisy}", ""), spec: one + `
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: noisy}}, topologyKey: kubernetes.io/hostname}]}}`},
		"taint":      {bad: taint("others"), good: nothing, pods: 2, spec: one},
		"toleration": {bad: taint("others"), good: taint("us"), pods: 2, spec: one + "\ntolerations: [{key: for, value: us}]"},
		"cordon":     {bad: cordoned, good: nothing, pods: 2, spec: one},
		"bound-volume": {bad: nothing, good: nothing, pods: 2, before: volumeInZone("bound", "", "NS-bound"), spec: one + `
volumes: [{name: data, persistentVolumeClaim: {claimName: bound}}]`},
		"unbound-volume": {bad: nothing, good: nothing, pods: 2, before: waitingClass + volumeInZone("unbound", "NS", ""), spec: one + `
volumes: [{name: data, persistentVolumeClaim: {claimName: unbound}}]`},
		"host-port": {bad: nothing, good: nothing, pods: 1, before: podOn("server", "BAD", "", "ports: [{containerPort: 80, hostPort: 80}], "), spec: `
containers: [{name: main, image: busybox, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: "1"}}}]`},
		"spread": {bad: nothing, good: nothing, pods: 2, before: podOn("first", "BAD", "labels: {app: spread}", "") + podOn("second", "BAD", "labels: {app: spread}", ""), spec: one + `
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: spread}}}]`},
	}
	named := func(name, text string) string {
		return strings.NewReplacer("GOOD", "good-"+name, "BAD", "bad-"+name, "NS", s.ns).Replace(text)
	}
	for name, c := range cases {
		s.nodeWith("bad-"+name, name, "cpu=8", zone("zone-bad-"+name), c.bad)
		s.nodeWith("good-"+name, name, "cpu=3", zone("zone-good-"+name), c.good)
		if c.before != "" {
			s.applyText(named(name, c.before))
		}
	}
	for _, claim := range []string{"bound", "unbound"} {
		s.discard("persistentvolume/" + s.ns + "-" + claim)
		s.discard("persistentvolumeclaim/" + claim)
	}
	s.discard("storageclass/" + s.ns)
	s.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "--timeout=30s", "-n", s.ns, "pvc/bound")
	s.running("", 5)
	for name, c := range cases {
		s.applyText(jobOn(name, name, c.pods, named(name, c.spec)))
	}
	for name, c := range cases {
		s.running(name+"-", c.pods)
		for pod, node := range s.onNodes(name + "-") {
			if node != "good-"+name {
				t.Errorf("pod %s is on %s, want good-%s", pod, node, name)
			}
		}
		got := s.matches("job-" + name + "-")
		if name == "unbound-volume" && len(got) == 2 {
			// Both pods bound the claim at once. One was rejected,
			// and the group released its nodes and retried.
			got = got[1:]
		}
		if len(got) != 1 || got[0] != c.pods {
			t.Errorf("%s: matches of %v pods, want one of %d", name, got, c.pods)
		}
	}
}

// podOn returns a pod on a node without an owner, with
// further lines of its metadata and its container.
func podOn(name, node, metadata, container string) string {
	if metadata != "" {
		metadata = ", " + metadata
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s%s}
spec:
  nodeName: %s
  containers: [{name: main, image: busybox, %sresources: {requests: {cpu: 100m}}}]
---
`, name, metadata, node, container)
}

// discard deletes an object after the story. It does not wait until the object is gone.
func (s *story) discard(object string) {
	s.Cleanup(func() {
		if _, _, err := s.Kubectl(context.WithoutCancel(s.Context()), "delete", object, "-n", s.ns, "--wait=false"); err != nil {
			s.Error(err)
		}
	})
}
