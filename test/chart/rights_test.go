package chart_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/rights"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	streamed = "what is there comes by the watch; it is listed where an API server does not stream it"
	native   = "this API server does not serve native PodGroups"
	series   = "an event that is told again within minutes becomes a series"
)

// unused are rights whose use this test does not see, and why they are granted.
var unused = map[string]string{
	"fluence-scheduler: list jobs.batch":                                        streamed,
	"fluence-scheduler: list jobsets.jobset.x-k8s.io":                           streamed,
	"fluence-scheduler: list mpijobs.kubeflow.org":                              streamed,
	"fluence-scheduler: list trainjobs.trainer.kubeflow.org":                    streamed,
	"fluence-scheduler: list podgroups.scheduling.x-k8s.io":                     streamed,
	"fluence-scheduler: get fluxjobs.fluence.flux-framework.org":                "a FluxJob is read again after a write that conflicts",
	"fluence-scheduler: list resourcequotas":                                    streamed,
	"fluence-scheduler: watch podgroups.scheduling.k8s.io":                      native,
	"fluence-scheduler: patch podgroups.scheduling.k8s.io/status":               native,
	"fluence-controller: list podgroups.scheduling.k8s.io":                      native,
	"fluence-controller: watch podgroups.scheduling.k8s.io":                     native,
	"fluence-controller: patch podgroups.scheduling.k8s.io":                     native,
	"fluence-controller: list fluxjobs.fluence.flux-framework.org":              streamed,
	"fluence-controller: list queues.fluence.flux-framework.org":                streamed,
	"fluence-controller: list namespaces":                                       streamed,
	"fluence-controller: list priorityclasses.scheduling.k8s.io":                streamed,
	"fluence-controller: list jobs.batch":                                       streamed,
	"fluence-controller: list podgroups.scheduling.x-k8s.io":                    streamed,
	"fluence-controller: list replicasets.apps":                                 streamed,
	"fluence-controller: list statefulsets.apps":                                streamed,
	"fluence-controller: patch events.events.k8s.io":                            series,
	"fluence-controller: patch events in " + stack.Namespace:                    series,
	"fluence-scheduler: create configmaps fluence-status in " + stack.Namespace: "the object is made by server-side apply, which the audit log calls a patch",
}

// podSpec is the pod spec of the objects below.
const podSpec = `{schedulerName: fluence, containers: [{name: main, image: busybox, resources: {requests: {cpu: 10m}}}]}`

// makers are objects whose pods are groups, one of each kind that Kubernetes itself has.
const makers = `apiVersion: batch/v1
kind: Job
metadata: {name: job, namespace: kinds}
spec: {template: {spec: {restartPolicy: Never, schedulerName: fluence, containers: [{name: main, image: busybox}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: deployment, namespace: kinds}
spec:
  selector: {matchLabels: {app: deployment}}
  template: {metadata: {labels: {app: deployment}}, spec: ` + podSpec + `}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: replicaset, namespace: kinds}
spec:
  selector: {matchLabels: {app: replicaset}}
  template: {metadata: {labels: {app: replicaset}}, spec: ` + podSpec + `}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: statefulset, namespace: kinds}
spec:
  serviceName: none
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: statefulset}}
  template: {metadata: {labels: {app: statefulset}}, spec: ` + podSpec + `}
---
apiVersion: v1
kind: Pod
metadata: {name: labelled, namespace: kinds, labels: {scheduling.x-k8s.io/pod-group: labelled, fluence.group-size: "1"}}
spec: ` + podSpec + `
`

