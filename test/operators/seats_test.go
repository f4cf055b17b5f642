package operators_test

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/operators"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	jobSetExclusive          = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	leaderWorkerSetExclusive = "leaderworkerset.sigs.k8s.io/exclusive-topology"
	rackLevel                = "topology.kubernetes.io/zone"
)

// A layout is a workload of whose pods some are made only after others have nodes, are ready or have ended.
type layout struct {
	// workload is its manifest.
	workload func(s *story, name string) string
	// racks has the number of nodes in each rack that one such workload needs, and no fewer.
	racks []int
	// pods is how many pods the workload has, or its last stage. lastStage begins their names after
	// the name of the workload.
	pods      int
	lastStage string
	// exclusive says that racks are for one workload each. Whether such a workload fits an empty cluster
	// is not known, so that it has the reason NoRoom and not NeverFits.
	exclusive bool
}

var layouts = map[string]layout{
	"workers-after-a-ready-leader": {
		workload: func(s *story, name string) string { return s.leaderWorkerSet(name, "startupPolicy: LeaderReady") },
		racks:    []int{2}, pods: 4,
	},
	"a-unit-in-a-rack": {
		workload: func(s *story, name string) string {
			return annotated(s.leaderWorkerSet(name, ""), leaderWorkerSetExclusive, rackLevel)
		},
		racks: []int{2}, pods: 4, exclusive: true,
	},
	"a-unit-in-a-rack-after-its-leader": {
		workload: func(s *story, name string) string {
			return annotated(s.leaderWorkerSet(name, "startupPolicy: LeaderReady"), leaderWorkerSetExclusive, rackLevel)
		},
		racks: []int{2}, pods: 4, exclusive: true,
	},
	"each-job-in-a-rack": {
		workload: func(s *story, name string) string {
			return annotated(s.jobSet(name, "", replicatedJob{name: "workers", jobs: 2, pods: 4, cpu: "4"}), jobSetExclusive, rackLevel)
		},
		racks: []int{2, 2}, pods: 8, exclusive: true,
	},
	"a-launcher-after-ready-workers": {
		workload: func(s *story, name string) string { return s.mpiJob(name, "WaitForWorkersReady") },
		racks:    []int{2}, pods: 5,
	},
	"a-job-after-a-ready-job": {
		workload: func(s *story, name string) string {
			return s.jobSet(name, "", replicatedJob{name: "workers", jobs: 1, pods: 4, cpu: "2"},
				replicatedJob{name: "launcher", jobs: 1, pods: 1, cpu: "1", after: "workers", until: "Ready"})
		},
		racks: []int{2}, pods: 5,
	},
	"jobs-in-order": {
		workload: func(s *story, name string) string {
			return s.jobSet(name, "startupPolicy: {startupPolicyOrder: InOrder}", replicatedJob{name: "leader", jobs: 1, pods: 1, cpu: "1"},
				replicatedJob{name: "workers", jobs: 1, pods: 4, cpu: "2"})
		},
		racks: []int{2}, pods: 5,
	},
	"a-stage-after-a-stage": {
		workload: func(s *story, name string) string {
			return s.jobSet(name, "", replicatedJob{name: "init", jobs: 1, pods: 1, cpu: "1", runFor: "1s"},
				replicatedJob{name: "train", jobs: 1, pods: 4, cpu: "4", after: "init", until: "Complete"})
		},
		racks: []int{2}, pods: 4, lastStage: "train-",
	},
}

// Two workloads with room for a part of one wait, although the pods that exist would fit. With room for one,
// the one is whole, and the other waits with its reason. Pods that come later have the nodes of their seats.
func TestOneOfTwo(t *testing.T) {
	t.Parallel()
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			s := tellBeside(t)
			seats := s.watchSeats()
			last := len(l.racks) - 1
			for rack, n := range l.racks {
				if rack == last {
					n--
				}
				s.nodes(fmt.Sprintf("r%d", rack), n)
			}
			needs := fmt.Sprintf("needs %d pods", l.pods)
			for _, name := range []string{"a", "b"} {
				s.apply(l.workload(s, name))
			}
			why := reason.NeverFits
			if l.exclusive {
				why = reason.NoRoom
			}
			s.refused(2, why, needs)
			s.noneOnNodes("a-" + l.lastStage)
			s.noneOnNodes("b-" + l.lastStage)
			s.nodes(fmt.Sprintf("r%d", last), 1)
			first := ""
			s.eventually("one of the two runs whole", func(context.Context) (bool, string) {
				a, b := len(s.onNodes("a-"+l.lastStage)), len(s.onNodes("b-"+l.lastStage))
				if first = "a-"; b > 0 {
					first = "b-"
				}
				return a == l.pods && b == 0 || a == 0 && b == l.pods, fmt.Sprintf("%d and %d pods on nodes", a, b)
			})
			s.refused(1, reason.NoRoom, needs)
			s.running(first+l.lastStage, l.pods)
			if l.lastStage == "" {
				s.inSeats(seats, first)
			}
		})
	}
}

