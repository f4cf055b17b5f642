package fluence

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/test/objects"
)

// groupDeletingPlugin deletes a whole group during its placement. The group's name
// begins with the point of the scheduling cycle at which that happens.
type groupDeletingPlugin struct {
	r    *rig
	gone map[string]bool
}

func (*groupDeletingPlugin) Name() string { return "Remover" }

func (m *groupDeletingPlugin) at(point string, pod *corev1.Pod) {
	name, _, _ := strings.Cut(pod.Name, ".")
	if !strings.HasPrefix(name, point) || m.gone[name] {
		return
	}
	m.gone[name] = true
	for i := range 3 {
		// Pods that are not created yet cannot be deleted.
		_ = m.r.client.CoreV1().Pods(ns).Delete(m.r.ctx, fmt.Sprintf("%s.%d", name, i), metav1.DeleteOptions{})
	}
	m.r.podGroupAPI.drop(types.NamespacedName{Namespace: ns, Name: name})
}

// Filter acts only on the node that was matched.
func (m *groupDeletingPlugin) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if _, err := state.Read(assignedNodeKey); err == nil {
		m.at("matched", pod)
	}
	return nil
}

func (m *groupDeletingPlugin) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	m.at("reserved", pod)
	if strings.HasSuffix(pod.Name, ".2") {
		m.at("permitted", pod)
	}
	return nil
}

func (*groupDeletingPlugin) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

// Groups that are deleted while they are placed leave no allocation, whatever
// has been done for them by then (State 6 of the lessons of earlier systems).
func TestNothingIsLeftOfGroupsDeletedWhileTheyArePlaced(t *testing.T) {
	if raceDetector {
		t.Skip("kube-scheduler 1.37.1 sets waitingPod.done under a read lock: a pod that is deleted while its group is rejected is rejected by both at once")
	}
	e := realEngine(t)
	m := &groupDeletingPlugin{gone: map[string]bool{}}
	inRig(t, e, func(r *rig) {
		m.r = r
		r.node("n1", 64)
		r.schedule()
		var names []string
		for i := range 10 {
			for _, point := range []string{"matched", "reserved", "permitted"} {
				names = append(names, fmt.Sprintf("%s%d", point, i))
			}
		}
		for _, name := range names {
			r.podGroupAPI.put(aPodGroup(name, 3, types.UID(name)))
			for i := range 3 {
				r.pod(fmt.Sprintf("%s.%d", name, i), objects.InGroup(name))
			}
		}
		r.pass(10 * time.Second)
		for _, name := range names {
			if !m.gone[name] {
				t.Errorf("group %s did not come to the point at which it is deleted", name)
			}
		}
		r.wantAssigned(nil)
		if jobs, err := e.Jobs(r.ctx, r.pl.inventory.Epoch()); err != nil || len(jobs) != 0 {
			t.Errorf("the engine holds %+v, error %v; want nothing", jobs, err)
		}
		if got := r.reportedGroups(); len(got) != 0 {
			t.Errorf("news of %v are kept", got)
		}
		if got := r.pl.groups.WaitingGroups(); len(got) != 0 {
			t.Errorf("groups are kept: %+v", got)
		}
	}, m)
}

// groupDeletingFilter deletes group g while the filters run.
type groupDeletingFilter struct {
	r    *rig
	once sync.Once
}

func (*groupDeletingFilter) Name() string { return "Leaver" }

func (l *groupDeletingFilter) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if placement.IsProbe(state) {
		l.once.Do(func() { l.r.deleteGang(2) })
	}
	return nil
}

// deleteGang deletes PodGroup g and its n pods from another goroutine
// than the test's. It returns when all others have seen that.
func (r *rig) deleteGang(n int) {
	for i := range n {
		// Pods that are not created yet cannot be deleted.
		_ = r.client.CoreV1().Pods(ns).Delete(r.ctx, fmt.Sprintf("g-%d", i), metav1.DeleteOptions{})
	}
	r.podGroupAPI.drop(g)
	time.Sleep(time.Millisecond)
}

// The nodes that filters rejected for a group are kept for its next attempt only if there is one.
func TestExclusionsOfAGroupDeletedDuringItsAttemptAreForgotten(t *testing.T) {
	l := &groupDeletingFilter{}
	inRig(t, realEngine(t), func(r *rig) {
		l.r = r
		r.node("n1", 4)
		r.schedule()
		r.gang(2, 2, objects.OfApp("g"), objects.AwayFrom("g"))
		r.pass(10 * time.Second)
		if len(r.matches()) == 0 {
			t.Error("the group did not ask")
		}
		if got := r.exclusionCount(); got != 0 {
			t.Errorf("nodes are kept as excluded for %d groups, want none", got)
		}
	}, l)
}

// onLogLine runs a function when a line is logged.
type onLogLine struct {
	klog.LogSink
	line string
	do   func()
}

func (i onLogLine) Info(level int, msg string, values ...any) {
	i.LogSink.Info(level, msg, values...)
	if msg == i.line {
		i.do()
	}
}

// One goroutine stores what was reported about a group, and another
// forgets it when the group ends. Nothing is left if the end comes first.
func TestReportsOfAGroupThatEndsMeanwhileAreForgotten(t *testing.T) {
	for name, tc := range map[string]struct {
		line  string
		pods  int
		cores string
	}{
		"that it gathers": {line: "Group refused", pods: 1, cores: "1"},
		"that it waits":   {line: "Group refused", pods: 2, cores: "3"},
		"that it started": {line: "Group placed", pods: 2, cores: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				ended := false
				end := sync.OnceFunc(func() {
					r.deleteGang(tc.pods)
					ended = true
				})
				r.pl.log = klog.New(onLogLine{LogSink: r.pl.log.GetSink(), line: tc.line, do: end})
				r.node("n1", 4)
				r.schedule()
				r.gang(2, tc.pods, objects.CPU(tc.cores))
				r.pass(10 * time.Second)
				if !ended {
					t.Fatalf("%q was not logged", tc.line)
				}
				if got := r.reportedGroups(); len(got) != 0 {
					t.Errorf("news of %v are kept", got)
				}
			})
		})
	}
}
