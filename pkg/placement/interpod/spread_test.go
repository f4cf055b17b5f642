package interpod

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/test/objects"
	"github.com/flux-k8s/fluence/test/trials"
)

// spreadOf builds a constraint over domains with these numbers of existing pods.
func spreadOf(maxSkew, minDomains int, there ...int) *spreadConstraint {
	sp := &spreadConstraint{key: "k", maxSkew: maxSkew, minDomains: minDomains, counted: []int{0}}
	for i, n := range there {
		v := string(rune('a' + i))
		sp.domains = append(sp.domains, spreadDomain{value: v, hosts: []string{v + "0", v + "1"}, existing: n})
	}
	return sp
}

func TestCountRangesFillLowestDomainsFirst(t *testing.T) {
	cases := map[string]struct {
		sp     *spreadConstraint
		n      int
		closed []int
		room   []int // where it is not as much as can be
		want   []countRange
	}{
		"three empty domains":                         {sp: spreadOf(1, 1, 0, 0, 0), n: 6, want: []countRange{{2, 3}, {2, 3}, {2, 3}}},
		"one more than a multiple":                    {sp: spreadOf(1, 1, 0, 0, 0), n: 7, want: []countRange{{2, 3}, {2, 3}, {2, 3}}},
		"two are ahead":                               {sp: spreadOf(1, 1, 2, 0, 1), n: 6, want: []countRange{{1, 2}, {3, 4}, {2, 3}}},
		"one is too far ahead to get any":             {sp: spreadOf(1, 1, 9, 0), n: 3, want: []countRange{{0, 0}, {3, 4}}},
		"a wider skew":                                {sp: spreadOf(3, 1, 0, 0), n: 4, want: []countRange{{2, 5}, {2, 5}}},
		"a domain that nobody can go to stays lowest": {sp: spreadOf(2, 1, 0, 0, 0), n: 4, closed: []int{2}, want: []countRange{{0, 2}, {0, 2}, {0, 2}}},
		"fewer domains than wanted count as empty":    {sp: spreadOf(2, 3, 0, 0), n: 4, want: []countRange{{0, 2}, {0, 2}}},
		"a domain with little room is the floor":      {sp: spreadOf(100, 1, 0, 0), n: 10, room: []int{10, 2}, want: []countRange{{2, 102}, {2, 102}}},
		"a full domain is the floor":                  {sp: spreadOf(100, 1, 0, 3), n: 10, room: []int{10, 0}, want: []countRange{{3, 103}, {0, 100}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			room := tc.room
			if room == nil {
				room = roomExcept(tc.sp, tc.closed)
			}
			if got := tc.sp.countRanges(tc.n, room); !slices.Equal(got[0], tc.want) {
				t.Errorf("bands = %v, want %v", got[0], tc.want)
			}
		})
	}
}

// roomExcept returns room for very many members in all domains except the closed ones.
func roomExcept(sp *spreadConstraint, closed []int) []int {
	room := make([]int, len(sp.domains))
	for i := range room {
		if !slices.Contains(closed, i) {
			room[i] = 1000
		}
	}
	return room
}

// allowsSkew is what PodTopologySpread checks before a pod goes to domain i.
func allowsSkew(counts []int, maxSkew, i int) bool { return counts[i]+1-slices.Min(counts) <= maxSkew }

// reachable lists the counts that pods can reach one by one.
func reachable(counts []int, open []bool, maxSkew, n int, seen map[string]bool, ends map[string][]int) {
	text := fmt.Sprint(counts)
	if seen[text] {
		return
	}
	seen[text] = true
	if n == 0 {
		ends[text] = slices.Clone(counts)
		return
	}
	for i := range counts {
		if open[i] && allowsSkew(counts, maxSkew, i) {
			counts[i]++
			reachable(counts, open, maxSkew, n-1, seen, ends)
			counts[i]--
		}
	}
}

