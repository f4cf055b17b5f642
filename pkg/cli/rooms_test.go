package cli

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

func TestQueueCommandsAboutRooms(t *testing.T) {
	cases := map[string]call{
		"the cluster with room that no pod has taken": {args: "cluster", objects: untaken()},
		"the nodes with room that no pod has taken":   {args: "nodes", objects: untaken()},
		"the graph with room that no pod has taken":   {args: "graph", objects: untaken()},
		"the nodes where FluxJobs may not be read":    {args: "nodes", objects: untaken(), forbidden: []string{"fluxjobs"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.compare(t, name) })
	}
}

// untaken has jobs with room of which pods have taken nothing, a part, and what they will. Of the last one, one pod has succeeded. One
// whose pods have taken nothing has its node as a whole.
func untaken() []runtime.Object {
	all := queues()[:1]
	for i := range 5 {
		all = append(all, node(fmt.Sprintf("node-%d", i), "a", "r0"))
	}
	has := func(name string, phase v1alpha1.JobPhase, hosts string, each, pods int32) *batchv1.Job {
		j, fj := inQueue(job(name), pods, "2", time.Hour, started(hosts, time.Minute, time.Hour))
		fj.Spec.Requests = corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}
		fj.Status.Phase, fj.Status.Allocation.Seats[0].Each = phase, each
		if phase == v1alpha1.Running {
			j.Spec.Suspend = nil
		}
		all = append(all, j, fj)
		return j
	}
	has("ready", v1alpha1.Ready, "node-[0-1]", 1, 2)
	has("whole", v1alpha1.Ready, "node-4", 1, 1)
	all[len(all)-1].(*v1alpha1.FluxJob).Spec.Placement = map[string]string{group.ExclusiveAnnotation: group.ExclusiveTrue}
	comes := has("comes", v1alpha1.Running, "node-[1-2]", 2, 4)
	ends := has("ends", v1alpha1.Running, "node-3", 2, 2)
	ends.Status.Succeeded = 1
	return append(all, pod("comes-0", "node-1", "2", ofJob(comes)), pod("ends-0", "node-3", "2", ofJob(ends)))
}
