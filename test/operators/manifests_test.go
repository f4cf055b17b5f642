package operators_test

import (
	"fmt"
	"strings"
)

// podSpec is a pod's spec for a manifest, in one line. more are further fields, each with a comma.
func podSpec(cpu string, more ...string) string {
	return fmt.Sprintf("{%sschedulerName: fluence, restartPolicy: Never, containers: [{name: main, image: registry.example.com/main, resources: {requests: {cpu: %q}}}]}", strings.Join(more, ""), cpu)
}

// podSpec is the spec of a pod that may go to the nodes of the story alone.
func (s *story) podSpec(cpu string) string {
	return podSpec(cpu, fmt.Sprintf("nodeSelector: {%s: %s}, ", storyLabel, s.ns))
}

// A replicatedJob is a field of a JobSet: equal Jobs.
type replicatedJob struct {
	name string
	// jobs is the number of Jobs, and pods that of the pods of each.
	jobs, pods int
	cpu        string
	// after is the Job on which these depend, and until what it has to be.
	after, until string
	// runFor is after how long a pod succeeds. It runs for ever if this is empty.
	runFor string
}

// jobSet is a JobSet. field is a further field of its spec.
func (s *story) jobSet(name, field string, all ...replicatedJob) string {
	text := fmt.Sprintf("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: %s}\nspec:\n  %s\n  replicatedJobs:\n", name, field)
	for _, j := range all {
		dependsOn, annotations := "", ""
		if j.after != "" {
			dependsOn = fmt.Sprintf("dependsOn: [{name: %s, status: %s}], ", j.after, j.until)
		}
		if j.runFor != "" {
			annotations = fmt.Sprintf("metadata: {annotations: {kwok.fluence.flux-framework.org/run-for: %q}}, ", j.runFor)
		}
		text += fmt.Sprintf("  - {name: %s, replicas: %d, %stemplate: {spec: {parallelism: %d, completions: %d, backoffLimit: 0, template: {%sspec: %s}}}}\n",
			j.name, j.jobs, dependsOn, j.pods, j.pods, annotations, s.podSpec(j.cpu))
	}
	return text
}

// leaderWorkerSet is a LeaderWorkerSet of one unit of four pods of 4 CPUs. field is a further field of its
// spec.
func (s *story) leaderWorkerSet(name, field string) string {
	return fmt.Sprintf(`
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: %s}
spec:
  %s
  replicas: 1
  leaderWorkerTemplate:
    size: 4
    restartPolicy: RecreateGroupOnPodRestart
    workerTemplate: {spec: %s}
`, name, field, strings.Replace(s.podSpec("4"), "restartPolicy: Never, ", "", 1))
}

// mpiJob is an MPIJob of a launcher and four workers, of 9 CPUs in all.
func (s *story) mpiJob(name, launcherCreationPolicy string) string {
	return fmt.Sprintf(`
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: %s}
spec:
  launcherCreationPolicy: %s
  mpiReplicaSpecs:
    Launcher: {template: {spec: %s}}
    Worker: {replicas: 4, template: {spec: %s}}
`, name, launcherCreationPolicy, s.podSpec("1"), s.podSpec("2"))
}

// annotated returns a manifest with an annotation.
func annotated(manifest, key, value string) string {
	return strings.Replace(manifest, "\nmetadata: {", fmt.Sprintf("\nmetadata: {annotations: {%s: %s}, ", key, value), 1)
}
