package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gomodules.xyz/jsonpatch/v2"
	jsonpatchv4 "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/group"
)

// long is a name that no label can have as its value.
var long = strings.Repeat("long.", 40) + "set"

// world is what the labeller of the table sees in namespace ns, and only there.
var world = map[group.Owner]string{
	owner("batch", "Job", "train"):                                "{parallelism: 8, completions: 8}",
	owner("apps", "ReplicaSet", long):                             "{replicas: 2}",
	owner("batch", "Job", "huge"):                                 "{parallelism: 200000}",
	owner("batch", "Job", "set-workers-0"):                        "{parallelism: 3} of jobset.x-k8s.io JobSet set",
	owner("batch", "Job", "night-1"):                              "{parallelism: 3} of batch CronJob night",
	owner("jobset.x-k8s.io", "JobSet", "set"):                     "{replicatedJobs: [{replicas: 2, template: {spec: {parallelism: 3}}}]}",
	owner("apps", "ReplicaSet", "lone"):                           "{replicas: 3}",
	owner("apps", "ReplicaSet", "web-1"):                          "{replicas: 4} of apps Deployment web",
	owner("apps", "Deployment", "web"):                            "{replicas: 5}",
	owner("apps", "StatefulSet", "ordered"):                       "{replicas: 3}",
	owner("apps", "StatefulSet", "parallel"):                      "{replicas: 3, podManagementPolicy: Parallel}",
	owner("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "serve"): "{leaderWorkerTemplate: {size: 4}}",
	owner("apps", "StatefulSet", "serve"):                         "{} of leaderworkerset.x-k8s.io LeaderWorkerSet serve",
	owner("", "Pod", "serve-0"):                                   "{} of apps StatefulSet serve",
	owner("apps", "StatefulSet", "serve-0"):                       "{} of core Pod serve-0",
	owner("kubeflow.org", "MPIJob", "mpi"):                        "{mpiReplicaSpecs: {Launcher: {}, Worker: {replicas: 4}}}",
	owner("kubeflow.org", "MPIJob", "driven"):                     "{mpiReplicaSpecs: {Launcher: {}, Worker: {replicas: 4, template: {spec: {schedulerName: fluence}}}}}",
	owner("kubeflow.org", "PyTorchJob", "torch"):                  "{pytorchReplicaSpecs: {Master: {}, Worker: {replicas: 4}}, elasticPolicy: {minReplicas: 2}}",
	owner("ray.io", "RayCluster", "rl"):                           "{headGroupSpec: {}, workerGroupSpecs: [{replicas: 6}]}",
	owner("batch", "Job", "mpi-launcher"):                         "{} of kubeflow.org MPIJob mpi",
}

// owner is the object of a kind whose UID is the kind and its name.
func owner(api, kind, name string) group.Owner {
	return group.Owner{Group: api, Kind: kind, Name: name, UID: uidOf(kind, name)}
}

func uidOf(kind, name string) types.UID { return types.UID(strings.ToLower(kind) + "-" + name) }

// nameOf is the name of the PodGroup of an object.
func nameOf(api, kind, name string) string { return owner(api, kind, name).PodGroupName() }

// see looks up objects of the world.
func see(t *testing.T) lookup {
	return func(namespace string, o group.Owner) (OwnerInfo, bool) {
		text, ok := world[o]
		if !ok || namespace != "ns" {
			return OwnerInfo{}, false
		}
		text, above, controlled := strings.Cut(text, " of ")
		spec, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if !controlled {
			return ownerInfoOf(o, group.Owner{}, spec, "fluence"), true
		}
		f := strings.Fields(strings.Replace(above, "core ", "'' ", 1))
		return ownerInfoOf(o, owner(strings.Trim(f[0], "'"), f[1], f[2]), spec, "fluence"), true
	}
}

// pod is a pod of namespace ns that has a controller, such as "batch Job train".
func pod(controller, labels, annotations string) string {
	return fmt.Sprintf("{metadata: {name: p, namespace: ns, labels: {%s}, annotations: {%s}, ownerReferences: [%s]}, spec: {schedulerName: fluence, priority: 3}}",
		labels, annotations, reference(controller))
}

// controlled is the metadata of an object with a controller.
func controlled(controller string) string {
	return fmt.Sprintf("{ownerReferences: [%s]}", reference(controller))
}

// reference is the owner reference to a controller. "core" stands for the group without a name.
func reference(controller string) string {
	f := strings.Fields(controller)
	if len(f) == 0 {
		return ""
	}
	version := strings.TrimPrefix(f[0]+"/v1", "core/")
	return fmt.Sprintf("{apiVersion: %s, kind: %s, name: %s, uid: %s, controller: true}", version, f[1], f[2], uidOf(f[1], f[2]))
}

// workload is an object of namespace ns with this
// metadata, this spec and this metadata of its template.
func workload(metadata, spec, template string) string {
	metadata = "{name: w, namespace: ns, " + metadata[1:]
	return fmt.Sprintf("{metadata: %s, spec: {%s, template: {metadata: %s, spec: {schedulerName: fluence}}}}", metadata, orNothing(spec), template)
}

func cronJob(metadata, job, template string) string {
	return fmt.Sprintf("{metadata: {name: w, namespace: ns, %s, spec: {jobTemplate: {metadata: %s, spec: {parallelism: 2, template: {metadata: %s, spec: {schedulerName: fluence}}}}}}",
		metadata[1:], job, template)
}

func orNothing(fields string) string {
	if fields == "" {
		return "x: 1"
	}
	return fields
}

// filled is what is written for a group of this name and size.
func filled(name string, size, least int) map[string]string {
	return map[string]string{
		groupLabel: name, sizeLabel: fmt.Sprint(size), minLabel: fmt.Sprint(least), noted: fmt.Sprintf("%d/%d", size, least),
	}
}

// leaves applies a patch as the API server does, and returns what the patch has set.
func leaves(t *testing.T, raw []byte, ops []jsonpatch.JsonPatchOperation) map[string]string {
	t.Helper()
	text, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := jsonpatchv4.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	after := raw
	if len(ops) > 0 {
		if after, err = decoded.Apply(raw); err != nil {
			t.Fatalf("the API server cannot apply the patch %s: %v", text, err)
		}
	}
	got := map[string]string{}
	differences(t, got, nil, parse(t, raw), parse(t, after))
	return got
}

func parse(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// differences collects the strings of after that before does
// not have, or has with another value. Nothing else may differ.
func differences(t *testing.T, got map[string]string, path []string, before, after any) {
	t.Helper()
	b, _ := before.(map[string]any)
	a, isMap := after.(map[string]any)
	if !isMap {
		if text, ok := after.(string); ok && before != after {
			got[strings.Join(path, " ")] = text
		} else if !cmp.Equal(before, after) {
			t.Errorf("%v: %v became %v", path, before, after)
		}
		return
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			t.Errorf("%v: %q was removed", path, key)
		}
	}
	for key := range a {
		differences(t, got, append(slices.Clip(path), key), b[key], a[key])
	}
}
