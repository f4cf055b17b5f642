package group

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// Requests 15 of the lessons of earlier systems: the
// size of a group is right for each kind of owner.
func TestDefaultSize(t *testing.T) {
	jobs := func(more string) string {
		return `{"replicatedJobs":[
			{"name":"a","replicas":1,"template":{"spec":{}}},
			{"name":"b","replicas":2,"template":{"spec":{"parallelism":4,"completions":3}}` + more + `}]`
	}
	mpi := func(more string) string {
		return `{"mpiReplicaSpecs":{"Launcher":{},"Worker":{"replicas":4}}` + more
	}
	ray := func(group, more string) string {
		return `{"headGroupSpec":{},"workerGroupSpecs":[{"groupName":"a","replicas":6` + group + `},{"groupName":"b"}]` + more + `}`
	}
	const autoscaled = `,"enableInTreeAutoscaling":true`
	cases := map[string]struct {
		owner Owner
		spec  string
		want  Size
	}{
		"a pod of nobody":                             {Owner{}, `{}`, Size{1, 1}},
		"a DaemonSet":                                 {ownerOfKind(daemonSet), `{}`, Size{1, 1}},
		"a kind that is not known":                    {Owner{Group: "batch.volcano.sh", Kind: "Job"}, `{"replicas":4}`, Size{1, 1}},
		"a Job that says nothing":                     {ownerOfKind(job), `{}`, Size{1, 1}},
		"a Job that is a work queue":                  {ownerOfKind(job), `{"parallelism":4}`, Size{4, 4}},
		"a Job with fewer completions than workers":   {ownerOfKind(job), `{"parallelism":4,"completions":3}`, Size{3, 3}},
		"a Job with more completions than workers":    {ownerOfKind(job), `{"parallelism":4,"completions":10}`, Size{4, 4}},
		"an Indexed Job":                              {ownerOfKind(job), `{"completionMode":"Indexed","parallelism":4,"completions":6}`, Size{4, 4}},
		"a Job that runs nothing for now":             {ownerOfKind(job), `{"parallelism":0,"completions":10}`, Size{1, 1}},
		"a Deployment":                                {ownerOfKind(deployment), `{"replicas":5}`, Size{5, 1}},
		"a Deployment that says nothing":              {ownerOfKind(deployment), `{}`, Size{1, 1}},
		"a ReplicaSet":                                {ownerOfKind(replicaSet), `{"replicas":2}`, Size{2, 1}},
		"a StatefulSet that makes pods in order":      {ownerOfKind(statefulSet), `{"replicas":3,"podManagementPolicy":"OrderedReady"}`, Size{3, 1}},
		"a StatefulSet with the default policy":       {ownerOfKind(statefulSet), `{"replicas":3}`, Size{3, 1}},
		"a StatefulSet that makes pods in parallel":   {ownerOfKind(statefulSet), `{"replicas":3,"podManagementPolicy":"Parallel"}`, Size{3, 3}},
		"a StatefulSet without pods":                  {ownerOfKind(statefulSet), `{"replicas":0,"podManagementPolicy":"Parallel"}`, Size{1, 1}},
		"a JobSet":                                    {ownerOfKind(jobSet), jobs("") + "}", Size{7, 7}},
		"a JobSet that starts its Jobs in order":      {ownerOfKind(jobSet), jobs("") + `,"startupPolicy":{"startupPolicyOrder":"InOrder"}}`, Size{7, 1}},
		"a JobSet of which a Job depends on another":  {ownerOfKind(jobSet), jobs(`,"dependsOn":[{"name":"a","status":"Ready"}]`) + "}", Size{7, 1}},
		"an empty JobSet":                             {ownerOfKind(jobSet), `{}`, Size{1, 1}},
		"an MPIJob":                                   {ownerOfKind(mpiJob), mpi("}"), Size{5, 5}},
		"an MPIJob whose launcher waits for workers":  {ownerOfKind(mpiJob), mpi(`,"launcherCreationPolicy":"WaitForWorkersReady"}`), Size{5, 4}},
		"a LeaderWorkerSet":                           {ownerOfKind(leaderWorkerSet), `{"replicas":9,"leaderWorkerTemplate":{"size":4}}`, Size{4, 4}},
		"a LeaderWorkerSet whose workers wait for it": {ownerOfKind(leaderWorkerSet), `{"startupPolicy":"LeaderReady","leaderWorkerTemplate":{"size":4}}`, Size{4, 1}},
		"a PyTorchJob":                                {ownerOfKind(pyTorchJob), `{"pytorchReplicaSpecs":{"Master":{},"Worker":{"replicas":7}}}`, Size{8, 8}},
		"an elastic PyTorchJob":                       {ownerOfKind(pyTorchJob), `{"pytorchReplicaSpecs":{"Worker":{"replicas":7}},"elasticPolicy":{"minReplicas":2}}`, Size{7, 2}},
		"one that needs more than there are":          {ownerOfKind(pyTorchJob), `{"pytorchReplicaSpecs":{"Master":{},"Worker":{"replicas":2}},"elasticPolicy":{"minReplicas":4}}`, Size{3, 3}},
		"an elastic PyTorchJob that names no minimum": {ownerOfKind(pyTorchJob), `{"pytorchReplicaSpecs":{"Worker":{"replicas":7}},"elasticPolicy":{"maxReplicas":9}}`, Size{7, 7}},
		"a TFJob":                            {ownerOfKind(tfJob), `{"tfReplicaSpecs":{"Chief":{},"PS":{"replicas":2},"Worker":{"replicas":4},"Evaluator":{}}}`, Size{8, 8}},
		"an XGBoostJob":                      {ownerOfKind(xgBoostJob), `{"xgbReplicaSpecs":{"Master":{},"Worker":{"replicas":2}}}`, Size{3, 3}},
		"a PaddleJob":                        {ownerOfKind(paddleJob), `{"paddleReplicaSpecs":{"Worker":{"replicas":2}}}`, Size{2, 2}},
		"a JAXJob":                           {ownerOfKind(jaxJob), `{"jaxReplicaSpecs":{"Worker":{"replicas":3}}}`, Size{3, 3}},
		"a RayCluster":                       {ownerOfKind(rayCluster), ray("", ""), Size{7, 7}},
		"a RayCluster without workers":       {ownerOfKind(rayCluster), `{"headGroupSpec":{}}`, Size{1, 1}},
		"a worker of a RayCluster has hosts": {ownerOfKind(rayCluster), ray(`,"numOfHosts":4`, ""), Size{25, 25}},
		"minReplicas of a RayCluster raise replicas":  {ownerOfKind(rayCluster), ray(`,"minReplicas":8`, ""), Size{9, 9}},
		"maxReplicas of a RayCluster bound replicas":  {ownerOfKind(rayCluster), ray(`,"minReplicas":1,"maxReplicas":3`, ""), Size{4, 4}},
		"a RayCluster that Ray scales":                {ownerOfKind(rayCluster), ray(`,"minReplicas":2,"numOfHosts":2`, autoscaled), Size{13, 5}},
		"a RayCluster that Ray scales to nothing":     {ownerOfKind(rayCluster), ray("", autoscaled), Size{7, 1}},
		"a worker group of a RayCluster is suspended": {ownerOfKind(rayCluster), ray(`,"minReplicas":2,"suspend":true`, ""), Size{1, 1}},
		"a null is what is absent":                    {ownerOfKind(job), `{"parallelism":null,"completions":null}`, Size{1, 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DefaultSize(tc.owner, []byte(tc.spec), "fluence")
			if err != nil || got != tc.want {
				t.Errorf("DefaultSize() = %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func TestDefaultSizeNamesTheFieldAndTheValue(t *testing.T) {
	cases := map[string]struct {
		owner Owner
		spec  string
		want  string
	}{
		"below zero":                     {ownerOfKind(job), `{"parallelism":-2}`, "Job train: spec.parallelism: -2: must not be negative"},
		"deep inside":                    {ownerOfKind(jobSet), `{"replicatedJobs":[{},{"template":{"spec":{"completions":-1}}}]}`, "JobSet train: spec.replicatedJobs[1].template: spec.completions: -1: must not be negative"},
		"a worker group of a RayCluster": {ownerOfKind(rayCluster), `{"workerGroupSpecs":[{},{"numOfHosts":-1}]}`, "RayCluster train: spec.workerGroupSpecs[1].numOfHosts: -1: must not be negative"},
		"a role of a PyTorchJob":         {ownerOfKind(pyTorchJob), `{"pytorchReplicaSpecs":{"Worker":{"replicas":-1}}}`, "PyTorchJob train: spec.pytorchReplicaSpecs[Worker].replicas: -1: must not be negative"},
		"more than a group has":          {ownerOfKind(job), `{"parallelism":100001}`, "Job train asks for 100001 pods: a group has at most 100000"},
		"more than there can be":         {ownerOfKind(jobSet), `{"replicatedJobs":[{"replicas":2147483647,"template":{"spec":{"parallelism":2147483647}}},{}]}`, "a group has at most 100000"},
		"no spec of that kind":           {ownerOfKind(statefulSet), `{"replicas":"three"}`, "read the spec of StatefulSet train: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DefaultSize(tc.owner, []byte(tc.spec), "fluence")
			if err == nil || !strings.Contains(err.Error(), tc.want) || got != (Size{}) {
				t.Errorf("DefaultSize() = %+v, error %v; want none and %q", got, err, tc.want)
			}
		})
	}
}

// Pods of another scheduler would never come to this one.
func TestDefaultSizeCountsTheTemplatesOfTheScheduler(t *testing.T) {
	const ours, others = `{"spec":{"schedulerName":"fluence"}}`, `{"spec":{"schedulerName":"other"}}`
	replicated := func(name string, pods int, template, more string) string {
		return fmt.Sprintf(`{"name":%q,"template":{"spec":{"parallelism":%d,"template":%s}}%s}`, name, pods, template, more)
	}
	jobs := func(all ...string) string { return `{"replicatedJobs":[` + strings.Join(all, ",") + `]}` }
	mpi := func(launcher, worker, more string) string {
		return `{"mpiReplicaSpecs":{"Launcher":{"template":` + launcher + `},"Worker":{"replicas":8,"template":` + worker + `}}` + more + `}`
	}
	lws := func(leader, worker, more string) string {
		return `{"leaderWorkerTemplate":{"size":4,"workerTemplate":` + worker + leader + `}` + more + `}`
	}
	const driver, waiting = "1 pod of JobSet/train, driver, has schedulerName other", `,"launcherCreationPolicy":"WaitForWorkersReady"`
	cases := map[string]struct {
		owner  Owner
		spec   string
		want   Size
		others string
	}{
		"a driver elsewhere":                     {ownerOfKind(jobSet), jobs(replicated("driver", 1, others, ""), replicated("workers", 8, ours, "")), Size{8, 8}, driver},
		"all Jobs are ours":                      {ownerOfKind(jobSet), jobs(replicated("driver", 1, ours, ""), replicated("workers", 8, ours, "")), Size{9, 9}, ""},
		"workers that wait for it":               {ownerOfKind(jobSet), jobs(replicated("driver", 1, others, ""), replicated("workers", 8, ours, `,"dependsOn":[{"name":"driver"}]`)), Size{8, 8}, driver},
		"through it for a Job of ours":           {ownerOfKind(jobSet), jobs(replicated("init", 2, ours, ""), replicated("driver", 1, others, `,"dependsOn":[{"name":"init"}]`), replicated("workers", 8, ours, `,"dependsOn":[{"name":"driver"}]`)), Size{10, 2}, driver},
		"for a Job that there is not":            {ownerOfKind(jobSet), jobs(replicated("init", 2, ours, ""), replicated("workers", 8, ours, `,"dependsOn":[{"name":"x"}]`)), Size{10, 2}, ""},
		"no template names a scheduler":          {ownerOfKind(jobSet), jobs(replicated("driver", 1, "{}", ""), replicated("workers", 8, "{}", "")), Size{9, 9}, ""},
		"all templates name another":             {ownerOfKind(jobSet), jobs(replicated("driver", 1, others, ""), replicated("workers", 8, "{}", "")), Size{9, 9}, ""},
		"a launcher of the default scheduler":    {ownerOfKind(mpiJob), mpi("{}", ours, ""), Size{8, 8}, "1 pod of MPIJob/train, Launcher, has schedulerName default-scheduler"},
		"it waits for workers":                   {ownerOfKind(mpiJob), mpi("{}", ours, waiting), Size{8, 8}, "1 pod of MPIJob/train, Launcher, has schedulerName default-scheduler"},
		"a launcher that waits for workers":      {ownerOfKind(mpiJob), mpi(ours, others, waiting), Size{1, 1}, "8 pods of MPIJob/train, Worker, have schedulerName other"},
		"a leader elsewhere":                     {ownerOfKind(leaderWorkerSet), lws(`,"leaderTemplate":`+others, ours, ""), Size{3, 3}, "1 pod of LeaderWorkerSet/train, leader, has schedulerName other"},
		"for which the workers wait":             {ownerOfKind(leaderWorkerSet), lws(`,"leaderTemplate":`+others, ours, `,"startupPolicy":"LeaderReady"`), Size{3, 3}, "1 pod of LeaderWorkerSet/train, leader, has schedulerName other"},
		"workers elsewhere":                      {ownerOfKind(leaderWorkerSet), lws(`,"leaderTemplate":`+ours, "{}", ""), Size{1, 1}, "3 pods of LeaderWorkerSet/train, workers, have schedulerName default-scheduler"},
		"a leader without a template":            {ownerOfKind(leaderWorkerSet), lws("", ours, ""), Size{4, 4}, ""},
		"a head of a RayCluster elsewhere":       {ownerOfKind(rayCluster), `{"headGroupSpec":{},"workerGroupSpecs":[{"groupName":"gpu","replicas":3,"template":` + ours + `}]}`, Size{3, 3}, "1 pod of RayCluster/train, head, has schedulerName default-scheduler"},
		"a master of a PyTorchJob elsewhere":     {ownerOfKind(pyTorchJob), `{"pytorchReplicaSpecs":{"Master":{"template":` + others + `},"Worker":{"replicas":7,"template":` + ours + `}}}`, Size{7, 7}, "1 pod of PyTorchJob/train, Master, has schedulerName other"},
		"a Job of another scheduler":             {ownerOfKind(job), `{"parallelism":4,"template":` + others + `}`, Size{4, 4}, ""},
		"a kind whose spec says nothing":         {ownerOfKind(daemonSet), `{}`, Size{1, 1}, ""},
		"a driver without pods is not mentioned": {ownerOfKind(jobSet), jobs(replicated("driver", 0, others, ""), replicated("workers", 8, ours, "")), Size{8, 8}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DefaultSize(tc.owner, []byte(tc.spec), "fluence")
			if err != nil || got != tc.want {
				t.Errorf("DefaultSize() = %+v, %v; want %+v", got, err, tc.want)
			}
			if got := OtherSchedulers(tc.owner, []byte(tc.spec), "fluence"); got != tc.others {
				t.Errorf("OtherSchedulers() = %q, want %q", got, tc.others)
			}
		})
	}
}

func FuzzDefaultSize(f *testing.F) {
	for i := range kinds {
		f.Add(i, `{"replicas":3,"parallelism":4,"completions":2,"podManagementPolicy":"Parallel"}`)
		f.Add(i, `{"replicatedJobs":[{"replicas":2147483647,"template":{"spec":{"parallelism":2147483647}}}]}`)
		f.Add(i, `{"workerGroupSpecs":[{"replicas":2147483647,"numOfHosts":2147483647,"minReplicas":3}],"enableInTreeAutoscaling":true}`)
		f.Add(i, `{"pytorchReplicaSpecs":{"Worker":{"replicas":3}},"elasticPolicy":{"minReplicas":-1}}`)
		f.Add(i, `{"mpiReplicaSpecs":{"Worker":{"replicas":-1}},"leaderWorkerTemplate":{"size":0}}`)
	}
	f.Fuzz(func(t *testing.T, i int, spec string) {
		if i < 0 || i >= len(kinds) {
			return
		}
		got, err := DefaultSize(ownerOfKind(kindName{kinds[i].Group, kinds[i].Kind}), []byte(spec), "fluence")
		if err == nil && (got.Min < 1 || got.Min > got.Size || got.Size > MaxSize) {
			t.Errorf("DefaultSize() = %+v breaks 1 <= min <= size <= %d", got, MaxSize)
		}
	})
}

// Pods that name a native PodGroup are in no other group.
func TestTheSizesOfNativePodGroups(t *testing.T) {
	in := func(native string) string {
		return fmt.Sprintf(`{"spec":{"schedulerName":"fluence","schedulingGroup":{"podGroupName":%q}}}`, native)
	}
	const out = `{"spec":{"schedulerName":"fluence"}}`
	replicated := func(name string, pods int, template, more string) string {
		return fmt.Sprintf(`{"name":%q,"template":{"spec":{"parallelism":%d,"template":%s}}%s}`, name, pods, template, more)
	}
	jobs := func(all ...string) string { return `{"replicatedJobs":[` + strings.Join(all, ",") + `]}` }
	exclusive := map[string]string{jobSetExclusiveAnnotation: "rack"}
	const ended = `,"dependsOn":[{"name":"driver","status":"Complete"}]`
	cases := map[string]struct {
		owner       Owner
		annotations map[string]string
		spec        string
		want        map[string]Size
		wantOwn     Size
	}{
		"none":                          {ownerOfKind(job), nil, `{"parallelism":4,"template":` + out + `}`, nil, Size{4, 4}},
		"a Job":                         {ownerOfKind(job), nil, `{"parallelism":4,"template":` + in("n") + `}`, map[string]Size{"n": {4, 4}}, Size{1, 1}},
		"a part of a JobSet":            {ownerOfKind(jobSet), nil, jobs(replicated("driver", 1, out, ""), replicated("workers", 8, in("n"), "")), map[string]Size{"n": {8, 8}}, Size{1, 1}},
		"each part has its own":         {ownerOfKind(jobSet), nil, jobs(replicated("driver", 1, in("m"), ""), replicated("workers", 8, in("n"), "")), map[string]Size{"m": {1, 1}, "n": {8, 8}}, Size{1, 1}},
		"a part that waits for another": {ownerOfKind(jobSet), nil, jobs(replicated("driver", 1, out, ""), replicated("workers", 8, in("n"), `,"dependsOn":[{"name":"driver"}]`)), map[string]Size{"n": {8, 8}}, Size{1, 1}},
		"stages of one":                 {ownerOfKind(jobSet), nil, jobs(replicated("driver", 1, in("n"), ""), replicated("workers", 8, in("n"), ended)), map[string]Size{"n": {9, 1}}, Size{1, 1}},
		"followers of leaders":          {ownerOfKind(jobSet), exclusive, jobs(replicated("driver", 2, out, ""), replicated("workers", 8, in("n"), "")), map[string]Size{"n": {8, 1}}, Size{2, 2}},
		"after the end of another":      {ownerOfKind(jobSet), exclusive, jobs(replicated("driver", 2, out, ""), replicated("workers", 8, in("n"), ended)), map[string]Size{"n": {8, 1}}, Size{2, 2}},
		"the workers of an MPIJob":      {ownerOfKind(mpiJob), nil, `{"mpiReplicaSpecs":{"Launcher":{"template":` + out + `},"Worker":{"replicas":8,"template":` + in("n") + `}}}`, map[string]Size{"n": {8, 8}}, Size{1, 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := NativeSizes(tc.owner, tc.annotations, []byte(tc.spec), "fluence")
			if err != nil || !maps.Equal(got, tc.want) {
				t.Errorf("NativeSizes() = %v, %v, want %v", got, err, tc.want)
			}
			if own, err := DefaultSize(tc.owner, []byte(tc.spec), "fluence"); err != nil || own != tc.wantOwn {
				t.Errorf("DefaultSize() = %v, %v, want %v", own, err, tc.wantOwn)
			}
		})
	}
}

// Only kinds whose pods have their templates nowhere else are asked for them.
func TestLabelledTemplates(t *testing.T) {
	const worker = `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}},"spec":{"schedulerName":"fluence","schedulingGroup":{"podGroupName":"n"}}}`
	const master = `{"spec":{"schedulerName":"other"}}`
	got := LabelledTemplates(ownerOfKind(pyTorchJob), []byte(`{"pytorchReplicaSpecs":{"Master":{"template":`+master+`},"Worker":{"template":`+worker+`},"Idle":{"replicas":0,"template":`+worker+`}}}`), "fluence")
	if len(got) != 1 || got[0].Name != "Worker" || got[0].Native != "n" || got[0].Labels["a"] != "b" || got[0].Annotations["c"] != "d" {
		t.Errorf("LabelledTemplates() = %+v, want that of the workers", got)
	}
	if got := LabelledTemplates(ownerOfKind(job), []byte(`{"template":`+worker+`}`), "fluence"); got != nil {
		t.Errorf("LabelledTemplates() of a Job = %+v, want none", got)
	}
}