// countsWithin lists the counts that the ranges allow.
func countsWithin(there []int, bs []countRange, i, n int, at []int, all *[][]int) {
	if i == len(bs) {
		if n == 0 {
			*all = append(*all, slices.Clone(at))
		}
		return
	}
	for x := bs[i].min; x <= min(bs[i].max, n); x++ {
		countsWithin(there, bs, i+1, n-x, append(at, there[i]+x), all)
	}
}

// The ranges allow only counts that can be reached pod by pod. If all floors are
// tried, they allow all such counts.
func TestCountRangesEqualReachableCounts(t *testing.T) {
	for seed := range trials.Seeds(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		there := make([]int, 1+r.IntN(4))
		open, room := make([]bool, len(there)), make([]int, len(there))
		for i := range there {
			if there[i], open[i] = r.IntN(5), r.IntN(5) > 0; open[i] {
				room[i] = 1 + r.IntN(8)
			}
		}
		n, maxSkew := r.IntN(7), 1+r.IntN(3)
		could := map[string][]int{}
		reachable(slices.Clone(there), open, maxSkew, n, map[string]bool{}, could)
		sp := spreadOf(maxSkew, 1, there...)
		floors := sp.countRanges(n, room)
		allowed := map[string]bool{}
		for _, bs := range floors {
			var all [][]int
			for i := range bs {
				if !open[i] {
					bs[i] = countRange{}
				}
			}
			countsWithin(there, bs, 0, n, nil, &all)
			for _, e := range all {
				allowed[fmt.Sprint(e)] = true
				if could[fmt.Sprint(e)] == nil {
					t.Fatalf("seed %d: %v and %d more with skew %d, open %v: bands %v allow %v, which no order comes to", seed, there, n, maxSkew, open, bs, e)
				}
			}
		}
		for text, end := range could {
			fits := true
			for i := range end {
				fits = fits && end[i]-there[i] <= room[i]
			}
			if fits && len(floors) < 5 && !allowed[text] {
				t.Fatalf("seed %d: %v and %d more with skew %d, room %v: %s can be reached, and no band allows it", seed, there, n, maxSkew, room, text)
			}
		}
	}
}

