package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/group"
)

const (
	groupLabel = "metadata labels " + group.Label
	sizeLabel  = "metadata labels " + group.SizeLabel
	minLabel   = "metadata labels " + group.MinLabel
	noted      = "metadata annotations " + group.DefaultedAnnotation

	templateGroup = "spec template " + groupLabel
	templateSize  = "spec template " + sizeLabel
	templateMin   = "spec template " + minLabel
)

func TestLabels(t *testing.T) {
	cases := map[string]struct {
		kind, object string
		want         map[string]string
	}{
		"a lone pod is a group of its own without a name": {
			kind: "Pod", object: pod("", "", ""),
		},
		"a lone pod whose name is yet to be generated": {
			kind: "Pod", object: "{metadata: {generateName: p-, namespace: ns}, spec: {schedulerName: fluence}}",
		},
		"a pod of another scheduler": {
			kind: "Pod", object: strings.Replace(pod("batch Job train", "", ""), "fluence", "default-scheduler", 1),
		},
		"a pod that names no scheduler": {
			kind: "Pod", object: "{metadata: {name: p, namespace: ns}, spec: {}}",
		},
		"a pod of a Job": {
			kind: "Pod", object: pod("batch Job train", "", ""),
			want: filled(nameOf("batch", "Job", "train"), 8, 8),
		},
		"a pod of a Job in a native PodGroup": {
			kind: "Pod", object: strings.Replace(pod("batch Job train", "", ""), "schedulerName: fluence", "schedulerName: fluence, schedulingGroup: {podGroupName: n}", 1),
		},
		"a Job whose pods name a native PodGroup": {
			kind: "Job", object: "{metadata: {name: j, namespace: ns, labels: {" + group.SizeLabel + `: "2"}}, spec: {template: {spec: {schedulerName: fluence, schedulingGroup: {podGroupName: n}}}}}`,
		},
		"a pod of a Job that cannot be seen": {
			kind: "Pod", object: pod("batch Job unseen", "", ""),
		},
		"a pod of a Job of the same name in another namespace": {
			kind: "Pod", object: strings.Replace(pod("batch Job train", "", ""), "namespace: ns", "namespace: other", 1),
		},
		"a pod of a ReplicaSet with a name of 203 characters": {
			kind: "Pod", object: pod("apps ReplicaSet "+long, "", ""),
			want: filled(nameOf("apps", "ReplicaSet", long), 2, 1),
		},
		"a pod of a Job of too many pods gets no size": {
			kind: "Pod", object: pod("batch Job huge", "", ""),
			want: map[string]string{groupLabel: nameOf("batch", "Job", "huge")},
		},
		"a pod of a Job that a JobSet made is of the JobSet": {
			kind: "Pod", object: pod("batch Job set-workers-0", "", ""),
			want: filled(nameOf("jobset.x-k8s.io", "JobSet", "set"), 6, 6),
		},
		"a pod of a CronJob's Job is of the Job": {
			kind: "Pod", object: pod("batch Job night-1", "", ""),
			want: filled(nameOf("batch", "Job", "night-1"), 3, 3),
		},
		"the launcher of an MPIJob": {
			kind: "Pod", object: pod("batch Job mpi-launcher", "", ""),
			want: filled(nameOf("kubeflow.org", "MPIJob", "mpi"), 5, 5),
		},
		"a worker of an MPIJob": {
			kind: "Pod", object: pod("kubeflow.org MPIJob mpi", "", ""),
			want: filled(nameOf("kubeflow.org", "MPIJob", "mpi"), 5, 5),
		},
		"a worker of an MPIJob whose launcher asks for another scheduler": {
			kind: "Pod", object: pod("kubeflow.org MPIJob driven", "", ""),
			want: filled(nameOf("kubeflow.org", "MPIJob", "driven"), 4, 4),
		},
		"a worker of an elastic PyTorchJob": {
			kind: "Pod", object: pod("kubeflow.org PyTorchJob torch", "", ""),
			want: filled(nameOf("kubeflow.org", "PyTorchJob", "torch"), 5, 3),
		},
		"a pod of a RayCluster": {
			kind: "Pod", object: pod("ray.io RayCluster rl", "", ""),
			want: filled(nameOf("ray.io", "RayCluster", "rl"), 7, 7),
		},
		"a pod of a ReplicaSet": {
			kind: "Pod", object: pod("apps ReplicaSet lone", "", ""),
			want: filled(nameOf("apps", "ReplicaSet", "lone"), 3, 1),
		},
		"a pod of a Deployment": {
			kind: "Pod", object: pod("apps ReplicaSet web-1", "", ""),
			want: filled(nameOf("apps", "Deployment", "web"), 5, 1),
		},
		"a pod of a StatefulSet that makes them in order": {
			kind: "Pod", object: pod("apps StatefulSet ordered", "", ""),
			want: filled(nameOf("apps", "StatefulSet", "ordered"), 3, 1),
		},
		"a pod of a StatefulSet that makes them at once": {
			kind: "Pod", object: pod("apps StatefulSet parallel", "", ""),
			want: filled(nameOf("apps", "StatefulSet", "parallel"), 3, 3),
		},
		"a worker of a LeaderWorkerSet is in the unit of its leader": {
			kind: "Pod", object: pod("apps StatefulSet serve-0", "", ""),
			want: filled(group.Owner{Kind: "LeaderWorkerSet", Name: "serve-0", UID: uidOf("Pod", "serve-0")}.PodGroupName(), 4, 4),
		},
		"a leader of a LeaderWorkerSet, whose UID is not known, gets the size only": {
			kind: "Pod", object: pod("apps StatefulSet serve", "", ""),
			want: map[string]string{sizeLabel: "4", minLabel: "4", noted: "4/4"},
		},
		"a pod of a DaemonSet": {
			kind: "Pod", object: pod("apps DaemonSet agent", "", ""),
		},
		"a static pod": {
			kind: "Pod", object: pod("core Node n1", group.SizeLabel+`: "2"`, ""),
		},
		"a pod of a kind that nobody knows": {
			kind: "Pod", object: pod("example.com Thing x", "", ""),
		},
		"a pod of a kind that nobody knows says its size": {
			kind: "Pod", object: pod("example.com Thing x", group.SizeLabel+`: "2"`, ""),
			want: map[string]string{groupLabel: nameOf("example.com", "Thing", "x")},
		},
		"the user's group and size are left alone": {
			kind: "Pod", object: pod("batch Job train", group.Label+`: mine, `+group.SizeLabel+`: "3"`, ""),
		},
		"a Job says nothing of the size of a group that its pods name": {
			kind: "Pod", object: pod("batch Job train", group.Label+`: mine`, ""),
		},
		"with the user's size the minimum is not filled in": {
			kind: "Pod", object: pod("batch Job train", group.SizeLabel+`: "3"`, ""),
			want: map[string]string{groupLabel: nameOf("batch", "Job", "train")},
		},
		"with the user's minimum the size is not filled in": {
			kind: "Pod", object: pod("batch Job train", group.MinLabel+`: "3"`, ""),
			want: map[string]string{groupLabel: nameOf("batch", "Job", "train")},
		},
		"a size that is no number is not repaired": {
			kind: "Pod", object: pod("batch Job train", group.SizeLabel+`: x`, ""),
			want: map[string]string{groupLabel: nameOf("batch", "Job", "train")},
		},
		"an empty size and an empty group are the user's, too": {
			kind: "Pod", object: pod("batch Job train", group.SizeLabel+`: "", `+group.Label+`: ""`, ""),
		},
		"a size that was filled in once is filled in again": {
			kind: "Pod", object: pod("batch Job train", group.SizeLabel+`: "4", `+group.MinLabel+`: "4"`, group.DefaultedAnnotation+": 4/4"),
			want: filled(nameOf("batch", "Job", "train"), 8, 8),
		},
		"labels that are no map": {
			kind: "Pod", object: "{metadata: {name: p, labels: [a]}, spec: {schedulerName: fluence}}",
		},
		"a spec that is no object": {
			kind: "Pod", object: "{metadata: {name: p}, spec: 7}",
		},
		"annotations that are as large as they may be are left alone": {
			kind: "Pod", object: pod("batch Job train", "", "big: "+strings.Repeat("x", 256<<10-10)),
			want: map[string]string{groupLabel: nameOf("batch", "Job", "train")},
		},

		"a Job's own group has no name yet": {
			kind: "batch Job", object: workload("{}", "parallelism: 8, completions: 6", "{}"),
			want: filled("", 6, 6),
		},
		"a Job with the name of a Job that exists is another": {
			kind: "batch Job", object: strings.Replace(workload("{}", "parallelism: 2", "{}"), "name: w", "name: train", 1),
			want: filled("", 2, 2),
		},
		"a Job of another scheduler": {
			kind: "batch Job", object: strings.Replace(workload("{}", "parallelism: 8", "{}"), "fluence", "other", 1),
		},
		"a Job without a template": {
			kind: "batch Job", object: "{metadata: {name: w}, spec: {}}",
		},
		"a Job whose name is yet to be generated": {
			kind: "batch Job", object: strings.Replace(workload("{}", "parallelism: 8", "{}"), "name: w", "generateName: w-", 1),
			want: filled("", 8, 8),
		},
		"a Job whose template says size and group": {
			kind: "batch Job", object: workload("{}", "parallelism: 8", "{labels: {"+group.SizeLabel+`: "4", `+group.MinLabel+`: "2", `+group.Label+": mine}}"),
			want: filled("mine", 4, 2),
		},
		"a Job whose template says the minimum": {
			kind: "batch Job", object: workload("{}", "parallelism: 8", "{labels: {"+group.MinLabel+`: "2"}}`),
			want: filled("", 8, 2),
		},
		"a Job whose template names a group, which may have other pods": {
			kind: "batch Job", object: workload("{}", "parallelism: 8", "{labels: {"+group.Label+": mine}}"),
			want: map[string]string{groupLabel: "mine"},
		},
		"a Job whose template says a minimum above the size": {
			kind: "batch Job", object: workload("{}", "parallelism: 8", "{labels: {"+group.SizeLabel+`: "4", `+group.MinLabel+`: "5"}}`),
		},
		"the user's labels on a Job are those of its pods": {
			kind: "batch Job", object: workload("{labels: {"+group.SizeLabel+`: "4", `+group.MinLabel+`: "2", `+group.Label+": mine}}", "parallelism: 8", "{}"),
			want: map[string]string{templateSize: "4", templateMin: "2", templateGroup: "mine"},
		},
		"the user's group on a Job and size in its template": {
			kind: "batch Job", object: workload("{labels: {"+group.Label+": mine}}", "parallelism: 8", "{labels: {"+group.SizeLabel+`: "4"}}`),
			want: map[string]string{templateGroup: "mine", sizeLabel: "4", minLabel: "4", noted: "4/4"},
		},
		"the user's group on a Job, which may have other pods": {
			kind: "batch Job", object: workload("{labels: {"+group.Label+": mine}}", "parallelism: 8", "{}"),
			want: map[string]string{templateGroup: "mine"},
		},
		"a group on a Job that is no label is not copied": {
			kind: "batch Job", object: workload("{labels: {"+group.Label+": no label}}", "parallelism: 8", "{}"),
			want: filled("", 8, 8),
		},
		"what the template says counts, and is not mixed with what the Job says": {
			kind: "batch Job", object: workload("{labels: {"+group.SizeLabel+`: "4", `+group.MinLabel+`: "3", `+group.Label+": mine}}", "parallelism: 8",
				"{labels: {"+group.SizeLabel+`: "2", `+group.Label+": yours}}"),
		},
		"a size on a Job that is no number is the pods', too": {
			kind: "batch Job", object: workload("{labels: {"+group.SizeLabel+`: x}}`, "parallelism: 8", "{}"),
			want: map[string]string{templateSize: "x"},
		},
		"a size that was filled in on a Job stays out of its template": {
			kind: "batch Job", object: workload("{labels: {"+group.SizeLabel+`: "4", `+group.MinLabel+`: "4"}, annotations: {`+group.DefaultedAnnotation+": 4/4}}", "parallelism: 8", "{}"),
			want: filled("", 8, 8),
		},
		"a Job of a JobSet": {
			kind: "batch Job", object: workload(controlled("jobset.x-k8s.io JobSet set"), "parallelism: 3", "{}"),
			want: filled(nameOf("jobset.x-k8s.io", "JobSet", "set"), 6, 6),
		},
		"what a JobSet labels a Job with stays out of the template": {
			kind: "batch Job", object: workload("{labels: {"+group.SizeLabel+`: "4"}, `+controlled("jobset.x-k8s.io JobSet set")[1:], "parallelism: 3", "{}"),
			want: map[string]string{groupLabel: nameOf("jobset.x-k8s.io", "JobSet", "set")},
		},
		"a Job of a CronJob": {
			kind: "batch Job", object: workload(controlled("batch CronJob night"), "parallelism: 3", "{}"),
			want: filled("", 3, 3),
		},
		"a CronJob is labelled with the size of its Jobs": {
			kind: "batch CronJob", object: cronJob("{}", "{}", "{}"),
			want: filled("", 2, 2),
		},
		"a CronJob's labels are those of its pods": {
			kind: "batch CronJob", object: cronJob("{labels: {"+group.SizeLabel+`: "4"}}`, "{}", "{}"),
			want: map[string]string{"spec jobTemplate " + templateSize: "4"},
		},
		"the labels of the Jobs of a CronJob are nearer to its pods": {
			kind: "batch CronJob", object: cronJob("{labels: {"+group.SizeLabel+`: "4"}}`, "{labels: {"+group.MinLabel+`: "1"}}`, "{}"),
			want: map[string]string{"spec jobTemplate " + templateMin: "1"},
		},
		"a CronJob whose pods name a group": {
			kind: "batch CronJob", object: cronJob("{}", "{}", "{labels: {"+group.Label+": mine}}"),
			want: map[string]string{groupLabel: "mine"},
		},
		"a Deployment": {
			kind: "apps Deployment", object: workload("{}", "replicas: 4", "{}"),
			want: filled("", 4, 1),
		},
		"a Deployment whose template says a size": {
			kind: "apps Deployment", object: workload("{}", "replicas: 4", "{labels: {"+group.SizeLabel+`: "3"}}`),
			want: filled("", 3, 3),
		},
		"a Deployment with a negative number of replicas": {
			kind: "apps Deployment", object: workload("{}", "replicas: -4", "{}"),
		},
		"a ReplicaSet of a Deployment has its size, and not its old note": {
			kind: "apps ReplicaSet", object: workload("{annotations: {"+group.DefaultedAnnotation+": 4/1}, "+controlled("apps Deployment web")[1:], "replicas: 4", "{}"),
			want: filled(nameOf("apps", "Deployment", "web"), 5, 1),
		},
		"a ReplicaSet of its own": {
			kind: "apps ReplicaSet", object: workload("{}", "", "{}"),
			want: filled("", 1, 1),
		},
		"a ReplicaSet of a kind that nobody knows": {
			kind: "apps ReplicaSet", object: workload(controlled("argoproj.io Rollout r"), "replicas: 3", "{}"),
			want: filled("", 3, 1),
		},
		"a StatefulSet": {
			kind: "apps StatefulSet", object: workload("{}", "replicas: 3, podManagementPolicy: Parallel", "{}"),
			want: filled("", 3, 3),
		},
		"the StatefulSet of the leaders of a LeaderWorkerSet has a group for each": {
			kind: "apps StatefulSet", object: workload(controlled("leaderworkerset.x-k8s.io LeaderWorkerSet serve"), "replicas: 3", "{}"),
			want: filled("", 4, 4),
		},
		"the StatefulSet of the workers of a LeaderWorkerSet": {
			kind: "apps StatefulSet", object: workload(controlled("core Pod serve-0"), "replicas: 3", "{}"),
			want: filled(group.Owner{Kind: "LeaderWorkerSet", Name: "serve-0", UID: uidOf("Pod", "serve-0")}.PodGroupName(), 4, 4),
		},
		"a kind that is not labelled": {
			kind: "apps DaemonSet", object: workload("{labels: {"+group.SizeLabel+`: "4"}}`, "", "{}"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.YAMLToJSON([]byte(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			ops := label(t, tc.kind, raw)
			if len(tc.want) == 0 && len(ops) > 0 {
				t.Errorf("a patch %v of what does not change", ops)
			}
			got := leaves(t, raw, ops)
			for key := range tc.want {
				if tc.want[key] == "" {
					delete(tc.want, key)
				}
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("what was added (-want +got):\n%s", diff)
			}
		})
	}
}

// label is what the webhook does in namespace ns, or in the object's namespace.
func label(t *testing.T, kind string, raw []byte) []jsonpatch.JsonPatchOperation {
	t.Helper()
	g, k, found := strings.Cut(kind, " ")
	if !found {
		g, k = "", kind
	}
	var meta struct{ Metadata struct{ Namespace string } }
	_ = json.Unmarshal(raw, &meta)
	c, err := readNewObject(schema.GroupKind{Group: g, Kind: k}, meta.Metadata.Namespace, raw)
	if err != nil {
		return nil
	}
	return patch(c.fields, labeller{newObject: c, find: see(t)}.edits("fluence"))
}
