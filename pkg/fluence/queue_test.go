package fluence

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/test/objects"
)

func queued(t *testing.T, pod *corev1.Pod) fwk.QueuedEntityInfo {
	t.Helper()
	info, err := schedulerframework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &schedulerframework.QueuedPodInfo{PodInfo: info}
}

// native is a pod group of kube-scheduler in the queue.
type native struct {
	fwk.QueuedEntityInfo
	name     string
	priority int32
	at       time.Time
}

func (n native) GetNamespace() string    { return ns }
func (n native) GetName() string         { return n.name }
func (n native) GetPriority() int32      { return n.priority }
func (n native) GetTimestamp() time.Time { return n.at }

func TestQueueIsOrderedByPriorityThenGroup(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	pl := &Fluence{base: &base{profile: profile, groups: gang.New(&owners{}, match.PolicyLonode)}}
	pod := func(name, groupName string, priority int32, created time.Time) fwk.QueuedEntityInfo {
		p := objects.Pod(name, objects.InGroup(groupName))
		p.Spec.Priority = &priority
		p.CreationTimestamp = metav1.NewTime(created)
		pl.groups.PutPod(p, noon)
		return queued(t, p)
	}
	for i, name := range []string{"a", "b", "z"} {
		pl.groups.PutPodGroup(types.NamespacedName{Namespace: ns, Name: name}, gang.PodGroup{UID: "pg", MinMember: 2, Created: noon.Add(time.Duration(i/2) * time.Second)})
	}
	// Pods of a group are together in the queue, whenever they came.
	want := []fwk.QueuedEntityInfo{
		pod("urgent", "z", 2, noon.Add(time.Hour)),
		pod("a-0", "a", 1, noon),
		pod("a-1", "a", 1, noon.Add(time.Hour)),
		pod("b-0", "b", 1, noon),
		pod("b-1", "b", 1, noon.Add(time.Minute)),
		native{name: "ba", priority: 1, at: noon},
		native{name: "bb", priority: 1, at: noon},
		pod("z-0", "z", 1, noon),
		native{name: "late", priority: 1, at: noon.Add(time.Minute)},
		native{name: "idle", priority: 0, at: noon},
	}
	for i, a := range want {
		for j, b := range want {
			if got := pl.Less(a, b); got != (i < j) {
				t.Errorf("entity %d before entity %d: %v", i, j, got)
			}
		}
	}
}

func TestPreEnqueueLetsOneRepresentativeOfACompleteGroupPass(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pods := r.gang(3, 2)
		for _, p := range pods {
			if got := r.preEnqueueMessage(p); got != "waits for 1 more pod: has 2 of minMember 3" {
				t.Errorf("PreEnqueue of %s: %q", p.Name, got)
			}
		}
		pods = append(pods, r.pod("g-2", objects.InGroup(g.Name)))
		want := []string{"", "waits while another pod of the group is scheduled on behalf of all", "waits while another pod of the group is scheduled on behalf of all"}
		for i, p := range pods {
			if got := r.preEnqueueMessage(p); got != want[i] {
				t.Errorf("PreEnqueue of %s: %q, want %q", p.Name, got, want[i])
			}
		}
		alone := r.pod("alone")
		if got := r.preEnqueueMessage(alone); got != "" {
			t.Errorf("PreEnqueue of a pod without a group: %q", got)
		}
		if got := r.preEnqueueMessage(objects.Pod("unseen")); got != "the scheduler has not seen the pod yet" {
			t.Errorf("PreEnqueue of a pod that no informer told of: %q", got)
		}
	})
}

