package e2e

import (
	"fmt"
	"strings"
)

// member returns a pod of a group by label, with further labels and an amount of CPU.
func member(name, group, cpu string, labels ...string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels: {%s}
spec:
  schedulerName: fluence
  containers:
  - {name: main, image: busybox, resources: {requests: {cpu: "%s"}}}
---
`, name, strings.Join(append(labels, "scheduling.x-k8s.io/pod-group: "+group), ", "), cpu)
}

// sized returns the label with a group's size.
func sized(n int) string { return fmt.Sprintf(`fluence.group-size: "%d"`, n) }

// mine returns a user's PodGroup, called mine.
func mine(minMember int) string {
	return fmt.Sprintf(`apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: mine}
spec: {minMember: %d}
---
`, minMember)
}

// deployment returns a Deployment of n replicas with an
// amount of CPU each, and with further lines of its spec.
func deployment(name string, n int, cpu string, spec ...string) string {
	return replicated("Deployment", name, n, cpu, spec...)
}

// statefulSet returns a StatefulSet of n replicas with an amount of CPU each, created all at once.
func statefulSet(name string, n int, cpu string) string {
	return replicated("StatefulSet", name, n, cpu, "podManagementPolicy: Parallel", "serviceName: none")
}

func replicated(kind, name string, n int, cpu string, spec ...string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {name: %s}
spec:
  replicas: %d
  %s
  selector: {matchLabels: {e2e: replicated}}
  template:
    metadata: {labels: {e2e: replicated}}
    spec:
      schedulerName: fluence
      containers:
      - {name: main, image: busybox, resources: {requests: {cpu: "%s"}}}
---
`, kind, name, n, strings.Join(spec, "\n  "), cpu)
}
