package fluence

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// The filters are the real ones of the shipped configuration.
func TestFiltersBecomeConstraints(t *testing.T) {
	hostPort := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}
	ssd := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }
	byName := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"good"}},
			}}},
		}}}
	}
	never := func(hosts ...string) jobspec.SlotAttributes {
		return jobspec.SlotAttributes{Constraints: matchtest.Not(matchtest.Hosts(hosts...))}
	}
	cases := map[string]struct {
		edit func(*corev1.Pod)
		want jobspec.SlotAttributes
	}{
		"taints and cordons rule out for good":           {func(*corev1.Pod) {}, never("cordoned", "tainted")},
		"a selector does, too":                           {ssd, never("cordoned", "ported", "slow", "tainted")},
		"so does what a plugin's PreFilter leaves out":   {byName, never("cordoned", "full", "ported", "slow", "tainted")},
		"what other pods have rules out for the present": {hostPort, jobspec.SlotAttributes{Constraints: matchtest.Not(matchtest.Hosts("cordoned", "tainted")), ConstraintsNow: matchtest.Not(matchtest.Hosts("ported"))}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				fast := func(n *corev1.Node) { n.Labels["disk"] = "ssd" }
				r.node("tainted", 8, fast, func(n *corev1.Node) {
					n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
				})
				r.node("cordoned", 8, fast, func(n *corev1.Node) { n.Spec.Unschedulable = true })
				r.node("ported", 8)
				r.node("slow", 8)
				r.node("good", 8, fast)
				r.node("full", 1, fast) // the matcher decides about room
				r.pod("guest", objects.OnNode("ported"), hostPort)
				r.pod("hog", objects.OnNode("full"))
				r.give("good")
				if got := r.nodeOf(r.pod("lone", tc.edit)); got != "good" {
					t.Errorf("node = %s, want good", got)
				}
				requests := r.matches()
				if len(requests) != 1 {
					r.Fatalf("%d matches, want one: the plugin's own PreFilter was run for the filters", len(requests))
				}
				if diff := cmp.Diff(tc.want, requests[0].Jobspec.Attributes.System.Fluence["shape0"]); diff != "" {
					t.Errorf("constraints (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// onlyN2PreFilter is a plugin whose PreFilter leaves one node, and which has no Filter.
type onlyN2PreFilter struct{}

func (onlyN2PreFilter) Name() string { return "Narrow" }

func (onlyN2PreFilter) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return &fwk.PreFilterResult{NodeNames: sets.New("n2")}, nil
}

func (onlyN2PreFilter) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func TestNodesThatAPreFilterLeavesOutAreRuledOut(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		for _, n := range []string{"n1", "n2", "n3"} {
			r.node(n, 8)
		}
		r.give("n2")
		r.nodeOf(r.pod("lone"))
		got := r.matches()[0].Jobspec.Attributes.System.Fluence["shape0"]
		want := jobspec.SlotAttributes{Constraints: matchtest.Not(matchtest.Hosts("n1", "n3"))}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("constraints (-want +got):\n%s", diff)
		}
	}, onlyN2PreFilter{})
}

func TestRefusalNamesTheFiltersAndWaitsForWhatTheyLookAt(t *testing.T) {
	cases := map[string]struct {
		edit  func(*corev1.Pod)
		words string
		until map[gang.Event]bool
	}{
		"no filter": {
			edit: func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			},
			until: map[gang.Event]bool{gang.Released: true, gang.NodeChanged: true, gang.MatcherBack: true},
		},
		"a filter that looks at nodes": {
			edit:  func(*corev1.Pod) {},
			words: " (1 node(s) had untolerated taint(s))",
			until: map[gang.Event]bool{gang.Released: true, gang.NodeChanged: true, gang.MatcherBack: true},
		},
		"a filter that looks at pods": {
			edit: func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
			},
			words: " (1 node(s) didn't have free ports for the requested pod ports)",
			until: map[gang.Event]bool{gang.Released: true, gang.NodeChanged: true, gang.MatcherBack: true, gang.PodChanged: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, ev := range gang.AllEvents() {
				inRig(t, nil, func(r *rig) {
					r.node("n1", 8, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}} })
					r.pod("guest", objects.OnNode("n1"), func(p *corev1.Pod) {
						p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
					})
					r.pass(settleTime)
					r.matcherFake.Refuse(match.ErrBusy, match.Reason{Code: match.NoNode, Wanted: 1})
					pod := r.pod("lone", tc.edit)
					_, _, status := r.preFilter(pod)
					r.wantStatus(status, fwk.Unschedulable, "needs 1 pod: the cluster has no nodes"+tc.words)
					r.pass(time.Minute)
					if r.preEnqueueMessage(pod) == "" {
						t.Error("the pod asks again though nothing happened")
					}
					r.pl.observeEvent(ev)
					if asks := r.preEnqueueMessage(pod) == ""; asks != tc.until[ev] {
						t.Errorf("after event %d the pod asks again: %v, want %v", ev, asks, tc.until[ev])
					}
				})
			}
		})
	}
}

func TestPodRejectedByPreFilterIsNotMatched(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		r.podGroupAPI.put(aPodGroup(g.Name, 2, "pg"))
		first := r.pod("g-0", objects.InGroup(g.Name))
		r.pod("g-1", objects.InGroup(g.Name), func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"},
			}}}
		})
		_, _, status := r.preFilter(first)
		r.wantStatus(status, fwk.Unschedulable, `pod g-1: persistentvolumeclaim "missing" not found`)
		if got := r.matches(); len(got) != 0 {
			t.Errorf("matches = %+v, want none", got)
		}
		r.pass(0)
		if got := r.podGroupAPI.get(g).Status.Conditions; len(got) != 1 || got[0].Reason != reason.NodesRuledOut {
			t.Errorf("conditions = %+v, want one with reason %s", got, reason.NodesRuledOut)
		}
	})
}
