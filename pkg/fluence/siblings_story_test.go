package fluence

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

const zoneKey = "topology.kubernetes.io/zone"

func inZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[zoneKey] = zone }
}

// ofApp labels a pod as one of an app.
func ofApp(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = maps.Clone(p.Labels)
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels["app"] = app
	}
}

func termOn(key, app string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
}

// awayFrom keeps a pod from the nodes where pods of an app are.
func awayFrom(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{}
		}
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{termOn(corev1.LabelHostname, app)}}
	}
}

// nextTo binds a pod to the domains of a key where pods of an app are.
func nextTo(key, app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{}
		}
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{termOn(key, app)}}
	}
}

func hostPort(port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port, HostPort: port}}
	}
}

// spreadOver spreads the pods of an app over the domains of a key.
func spreadOver(key, app string, maxSkew int32, edit ...func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: maxSkew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}
		for _, e := range edit {
			e(&c)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

// perNode counts the pods of group g by node.
func (r *rig) perNode() map[string]int {
	r.Helper()
	n := map[string]int{}
	for pod, node := range r.assigned() {
		if strings.HasPrefix(pod, "g-") {
			n[node]++
		}
	}
	return n
}

// placedSoon fails the test unless group g has so many pods on nodes at once, without
// a refusal of any pod on the way.
func (r *rig) placedSoon(n int) map[string]int {
	r.Helper()
	r.pass(time.Second)
	got := r.perNode()
	sum := 0
	for _, k := range got {
		sum += k
	}
	if sum != n {
		r.Fatalf("%d pods on nodes (%v), want %d; conditions %+v", sum, got, n, r.api.get(g).Status.Conditions)
	}
	return got
}

func TestPodsThatKeepApartGoToNodesOfTheirOwn(t *testing.T) {
	cases := map[string]func(*corev1.Pod){
		"anti-affinity": awayFrom("x"),
		"one host port": hostPort(80),
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				for i := range 4 {
					r.node(fmt.Sprintf("n%d", i), 8)
				}
				r.schedule()
				r.gang(4, 4, ofApp("x"), edit)
				if got := r.placedSoon(4); len(got) != 4 {
					t.Errorf("pods by node = %v, want one each", got)
				}
				if got := r.refusals(); got != 0 {
					t.Errorf("%d pods were refused on the way", got)
				}
			})
		})
	}
}

func TestMorePodsThanNodesThatKeepApartNeverFit(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.schedule()
		r.gang(3, 3, ofApp("x"), awayFrom("x"))
		r.pass(2 * time.Second)
		r.wantAssigned(nil)
		if c := r.api.get(g).Status.Conditions; len(c) != 1 || c[0].Reason != reason.NeverFits {
			t.Errorf("conditions = %+v, want reason %s", c, reason.NeverFits)
		}
		r.node("n2", 8)
		if got := r.placedSoon(3); len(got) != 3 {
			t.Errorf("pods by node = %v, want one each", got)
		}
	})
}

// The anti-affinity of one member against others counts in both directions.
func TestALeaderKeepsItsWorkersAway(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.schedule()
		r.api.put(aPodGroup(g.Name, 4, "pg"))
		r.pod("g-0", inGroup(g.Name), ofApp("leader"), awayFrom("worker"))
		for i := 1; i < 4; i++ {
			r.pod(fmt.Sprintf("g-%d", i), inGroup(g.Name), ofApp("worker"))
		}
		r.placedSoon(4)
		nodes := r.assigned()
		for i := 1; i < 4; i++ {
			if w := fmt.Sprintf("g-%d", i); nodes[w] == nodes["g-0"] {
				t.Errorf("worker %s is beside the leader: %v", w, nodes)
			}
		}
	})
}

func TestPodsAreSpreadOverZonesBesideThoseThere(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		for i := range 6 {
			r.node(fmt.Sprintf("n%d", i), 16, inZone(string(rune('a'+i/2))))
		}
		// Two in a, one in c: a filter that looks before any member is placed would leave
		// zone b alone.
		r.pod("old-0", ofApp("x"), onNode("n0"))
		r.pod("old-1", ofApp("x"), onNode("n1"))
		r.pod("old-2", ofApp("x"), onNode("n4"))
		r.pass(settleTime)
		r.schedule()
		r.gang(6, 6, ofApp("x"), spreadOver(zoneKey, "x", 1))
		got := r.placedSoon(6)
		zones := []int{got["n0"] + got["n1"], got["n2"] + got["n3"], got["n4"] + got["n5"]}
		if !slices.Equal(zones, []int{1, 3, 2}) {
			t.Errorf("pods by zone = %v, want 1, 3 and 2 beside the 2, 0 and 1 that are there", zones)
		}
		if refused := r.refusals(); refused > 1 {
			t.Errorf("%d pods were refused on the way", refused)
		}
	})
}

func TestAGangThatWantsToBeInOneZoneIs(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 4, inZone("a"))
		r.node("n1", 4, inZone("b"))
		r.node("n2", 4, inZone("b"))
		r.schedule()
		r.gang(6, 6, ofApp("x"), nextTo(zoneKey, "x"))
		if got := r.placedSoon(6); got["n0"] != 0 {
			t.Errorf("pods by node = %v, want all in zone b", got)
		}
	})
}

func TestAGangThatWantsToBeOnOneNodeIs(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 2)
		r.node("n1", 4)
		r.schedule()
		r.gang(3, 3, ofApp("x"), nextTo(corev1.LabelHostname, "x"))
		if got := r.placedSoon(3); got["n1"] != 3 {
			t.Errorf("pods by node = %v, want all on n1", got)
		}
	})
}

// The pod that asks stands for all, and may not be the one that comes first.
func TestWorkersFollowTheirLeaderIntoAZone(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 2, inZone("a"))
		r.node("n1", 4, inZone("b"))
		r.schedule()
		r.api.put(aPodGroup(g.Name, 3, "pg"))
		r.pod("g-0", inGroup(g.Name), ofApp("worker"), nextTo(zoneKey, "leader"))
		r.pod("g-1", inGroup(g.Name), ofApp("worker"), nextTo(zoneKey, "leader"))
		r.pod("g-2", inGroup(g.Name), ofApp("leader"))
		r.pass(5 * time.Second)
		r.wantAssigned(map[string]string{"g-0": "n1", "g-1": "n1", "g-2": "n1"})
	})
}

func TestWhatIsVerifiedIsBookedOnceOnly(t *testing.T) {
	e := realEngine(t)
	inRig(t, e, func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.schedule()
		r.gang(2, 2, ofApp("x"), awayFrom("x"))
		r.placedSoon(2)
		var ops []match.Op
		for _, m := range r.matches() {
			ops = append(ops, m.Op)
		}
		if !slices.Equal(ops, []match.Op{match.WithoutAllocating, match.Allocate}) {
			t.Errorf("matches = %v, want one that books nothing and one that books", ops)
		}
		jobs, err := e.Jobs(r.ctx, r.pl.inventory.Epoch())
		if err != nil || len(jobs) != 1 || len(jobs[0].Slots) != 2 {
			t.Errorf("the engine holds %+v, error %v; want one job of 2 slots", jobs, err)
		}
	})
}