// others are objects of other projects, whose controllers do
// not run here. The test creates what these would create.
const others = `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: jobset, namespace: kinds}
spec: {replicatedJobs: [{name: j, replicas: 1, template: {spec: {parallelism: 1, template: {spec: ` + podSpec + `}}}}]}
---
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: mpijob, namespace: kinds}
spec: {mpiReplicaSpecs: {Worker: {replicas: 1, template: {spec: ` + podSpec + `}}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pytorchjob, namespace: kinds}
spec: {pytorchReplicaSpecs: {Worker: {replicas: 1, template: {spec: ` + podSpec + `}}}}
---
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: tfjob, namespace: kinds}
spec: {tfReplicaSpecs: {Worker: {replicas: 1, template: {spec: ` + podSpec + `}}}}
---
apiVersion: kubeflow.org/v1
kind: XGBoostJob
metadata: {name: xgboostjob, namespace: kinds}
spec: {xgbReplicaSpecs: {Master: {replicas: 1, template: {spec: ` + podSpec + `}}}}
---
apiVersion: kubeflow.org/v1
kind: PaddleJob
metadata: {name: paddlejob, namespace: kinds}
spec: {paddleReplicaSpecs: {Worker: {replicas: 1, template: {spec: ` + podSpec + `}}}}
---
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {name: jaxjob, namespace: kinds}
spec: {jaxReplicaSpecs: {Worker: {replicas: 1, template: {spec: ` + podSpec + `}}}}
---
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: raycluster, namespace: kinds}
spec: {headGroupSpec: {template: {spec: ` + podSpec + `}}}
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: unit, namespace: kinds}
spec: {replicas: 1, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: ` + podSpec + `}}}
`

