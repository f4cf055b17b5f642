package group

import (
	"strings"
	"testing"
)

// Requests 15 of the lessons of earlier systems: the
// size of a group is right for each kind of owner.
func TestDefaultSize(t *testing.T) {
	jobs := func(more string) string {
		return `{"replicatedJobs":[
			{"replicas":1,"template":{"spec":{}}},
			{"replicas":2,"template":{"spec":{"parallelism":4,"completions":3}}` + more + `}]`
	}
	mpi := func(more string) string {
		return `{"mpiReplicaSpecs":{"Launcher":{},"Worker":{"replicas":4}}` + more
	}
	cases := map[string]struct {
		owner Owner
		spec  string
		want  Size
	}{
		"a pod of nobody":                             {Owner{}, `{}`, Size{1, 1}},
		"a DaemonSet":                                 {ownerOfKind(daemonSet), `{}`, Size{1, 1}},
		"a kind that is not known":                    {Owner{Group: "kubeflow.org", Kind: "PyTorchJob"}, `{"replicas":4}`, Size{1, 1}},
		"a Job that says nothing":                     {ownerOfKind(job), `{}`, Size{1, 1}},
		"a Job that is a work queue":                  {ownerOfKind(job), `{"parallelism":4}`, Size{4, 4}},
		"a Job with fewer completions than workers":   {ownerOfKind(job), `{"parallelism":4,"completions":3}`, Size{3, 3}},
		"a Job with more completions than workers":    {ownerOfKind(job), `{"parallelism":4,"completions":10}`, Size{4, 4}},
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
		"a null is what is absent":                    {ownerOfKind(job), `{"parallelism":null,"completions":null}`, Size{1, 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DefaultSize(tc.owner, []byte(tc.spec))
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
		"below zero":             {ownerOfKind(job), `{"parallelism":-2}`, "Job train: spec.parallelism: -2: must not be negative"},
		"deep inside":            {ownerOfKind(jobSet), `{"replicatedJobs":[{},{"template":{"spec":{"completions":-1}}}]}`, "JobSet train: spec.replicatedJobs[1].template: spec.completions: -1: must not be negative"},
		"more than a group has":  {ownerOfKind(job), `{"parallelism":100001}`, "Job train asks for 100001 pods: a group has at most 100000"},
		"more than there can be": {ownerOfKind(jobSet), `{"replicatedJobs":[{"replicas":2147483647,"template":{"spec":{"parallelism":2147483647}}},{}]}`, "a group has at most 100000"},
		"no spec of that kind":   {ownerOfKind(statefulSet), `{"replicas":"three"}`, "read the spec of StatefulSet train: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DefaultSize(tc.owner, []byte(tc.spec))
			if err == nil || !strings.Contains(err.Error(), tc.want) || got != (Size{}) {
				t.Errorf("DefaultSize() = %+v, error %v; want none and %q", got, err, tc.want)
			}
		})
	}
}

func FuzzDefaultSize(f *testing.F) {
	for i := range kinds {
		f.Add(i, `{"replicas":3,"parallelism":4,"completions":2,"podManagementPolicy":"Parallel"}`)
		f.Add(i, `{"replicatedJobs":[{"replicas":2147483647,"template":{"spec":{"parallelism":2147483647}}}]}`)
		f.Add(i, `{"mpiReplicaSpecs":{"Worker":{"replicas":-1}},"leaderWorkerTemplate":{"size":0}}`)
	}
	f.Fuzz(func(t *testing.T, i int, spec string) {
		if i < 0 || i >= len(kinds) {
			return
		}
		got, err := DefaultSize(ownerOfKind(kindName{kinds[i].Group, kinds[i].Kind}), []byte(spec))
		if err == nil && (got.Min < 1 || got.Min > got.Size || got.Size > MaxSize) {
			t.Errorf("DefaultSize() = %+v breaks 1 <= min <= size <= %d", got, MaxSize)
		}
	})
}