func TestPreEnqueueHoldsAllWhoNeedTheMatcherWhileItIsAway(t *testing.T) {
	cases := map[string]struct {
		lose func(*rig)
		back func(*rig)
		want string
	}{
		"the breaker is open": {
			lose: func(r *rig) { r.matcher.silence(true); r.pl.breaker.trip(placement.WhyUnavailable) },
			back: func(r *rig) { r.matcher.silence(false) },
			want: placement.WhyUnavailable,
		},
		"the graph is being loaded": {
			lose: func(r *rig) { r.matcherFake.Fail(matchtest.Ready, errors.New("no")); r.loseGraph() },
			back: func(r *rig) { r.matcherFake.Fail(matchtest.Ready, nil) },
			want: placement.WhyLoading + ": make the engine ready for requests: no",
		},
		"the inventory lost it": {
			lose: func(r *rig) {
				r.matcher.silence(true)
				r.matcherFake.Fail(matchtest.Reset, match.ErrUnavailable)
				r.loseGraph()
			},
			back: func(r *rig) { r.matcher.silence(false); r.matcherFake.Fail(matchtest.Reset, nil) },
			want: placement.WhyUnavailable,
		},
		"the pods at the start were not all seen": {
			lose: func(r *rig) { r.pl.synced = func() bool { return false } },
			back: func(r *rig) { r.pl.synced = func() bool { return true } },
			want: placement.WhyLoading,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.node("n1", 8)
				r.give("n1", "n1")
				pods := r.gang(2, 2)
				lone := r.pod("lone")
				r.preFilter(pods[0])
				tc.lose(r)
				r.pass(300 * time.Millisecond)
				if got := r.preEnqueueMessage(lone); got != tc.want {
					t.Errorf("PreEnqueue: %q, want %q", got, tc.want)
				}
				asked := len(r.matches())
				_, _, status := r.preFilter(lone)
				r.wantStatus(status, fwk.Unschedulable, tc.want)
				// A pod that has a node does not need the matcher.
				if got := r.preEnqueueMessage(pods[1]); got != "" {
					t.Errorf("PreEnqueue of a pod with a seat: %q", got)
				}
				if _, result, _ := r.preFilter(pods[1]); result == nil || !result.NodeNames.Has("n1") {
					t.Errorf("PreFilter of a pod with a seat: %+v, want node n1", result)
				}
				if got := len(r.matches()); got != asked {
					t.Errorf("the matcher was asked %d times", got-asked)
				}
				tc.back(r)
				r.pass(time.Second)
				if got := r.preEnqueueMessage(lone); got != "" {
					t.Errorf("PreEnqueue when the matcher is back: %q", got)
				}
			})
		})
	}
}

// An error of another plugin's Filter ends a cycle, and no plugin is notified.
func TestPreEnqueueRevokesAbandonedAssignments(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		r.give("n1", "n1")
		pods := r.gang(2, 2)
		r.preFilter(pods[0])
		if got := r.preEnqueueMessage(pods[0]); got == "" {
			t.Error("PreEnqueue let a pod pass whose seat was lost")
		}
		r.pass(0)
		released := r.matcherFake.Calls(matchtest.Release)
		if len(released) != 1 || released[0].ID != r.matches()[0].ID || !slices.Equal(released[0].Keys, []string{"g-0", "g-1"}) {
			t.Errorf("released %+v, want both seats of the match", released)
		}
		if got, want := r.preEnqueueMessage(pods[0]), "a scheduling cycle of pod g-0 ended before node n1 was reserved for it"; got != want {
			t.Errorf("PreEnqueue: %q, want %q", got, want)
		}
		r.pass(2 * time.Second)
		if got := r.preEnqueueMessage(pods[0]); got != "" {
			t.Errorf("PreEnqueue after the backoff: %q", got)
		}
	})
}

func TestPluginOrderInShippedConfiguration(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		points := r.fwk.ListPlugins()
		names := func(set config.PluginSet) (names []string) {
			for _, p := range set.Enabled {
				names = append(names, p.Name)
			}
			return names
		}
		if got := names(points.PreFilter); got[len(got)-1] != Name {
			t.Errorf("PreFilter runs %v, want %s last", got, Name)
		}
		for _, got := range [][]string{names(points.PostFilter), names(points.PodGroupPostFilter)} {
			if got[0] != Name {
				t.Errorf("PostFilter runs %v, want %s first", got, Name)
			}
		}
		if got := names(points.QueueSort); !slices.Equal(got, []string{Name}) {
			t.Errorf("QueueSort is %v, want %s alone", got, Name)
		}
	})
}