// everyKind creates a group of each kind. It makes the controller create each PodGroup
// a second time, for which the controller checks that the owner still exists.
func (s *site) everyKind() {
	s.Helper()
	s.namespace("kinds")
	s.warned()
	s.apply(makers)
	s.apply(others)
	s.owned("kinds", "jobset.jobset.x-k8s.io/jobset", pod("of-jobset"))
	for _, kind := range []string{"mpijob", "pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob"} {
		s.owned("kinds", kind+".kubeflow.org/"+kind, pod("of-"+kind))
	}
	s.owned("kinds", "raycluster.ray.io/raycluster", pod("of-raycluster"))
	// A StatefulSet of leaders, and a StatefulSet of workers for each leader.
	s.owned("kinds", "leaderworkerset.leaderworkerset.x-k8s.io/unit", set("unit"))
	eventually.True(s.Context(), s, "a leader", func(ctx context.Context) (bool, string) {
		_, err := s.Client().CoreV1().Pods("kinds").Get(ctx, "unit-0", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	s.owned("kinds", "pod/unit-0", set("unit-0"))
	const n = 5 + 9 // PodGroups of makers and of others
	placed := func() {
		s.Helper()
		if _, err := s.WaitPlaced(s.Context(), "kinds", n); err != nil {
			s.Fatal(err)
		}
	}
	placed()
	s.kubectl("delete", "podgroups.scheduling.x-k8s.io", "--all", "-n", "kinds")
	placed()
	s.kubectl("scale", "statefulset/statefulset", "--replicas=2", "-n", "kinds")
	eventually.True(s.Context(), s, "a PodGroup of two", func(ctx context.Context) (bool, string) {
		groups, err := s.PodGroups(ctx, "kinds")
		two := slices.ContainsFunc(groups, func(g scheduling.PodGroup) bool {
			return strings.HasPrefix(g.Name, "statefulset-statefulset") && g.Spec.MinMember == 2
		})
		return two, fmt.Sprint(err)
	})
	// The PodGroup of labelled pods has no owner. The controller removes it.
	s.kubectl("delete", "pod", "labelled", "-n", "kinds", "--force", "--grace-period=0")
	eventually.True(s.Context(), s, "the PodGroup of no pods is gone", func(ctx context.Context) (bool, string) {
		groups, err := s.PodGroups(ctx, "kinds")
		return err == nil && len(groups) == n-1, fmt.Sprintf("%d PodGroups, %v", len(groups), err)
	})
	s.kubectl("delete", "namespace", "kinds", "--wait=false")
}

// otherKinds makes the API server serve the kinds of other projects. The scheduler looks for them when it
// starts, and later from time to time only.
func otherKinds(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if _, _, err := c.Kubectl(t.Context(), "apply", "-f", filepath.Join(root(t), "pkg", "controller", "podgroup", "testdata", "crds.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// namespace creates a namespace, and waits until pods can be created in it.
func (s *site) namespace(name string) {
	s.Helper()
	s.kubectl("create", "namespace", name)
	eventually.True(s.Context(), s, "the namespace has its service account", func(ctx context.Context) (bool, string) {
		_, err := s.Client().CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// warned creates, in a dry run, a Job that requests whole nodes where that is not allowed.
func (s *site) warned() {
	s.Helper()
	asks := `{apiVersion: batch/v1, kind: Job, metadata: {name: whole, namespace: kinds}, spec: {template: {metadata: {annotations: {` +
		group.ExclusiveAnnotation + `: "true"}}, spec: {restartPolicy: Never, schedulerName: fluence, containers: [{name: main, image: busybox}]}}}}`
	eventually.True(s.Context(), s, "a warning of whole nodes", func(ctx context.Context) (bool, string) {
		_, told, err := s.KubectlInput(ctx, strings.NewReader(asks), "create", "--dry-run=server", "-f", "-")
		return err == nil && strings.Contains(told, "Warning: annotation "+group.ExclusiveAnnotation) && strings.Contains(told, group.WholeNodesLabel), fmt.Sprint(told, err)
	})
}

// pod returns a pod, and set a StatefulSet of one pod. The name
// is at the end, so that a caller can append to the metadata.
func pod(name string) string {
	return "apiVersion: v1\nkind: Pod\nspec: " + podSpec + "\nmetadata:\n  name: " + name
}

func set(name string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
spec:
  serviceName: none
  selector: {matchLabels: {app: %[1]s}}
  template: {metadata: {labels: {app: %[1]s}}, spec: %[2]s}
metadata:
  name: %[1]s`, name, podSpec)
}

// owned creates an object that another one controls.
func (s *site) owned(namespace, owner, manifest string) {
	s.Helper()
	ref := strings.Fields(s.kubectl("get", owner, "-n", namespace, "-o", "jsonpath={.apiVersion} {.kind} {.metadata.name} {.metadata.uid}"))
	s.apply(fmt.Sprintf("%s\n  namespace: %s\n  ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: %s, controller: true}]\n",
		manifest, namespace, ref[0], ref[1], ref[2], ref[3]))
}

// victims are workloads of each kind that the scheduler suspends. The TrainJob controls the JobSet trained. A Job of
// a higher priority needs all nodes.
var victims = `apiVersion: batch/v1
kind: Job
metadata: {name: low, namespace: evicts}
spec: {template: {spec: {restartPolicy: Never, ` + largeOn("node-0")[1:] + `}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: low, namespace: evicts}
spec: {replicatedJobs: [{name: j, replicas: 1, template: {spec: {parallelism: 1, template: {spec: ` + podSpec + `}}}}]}
---
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: low, namespace: evicts}
spec: {mpiReplicaSpecs: {Worker: {replicas: 1, template: {spec: ` + podSpec + `}}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: low, namespace: evicts}
spec: {}
`

const high = `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: batch/v1
kind: Job
metadata: {name: high, namespace: evicts}
spec:
  parallelism: 4
  completions: 4
  template:
    spec:
      schedulerName: fluence
      priorityClassName: high
      restartPolicy: Never
      containers: [{name: main, image: busybox, resources: {requests: {cpu: "5"}}}]
`

// largeOn returns the spec of a pod that leaves less than its own room on its node.
func largeOn(node string) string {
	return `{schedulerName: fluence, nodeSelector: {kubernetes.io/hostname: ` + node + `}, containers: [{name: main, image: busybox, resources: {requests: {cpu: "5"}}}]}`
}

// evicts makes the scheduler suspend a workload of each kind, and the controller resume it. The test deletes the
// pods, as the controllers of other projects do.
func (s *site) evicts() {
	s.Helper()
	s.namespace("evicts")
	s.apply(victims)
	s.owned("evicts", "trainjob.trainer.kubeflow.org/low", `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
spec: {replicatedJobs: [{name: j, replicas: 1, template: {spec: {parallelism: 1, template: {spec: `+podSpec+`}}}}]}
metadata:
  name: trained`)
	for i, owner := range []string{"jobset.jobset.x-k8s.io/low", "mpijob.kubeflow.org/low", "jobset.jobset.x-k8s.io/trained"} {
		s.owned("evicts", owner, strings.Replace(pod(fmt.Sprintf("low-%d", i)), podSpec, largeOn(fmt.Sprintf("node-%d", i+1)), 1))
	}
	if _, err := s.WaitPlaced(s.Context(), "evicts", 4); err != nil {
		s.Fatal(err)
	}
	s.apply(high)
	suspended := map[string]string{"job.batch": ".spec", "jobset.jobset.x-k8s.io": ".spec", "mpijob.kubeflow.org": ".spec.runPolicy", "trainjob.trainer.kubeflow.org": ".spec"}
	wait := func(what string, right func(suspended string, generation int) bool) {
		s.Helper()
		for kind, path := range suspended {
			eventually.True(s.Context(), s, kind+" "+what, func(context.Context) (bool, string) {
				got := s.kubectl("get", kind+"/low", "-n", "evicts", "-o", "jsonpath={"+path+".suspend} {.metadata.generation}")
				is, of, _ := strings.Cut(got, " ")
				generation, err := strconv.Atoi(of)
				return err == nil && right(is, generation), "suspended and generation: " + got
			})
		}
	}
	// One whose pods have gone may be resumed already. Nobody else changes their specs.
	wait("is or was suspended", func(is string, generation int) bool { return is == "true" || generation > 1 })
	s.kubectl("delete", "pod", "low-0", "low-1", "low-2", "-n", "evicts", "--force", "--grace-period=0", "--ignore-not-found")
	wait("is resumed", func(is string, generation int) bool { return is == "false" && generation > 1 })
	s.kubectl("delete", "priorityclass", "high")
	s.kubectl("delete", "namespace", "evicts", "--wait=false")
}

// inQueue are a queue, and a Job and a pod that start at once. waits is a Job that comes later.
const (
	inQueue = `apiVersion: fluence.flux-framework.org/v1alpha1
kind: Queue
metadata: {name: rights}
spec: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: queued}}, defaults: {duration: 1h}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: turn, namespace: queued, labels: {fluence.flux-framework.org/queue: rights}}
spec: {template: {spec: {restartPolicy: Never, schedulerName: fluence, containers: [{name: main, image: busybox}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: queued, labels: {fluence.flux-framework.org/queue: rights}}
spec: ` + podSpec + `
`
	waits = `apiVersion: batch/v1
kind: Job
metadata: {name: waits, namespace: queued, labels: {fluence.flux-framework.org/queue: rights}}
spec: {template: {spec: {restartPolicy: Never, schedulerName: fluence, containers: [{name: main, image: busybox}]}}}
`
)

// queues lets a Job and a pod of a queue start. Then the queue stops, and a Job waits in it, asks for another duration, and
// leaves it.
func (s *site) queues() {
	s.Helper()
	s.namespace("queued")
	s.apply(inQueue)
	placed := func(jobs ...string) {
		s.Helper()
		for _, job := range jobs {
			s.kubectl("wait", "--for=jsonpath={.status.active}=1", "--timeout=60s", "job/"+job, "-n", "queued")
			s.kubectl("wait", "--for=condition=PodScheduled", "--timeout=60s", "pod", "-l", "batch.kubernetes.io/job-name="+job, "-n", "queued")
		}
	}
	placed("turn")
	s.kubectl("wait", "--for=condition=PodScheduled", "--timeout=60s", "pod/alone", "-n", "queued")
	s.kubectl("patch", "queue.fluence.flux-framework.org", "rights", "--type=merge", "-p", `{"spec": {"started": false}}`)
	s.apply(waits)
	fluxJobs := func(what string, right func(said string) bool) {
		s.Helper()
		eventually.True(s.Context(), s, what, func(context.Context) (bool, string) {
			said := s.kubectl("get", "fluxjobs.fluence.flux-framework.org", "-n", "queued", "-o",
				`jsonpath={range .items[*]}{.spec.workload.name} {.spec.duration} {.status.conditions[?(@.type=="Admitted")].reason};{end}`)
			return right(said), said
		})
	}
	fluxJobs("the queue is stopped", func(said string) bool { return strings.Contains(said, "waits  QueueStopped;") })
	// It is suspended again, after a look at its FluxJob.
	s.kubectl("patch", "job", "waits", "-n", "queued", "--type=merge", "-p", `{"spec": {"suspend": false}}`)
	s.kubectl("wait", "--for=jsonpath={.spec.suspend}=true", "--timeout=60s", "job/waits", "-n", "queued")
	s.kubectl("patch", "job", "waits", "-n", "queued", "--type=merge", "-p", `{"spec": {"template": {"metadata": {"annotations": {"`+group.DurationAnnotation+`": "2h"}}}}}`)
	fluxJobs("the Job asks for two hours", func(said string) bool { return strings.Contains(said, "waits 2h QueueStopped;") })
	s.kubectl("label", "--overwrite", "job", "waits", "-n", "queued", group.QueueLabel+"=")
	fluxJobs("the Job has left the queue", func(said string) bool { return said != "" && !strings.Contains(said, "waits") })
	placed("waits")
	s.kubectl("delete", "namespace", "queued", "--wait=false")
	s.kubectl("delete", "queue.fluence.flux-framework.org", "rights")
}

// restarts makes a group lose a member for good. The others are then evicted.
func (s *site) restarts() {
	s.Helper()
	s.kubectl("create", "namespace", "restarts")
	s.kubectl("apply", "-n", "restarts", "-f", s.Example("incomplete-restart.yaml"))
	if _, err := s.WaitPlaced(s.Context(), "restarts", 1); err != nil {
		s.Fatal(err)
	}
	pods, err := s.Client().CoreV1().Pods("restarts").List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, n := range s.nodesBut(pods.Items[0].Spec.NodeName) {
		s.kubectl("cordon", n)
	}
	left := pods.Items[0]
	s.kubectl("delete", "pod", pods.Items[1].Name, "-n", "restarts", "--force", "--grace-period=0")
	eventually.True(s.Context(), s, "the pod that is left is evicted", func(ctx context.Context) (bool, string) {
		now, err := s.Client().CoreV1().Pods("restarts").Get(ctx, left.Name, metav1.GetOptions{})
		return err != nil || now.UID != left.UID || now.DeletionTimestamp != nil, fmt.Sprint(err)
	})
	s.kubectl("delete", "namespace", "restarts", "--wait=false")
}

// nodesBut returns the nodes except one.
func (s *site) nodesBut(name string) []string {
	s.Helper()
	nodes, err := s.Client().CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for _, n := range slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == name }) {
		names = append(names, n.Name)
	}
	return names
}

// checkRights compares each account's requests with the rights of
// the chart's roles. No request was refused, and no right is unused.
func (s *site) checkRights() {
	s.Helper()
	there := map[string]bool{}
	for _, account := range []string{stack.Scheduler, stack.Controller} {
		record, err := rights.Read(s.AuditEvents(), "system:serviceaccount:"+stack.Namespace+":"+account)
		if err != nil {
			s.Fatal(err)
		}
		for _, r := range record.Denied {
			s.Errorf("%s may not %s", account, r)
		}
		granted := s.granted(account)
		for _, r := range granted {
			there[account+": "+r.String()] = true
		}
		for _, r := range rights.Unused(granted, record.Used) {
			if key := account + ": " + r.String(); unused[key] == "" {
				s.Errorf("%s: granted, and not used", key)
			}
		}
	}
	for key := range unused {
		if !there[key] {
			s.Errorf("%s: excused, and not granted", key)
		}
	}
}

// granted returns the rights of the roles with an account's name.
func (s *site) granted(account string) []rights.Right {
	s.Helper()
	api := s.Client().RbacV1()
	everywhere, err := api.ClusterRoles().Get(s.Context(), account, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	here, err := api.Roles(stack.Namespace).Get(s.Context(), account, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var all []rights.Right
	for namespace, rules := range map[string][]rbacv1.PolicyRule{"": everywhere.Rules, stack.Namespace: here.Rules} {
		granted, err := rights.Granted(rules, namespace)
		if err != nil {
			s.Fatalf("%s: %v", account, err)
		}
		all = append(all, granted...)
	}
	return all
}