// inSeats fails if the pods with a name prefix are not on the nodes of the seats of their templates, or if a
// node selector that the operator has given one of them leaves out a node with such a seat.
func (s *story) inSeats(w *seatWatch, prefix string) {
	s.Helper()
	seats := w.only()
	if seats == nil {
		s.Fatal("no PodGroup has recorded seats, or more than one; want one")
	}
	nodes, err := s.Client().CoreV1().Nodes().List(s.Context(), metav1.ListOptions{LabelSelector: storyLabel + "=" + s.ns})
	if err != nil {
		s.Fatal(err)
	}
	at := map[string]labels.Set{}
	for _, n := range nodes.Items {
		at[n.Name] = n.Labels
	}
	taken := map[string]map[string]int32{}
	for _, pod := range s.pods(prefix) {
		template := group.TemplateOf(&pod)
		if taken[template] == nil {
			taken[template] = map[string]int32{}
		}
		taken[template][pod.Spec.NodeName]++
		for node := range seats[template] {
			if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(at[node]) {
				s.Errorf("pod %s may not go to the seat on %s: its node selector is %v", pod.Name, node, pod.Spec.NodeSelector)
			}
		}
	}
	if !maps.EqualFunc(taken, seats, maps.Equal[map[string]int32]) {
		s.Errorf("the pods are on nodes %v, want those of their seats, %v", taken, seats)
	}
}

// A seatWatch has the seats that PodGroups of a story have recorded when they started, by the name of the
// PodGroup. The record is removed when all pods have come.
type seatWatch struct {
	mu    sync.Mutex
	seats map[string]map[string]map[string]int32
}

// watchSeats begins to watch the seats of the story.
func (s *story) watchSeats() *seatWatch {
	s.Helper()
	client, err := dynamic.NewForConfig(s.RESTConfig())
	if err != nil {
		s.Fatal(err)
	}
	events, err := client.Resource(scheduling.PodGroups).Namespace(s.ns).Watch(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(events.Stop)
	w := &seatWatch{seats: map[string]map[string]map[string]int32{}}
	go func() {
		for e := range events.ResultChan() {
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			var pg scheduling.PodGroup
			if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pg) != nil {
				continue
			}
			w.mu.Lock()
			if len(pg.Status.Seats) > 0 && w.seats[pg.Name] == nil {
				w.seats[pg.Name] = pg.Status.Seats
			}
			w.mu.Unlock()
		}
	}()
	return w
}

// only returns the seats, by template and node, of the only PodGroup that has recorded some. It returns nil
// if there is none, or more than one.
func (w *seatWatch) only() map[string]map[string]int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, seats := range w.seats {
		if len(w.seats) == 1 {
			return seats
		}
	}
	return nil
}

// While pods are expected, their seats are told and held: in the PodGroup, by kubectl fluence, and against
// others. The operator is stopped so that it does not make the pods before that was seen.
func TestSeatsAreTold(t *testing.T) {
	if *native {
		t.Skip("the Job of this story has a native PodGroup there, and is told by that")
	}
	s := tell(t)
	seats := s.watchSeats()
	s.example("leader-ready.yaml")
	s.groups(1, 1)
	operator := s.Process(string(operators.LeaderWorkerSet))
	if err := operator.Pause(s.Context()); err != nil {
		t.Fatal(err)
	}
	goOn := func() {
		if err := operator.Resume(); err != nil {
			t.Error(err)
		}
	}
	defer goOn()
	s.nodes("n", 4)
	s.told(reason.Expecting, "1 of 4 bound, 3 expected, seats until ", "Z: ")
	s.apply(fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: other}\nspec: {template: {spec: %s}}", podSpec("1")))
	s.refused(1, reason.NoRoom, "needs 1 pod")
	for command, want := range map[string]string{"groups": reason.Expecting, "why lws/serving": "seats on ", "graph": "seats of " + s.ns + "/"} {
		if out := s.ask(command); !strings.Contains(out, want) {
			t.Errorf("kubectl fluence %s does not say %q:\n%s", command, want, out)
		}
	}
	goOn()
	s.running("serving-", 4)
	s.told(reason.Placed, "4 pods on 4 nodes")
	s.inSeats(seats, "serving-")
}

// ask returns what a command of kubectl fluence writes.
func (s *story) ask(command string) string {
	s.Helper()
	args := append(strings.Fields(command), "-n", s.ns, "--kubeconfig", s.Kubeconfig(), "--config", filepath.Join(s.Dir(), stack.Scheduler+".yaml"))
	out, err := exec.CommandContext(s.Context(), filepath.Join(s.Built(), stack.KubectlPlugin), args...).CombinedOutput()
	if err != nil {
		s.Errorf("kubectl fluence %s: %v\n%s", command, err, out)
	}
	return string(out)
}