func TestCountRangesAsLimits(t *testing.T) {
	level := spreadOf(1, 1, 0, 0)
	level.level = "zone"
	cases := map[string]struct {
		sp   *spreadConstraint
		n    int
		bs   []countRange
		want []jobspec.Limit
	}{
		"one number for all is said of the level": {sp: level, n: 2, bs: []countRange{{0, 1}, {0, 1}}, want: []jobspec.Limit{{Name: "s", Level: "zone", Most: 1}}},
		"what is lower than the most is said of the domain": {sp: level, n: 2, bs: []countRange{{0, 0}, {0, 1}}, want: []jobspec.Limit{
			{Name: "s", Level: "zone", Most: 1}, {Name: "s/most/0", Hosts: []string{"a[0-1]"}, Most: 0}}},
		"at least so many is at most the rest elsewhere": {sp: spreadOf(1, 1, 0, 0), n: 3, bs: []countRange{{1, 2}, {0, 2}}, want: []jobspec.Limit{
			{Name: "s/most/2", Hosts: []string{"a[0-1]", "b[0-1]"}, Most: 2},
			{Name: "s/least/a", Hosts: []string{"b[0-1]"}, Most: 2},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.sp.limits("s", tc.n, tc.bs); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("limits = %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestTooManyMinimumsBecomeFixedCounts(t *testing.T) {
	sp := spreadOf(1, 1, make([]int, maxMinimums+1)...)
	bs := sp.rangeChoices(len(sp.domains)+2, roomExcept(sp, nil))[0]
	sum := int64(0)
	for _, l := range sp.limits("s", len(sp.domains)+2, bs) {
		if l.Most < 1 || l.Most > 2 {
			t.Errorf("limit %+v, want 1 or 2", l)
		}
		sum += l.Most * int64(len(l.Hosts))
	}
	if want := int64(len(sp.domains) + 2); sum != want {
		t.Errorf("room for %d, want exactly %d", sum, want)
	}
}

func TestSpreadCountsAsThePluginDoes(t *testing.T) {
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}
	}
	honour, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	onB := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kind": "b"} }
	cases := map[string]struct {
		edit []func(*corev1.Pod)
		want string
	}{
		"nodes without the label are no domain": {
			edit: []func(*corev1.Pod){objects.SpreadOver(objects.ZoneKey, "x", 1)}, want: "a:2 b:1 c:0"},
		"nodes outside of the pod's affinity do not count": {
			edit: []func(*corev1.Pod){objects.SpreadOver(objects.ZoneKey, "x", 1), onB}, want: "b:1"},
		"unless the policy ignores it": {
			edit: []func(*corev1.Pod){objects.SpreadOver(objects.ZoneKey, "x", 1, func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &ignore }), onB}, want: "a:2 b:1 c:0"},
		"tainted nodes count unless the policy honours taints": {
			edit: []func(*corev1.Pod){objects.SpreadOver(objects.ZoneKey, "x", 1, func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &honour })}, want: "a:2 b:1"},
		"nodes have to have the labels of all constraints": {
			edit: []func(*corev1.Pod){objects.SpreadOver(objects.ZoneKey, "x", 1), objects.SpreadOver("kind", "x", 1)}, want: "b:1"},
		"labels of the pod's own narrow what is counted": {
			edit: []func(*corev1.Pod){ofVersion("2"), objects.SpreadOver(objects.ZoneKey, "x", 1, func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"version"} })}, want: "a:1 b:0 c:0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			there := []*nodeWith{
				aNode("n0", objects.InZone("a")).with(objects.Pod("p0", objects.OfApp("x")), objects.Pod("p1", objects.OfApp("x"), ofVersion("2")), objects.Pod("p2", objects.OfApp("y"))),
				aNode("n1", objects.InZone("b"), ofKind("b")).with(objects.Pod("p3", objects.OfApp("x")), objects.Pod("p4", objects.OfApp("x"), leaving), objects.Pod("p5", objects.OfApp("x"), objects.Elsewhere)),
				aNode("n2", objects.InZone("c"), tainted),
				aNode("n3").with(objects.Pod("p6", objects.OfApp("x"))),
			}
			s := constraintsOn(t, there, nil, asShape(2, append([]func(*corev1.Pod){objects.OfApp("x")}, tc.edit...)...))
			var text string
			for _, d := range s.spreads[0].domains {
				text += fmt.Sprintf(" %s:%d", d.value, d.existing)
			}
			if text != " "+tc.want {
				t.Errorf("counted%s, want %s", text, tc.want)
			}
		})
	}
}

func leaving(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }

func ofVersion(v string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels["version"] = v }
}

func ofKind(kind string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels["kind"] = kind }
}

// Before any member is placed, the filters would leave only the lowest domain.
func TestSpreadsThatCountMembersAreRelaxed(t *testing.T) {
	s := constraintsOn(t, []*nodeWith{aNode("n0", objects.InZone("a"))}, nil,
		asShape(2, objects.OfApp("x"), objects.SpreadOver(objects.ZoneKey, "x", 1), objects.SpreadOver(corev1.LabelHostname, "others", 2)))
	skews := []int32{}
	for _, c := range s.Relaxed[0].Spec.TopologySpreadConstraints {
		skews = append(skews, c.MaxSkew)
	}
	if skews[0] < 1_000_000 || skews[1] != 2 {
		t.Errorf("the filters look with skews %v, want the first eased and the second as it is", skews)
	}
	if got := s.shapes[0].Pods[0].Spec.TopologySpreadConstraints[0].MaxSkew; got != 1 {
		t.Errorf("the pod itself was changed: maxSkew %d", got)
	}
}
