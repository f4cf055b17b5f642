package fluence

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

// A gang of a thousand pods, as the controller of each kind of workload creates
// it, stays far below every limit on any machine, because steps are counted.
func TestThousandPodsOfEveryKindOfWorkloadAreNotTooHard(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand pods on a thousand nodes, once for each kind, take long under the race detector")
	}
	const n = 1000
	labelled := func(of func(i int) map[string]string) func(int, *corev1.Pod) {
		return func(i int, p *corev1.Pod) { maps.Copy(p.Labels, of(i)) }
	}
	kinds := map[string]func(i int, p *corev1.Pod){
		"Job": labelled(func(i int) map[string]string {
			return map[string]string{
				"batch.kubernetes.io/job-completion-index": fmt.Sprint(i), "batch.kubernetes.io/job-name": "w",
				"batch.kubernetes.io/controller-uid": "u", "controller-uid": "u", "job-name": "w",
			}
		}),
		"StatefulSet with volumes": func(i int, p *corev1.Pod) {
			maps.Copy(p.Labels, map[string]string{
				"statefulset.kubernetes.io/pod-name": p.Name, "apps.kubernetes.io/pod-index": fmt.Sprint(i), "controller-revision-hash": "w-1",
			})
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("data-", i)},
			}}}
		},
		"JobSet": labelled(func(i int) map[string]string {
			return map[string]string{
				"jobset.sigs.k8s.io/jobset-name": "w", "jobset.sigs.k8s.io/replicatedjob-name": "workers", "jobset.sigs.k8s.io/replicatedjob-replicas": "100",
				"jobset.sigs.k8s.io/job-index": fmt.Sprint(i / 10), "jobset.sigs.k8s.io/job-key": fmt.Sprint("key-", i/10),
				"jobset.sigs.k8s.io/job-global-index": fmt.Sprint(i / 10), "jobset.sigs.k8s.io/restart-attempt": "0",
				"batch.kubernetes.io/job-completion-index": fmt.Sprint(i % 10), "batch.kubernetes.io/job-name": fmt.Sprint("w-workers-", i/10),
				"batch.kubernetes.io/controller-uid": fmt.Sprint("u-", i/10), "job-name": fmt.Sprint("w-workers-", i/10),
			}
		}),
		"LeaderWorkerSet": labelled(func(i int) map[string]string {
			return map[string]string{
				"leaderworkerset.sigs.k8s.io/name": "w", "leaderworkerset.sigs.k8s.io/group-index": "0", "leaderworkerset.sigs.k8s.io/group-key": "k",
				"leaderworkerset.sigs.k8s.io/worker-index": fmt.Sprint(i), "leaderworkerset.sigs.k8s.io/template-revision-hash": "h",
				"statefulset.kubernetes.io/pod-name": fmt.Sprint("w-0-", i), "apps.kubernetes.io/pod-index": fmt.Sprint(i),
			}
		}),
		"MPIJob": func(i int, p *corev1.Pod) {
			role := "worker"
			if i == 0 {
				role = "launcher"
				objects.CPU("500m")(p)
			}
			maps.Copy(p.Labels, map[string]string{
				"training.kubeflow.org/operator-name": "mpi-operator", "training.kubeflow.org/job-name": "w",
				"training.kubeflow.org/job-role": role, "training.kubeflow.org/replica-index": fmt.Sprint(i),
			})
		},
		"RayCluster": func(i int, p *corev1.Pod) {
			kind := "worker"
			if i == 0 {
				kind = "head"
				objects.CPU("2")(p)
			}
			maps.Copy(p.Labels, map[string]string{
				"ray.io/cluster": "w", "ray.io/node-type": kind, "ray.io/group": kind, "ray.io/identifier": "w-" + kind, "ray.io/is-ray-node": "yes",
				"ray.io/worker-group-replica-index": fmt.Sprint(i / 2), "ray.io/replica-host-index": fmt.Sprint(i % 2),
			})
		},
	}
	asked := map[string]func(*corev1.Pod){
		"for no more": func(*corev1.Pod) {},
		"for a node each, in zones that are even": func(p *corev1.Pod) {
			objects.AwayFrom("w")(p)
			objects.SpreadOver(objects.ZoneKey, "w", 10)(p)
		},
	}
	for kind, edit := range kinds {
		for asks, also := range asked {
			t.Run(kind+" "+asks, func(t *testing.T) {
				s := &steps{}
				inRig(t, countedEngine{realEngine(t), s}, func(r *rig) {
					r.countSteps(s)
					// Reports are off, because writes to each pod of the fake API take longest.
					r.standby.Store(true)
					waits := storagev1.VolumeBindingWaitForFirstConsumer
					r.must(r.client.Tracker().Add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "example.com/any", VolumeBindingMode: &waits}))
					for i := range n {
						node := objects.ReadyNode(fmt.Sprintf("n-%04d", i), 8)
						node.Labels[objects.ZoneKey] = fmt.Sprint("zone-", i%4)
						r.must(r.client.Tracker().Add(node))
					}
					r.podGroupAPI.put(aPodGroup(g.Name, n, "pg"))
					var first *corev1.Pod
					for i := range n {
						p := objects.Pod(fmt.Sprintf("w-%04d", i), objects.InGroup(g.Name), objects.OfApp("w"), func(p *corev1.Pod) { edit(i, p) }, also)
						for _, v := range p.Spec.Volumes {
							r.must(r.client.Tracker().Add(&corev1.PersistentVolumeClaim{
								ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: v.PersistentVolumeClaim.ClaimName},
								Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: new("late")},
							}))
						}
						r.must(r.client.Tracker().Add(p))
						if first == nil {
							first = p
						}
					}
					r.pass(settleTime + time.Second)
					if why := r.preEnqueueMessage(first); why != "" {
						r.Fatalf("it may not ask: %s", why)
					}
					began := s.taken.Load()
					_, _, status := r.preFilter(first)
					r.Logf("%d steps", s.taken.Load()-began)
					if !status.IsSuccess() {
						r.Errorf("it is told %q", status.Message())
					}
				})
			})
		}
	}
}
