package fluence

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// atLength is an allowance that a test does not come to the end of.
func atLength(t *testing.T) *allowance {
	return &allowance{ctx: t.Context(), now: time.Now, began: time.Now(), most: time.Hour}
}

func kindsOf(plan gang.Plan, by *selectedBy) int {
	shapes, _ := shapesOf(plan, by)
	return len(shapes)
}

// Labels in which the pods of a group differ by design make shapes of them only as far
// as pods of the group tell each other apart by them.
func TestPodsAreAlikeThatTheirSiblingsDoNotTellApart(t *testing.T) {
	notBesideTheFirst := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}},
			}},
		}}
	}
	eachByItself := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			TopologyKey: zoneKey, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{batchv1.JobCompletionIndexAnnotation},
		}}
	}
	cases := map[string]struct {
		edit func(*corev1.Pod)
		want int
	}{
		"nobody asks":                     {edit: func(*corev1.Pod) {}, want: 1},
		"the first and all others":        {edit: notBesideTheFirst, want: 2},
		"each is to be counted by itself": {edit: eachByItself, want: 8},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var plan gang.Plan
			for i := range 8 {
				plan.Required = append(plan.Required, aPod(fmt.Sprint(i), func(p *corev1.Pod) {
					p.Labels = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(i)}
				}, tc.edit))
			}
			if got := kindsOf(plan, selectedByOf(plan, nil, &shuns{}, atLength(t))); got != tc.want {
				t.Errorf("%d shapes, want %d", got, tc.want)
			}
		})
	}
}

// A label tells pods apart only if something reads it.
func TestALabelThatNothingReadsMakesNoShape(t *testing.T) {
	const key = "example.com/index"
	shunsTheFirst := func(namespaces ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Namespace = "elsewhere"
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, Namespaces: namespaces,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: "0"}},
				}},
			}}
		}
	}
	cases := map[string]struct {
		there []*corev1.Pod
		all   bool
		want  int
	}{
		"nobody":                   {nil, false, 1},
		"a pod that is there":      {[]*corev1.Pod{aPod("there", shunsTheFirst(ns))}, false, 2},
		"a pod of others":          {[]*corev1.Pod{aPod("there", shunsTheFirst())}, false, 1},
		"an extender, for example": {nil, true, 8},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := gang.Plan{Key: g}
			for i := range 8 {
				plan.Required = append(plan.Required, aPod(fmt.Sprint(i), func(p *corev1.Pod) { p.Labels = map[string]string{key: fmt.Sprint(i)} }))
			}
			by := selectedByOf(plan, []fwk.NodeInfo{schedulerframework.NewNodeInfo(tc.there...)}, &shuns{}, atLength(t))
			by.all = tc.all
			if got := kindsOf(plan, by); got != tc.want {
				t.Errorf("%d shapes, want %d", got, tc.want)
			}
		})
	}
}

// keepingOff is a pod of another namespace that keeps all pods off whose completion index is
// among some values, once for each list of them.
func keepingOff(name string, lists ...[]string) *corev1.Pod {
	return aPod(name, func(p *corev1.Pod) {
		p.Namespace = "elsewhere"
		var terms []corev1.PodAffinityTerm
		for _, values := range lists {
			terms = append(terms, corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{},
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: batchv1.JobCompletionIndexAnnotation, Operator: metav1.LabelSelectorOpIn, Values: values,
				}}},
			})
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	})
}

// Pods that are there tell apart few kinds of those that come: what else they object to is
// verified pod by pod.
func TestPodsOfOthersDoNotMakeAGroupHard(t *testing.T) {
	bits := func(n int) (lists [][]string) {
		for bit := range n {
			var values []string
			for i := range 1000 {
				if i>>bit&1 == 1 {
					values = append(values, fmt.Sprint(i))
				}
			}
			lists = append(lists, values)
		}
		return lists
	}
	singles := func(n int) (lists [][]string) {
		for i := range n {
			lists = append(lists, []string{fmt.Sprint(i)})
		}
		return lists
	}
	cases := map[string]struct {
		lists [][]string
		want  int
		exact bool
	}{
		"none":                      {nil, 1, true},
		"a half":                    {bits(1), 2, true},
		"sixteen kinds":             {bits(4), 16, true},
		"a thousand kinds":          {bits(10), 1, false},
		"more than are told apart":  {singles(maxOthers + 1), 1, false},
		"many that nobody is among": {[][]string{{"-1"}, {"-2"}, {"-3"}}, 1, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := gang.Plan{Key: g}
			for i := range 1000 {
				plan.Required = append(plan.Required, aPod(fmt.Sprint(i), func(p *corev1.Pod) {
					p.Labels = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(i)}
				}))
			}
			var there []fwk.NodeInfo
			for i, l := range tc.lists {
				there = append(there, schedulerframework.NewNodeInfo(keepingOff(fmt.Sprint("there-", i), l)))
			}
			shapes, exact := shapesOf(plan, selectedByOf(plan, there, &shuns{}, atLength(t)))
			if len(shapes) != tc.want || exact != tc.exact {
				t.Errorf("%d kinds, exactly %t; want %d and %t", len(shapes), exact, tc.want, tc.exact)
			}
		})
	}
}

// A group that pods of others keep off a node, each pod in a way of its own, is placed where
// they do not.
func TestAGroupIsPlacedBesideManyObjections(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 8)
		r.node("n2", 8)
		var lists [][]string
		for i := range maxOthers + 1 {
			lists = append(lists, []string{fmt.Sprint(i)})
		}
		there := keepingOff("there", lists...)
		there.Spec.SchedulerName, there.Spec.NodeName = "default-scheduler", "n1"
		r.add(there)
		r.api.put(aPodGroup("g", 4, "pg"))
		for i := range 4 {
			r.pod(fmt.Sprint("g-", i), inGroup("g"), func(p *corev1.Pod) { p.Labels[batchv1.JobCompletionIndexAnnotation] = fmt.Sprint(i) })
		}
		r.schedule()
		if got := r.placedSoon(4); got["n2"] != 4 {
			t.Errorf("pods by node: %v, want all on n2", got)
		}
	})
}

// A scheduling cycle may come upon a pod that is gone by then.
func TestWhatAPodShunsIsKeptWhileItIsThere(t *testing.T) {
	pod := aPod("there", func(p *corev1.Pod) {
		p.UID, p.Spec.NodeName = "there", "n1"
		term := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term, term}}}
	})
	info, err := schedulerframework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	var s shuns
	for _, step := range []struct {
		do   func()
		kept int
	}{{func() {}, 0}, {func() { s.put(pod) }, 1}, {func() { s.drop(pod.UID) }, 0}} {
		step.do()
		if got := s.of(info); len(got.each) != 1 || !got.namespaces.Has(pod.Namespace) || got.everywhere {
			t.Errorf("it shuns %+v, want one selector in its own namespace", got)
		}
		if len(s.by) != step.kept {
			t.Errorf("%d pods are kept, want %d", len(s.by), step.kept)
		}
	}
}
