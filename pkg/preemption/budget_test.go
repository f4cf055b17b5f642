package preemption

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestProtectedPods(t *testing.T) {
	budget := func(allowed int32, edit ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: objects.Namespace},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		}
		for _, e := range edit {
			e(b)
		}
		return b
	}
	x := labelled("app", "x")
	three := func() []*corev1.Pod {
		return []*corev1.Pod{running("a", 5, x), running("b", 6, x), running("c", 5, x, boundBefore(2*time.Hour))}
	}
	cases := map[string]struct {
		pods   []*corev1.Pod
		budget *policyv1.PodDisruptionBudget
		want   map[string]int
	}{
		"none is allowed":                 {three(), budget(0), map[string]int{"a": 1, "b": 1, "c": 1}},
		"one is, the least important one": {three(), budget(1), map[string]int{"b": 1, "c": 1}},
		"two are, then the older one":     {three(), budget(2), map[string]int{"b": 1}},
		"all are":                         {three(), budget(3), map[string]int{}},
		"a pod that was disrupted does not count": {three(), budget(1, func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptedPods = map[string]metav1.Time{"b": {}}
		}), map[string]int{"c": 1}},
		"the budget of another namespace": {three(), budget(0, func(b *policyv1.PodDisruptionBudget) { b.Namespace = "elsewhere" }), map[string]int{}},
		"an empty selector selects none":  {three(), budget(0, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }), map[string]int{}},
		"pods of a group count one by one": {
			[]*corev1.Pod{running("a", 5, x, labelled(group.Label, "g")), running("b", 5, x, labelled(group.Label, "g")), running("c", 5, x)}, budget(1), map[string]int{"g": 2},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := &world{pods: tc.pods, owners: web, podGroups: groups("g"), budgets: []*policyv1.PodDisruptionBudget{tc.budget}}
			victims, _ := w.candidates()
			if len(victims) < 2 {
				t.Fatalf("the candidates are %v", texts(victims))
			}
			for i, u := range Units(victims, now) {
				if v := victims[i]; v.Protected != tc.want[v.Name] || u.Protected != int64(v.Protected) {
					t.Errorf("%d pods of %s are protected, and %d for the matcher, want %d", v.Protected, v.Name, u.Protected, tc.want[v.Name])
				}
			}
		})
	}
}

// One budget for each of many services costs few steps, because the pods of a service have the same labels for it.
func TestBudgetsOfManyServicesAreRegarded(t *testing.T) {
	const services, replicas = 300, 10
	w := &world{owners: web}
	for i := range services {
		w.budgets = append(w.budgets, budgetOf(objects.Namespace, fmt.Sprint("b", i), &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}))
		for j := range replicas {
			name := fmt.Sprint("p", i, "-", j)
			w.pods = append(w.pods, running(name, 5, labelled("app", fmt.Sprint(i)), labelled("name", name)))
		}
	}
	victims, _ := w.candidates()
	for _, v := range victims {
		if v.Protected != 1 {
			t.Fatalf("%s is not protected", v.Name)
		}
	}
	if len(victims) != services*replicas {
		t.Errorf("there are %d victims", len(victims))
	}
}

// A namespace with more budgets than there is time for protects none of its pods by them, and those of others are
// protected as ever.
func TestTheWorkForBudgetsIsBounded(t *testing.T) {
	long := &metav1.LabelSelector{}
	for k := range 10 {
		long.MatchExpressions = append(long.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprint("a", k), Operator: metav1.LabelSelectorOpNotIn, Values: []string{"1", "2"}})
	}
	keys := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for k := range 1000 {
		keys.MatchLabels[fmt.Sprint("k", k)] = "x"
	}
	all := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a0", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	cases := map[string]struct {
		budgets  int
		selector *metav1.LabelSelector
		allowed  int32
	}{
		"more terms than are read":            {6000, long, 0},
		"more terms than are compared":        {200, long, 0},
		"more budgets than are read":          {200_000, all, 0},
		"many budgets that match all pods":    {1000, all, 1 << 30},
		"more keys than are looked up in all": {1, keys, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := &world{owners: web, budgets: []*policyv1.PodDisruptionBudget{budgetOf("elsewhere", "b", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}})}}
			for i := range tc.budgets {
				b := budgetOf(objects.Namespace, fmt.Sprint("b", i), tc.selector)
				b.Status.DisruptionsAllowed = tc.allowed
				w.budgets = append(w.budgets, b)
			}
			for i := range 2000 {
				w.pods = append(w.pods, running(fmt.Sprint("p", i), 5, labelled("a1", fmt.Sprint("v", i))))
			}
			w.pods = append(w.pods, running("other", 5, objects.Elsewhere, labelled("app", "x")))
			var found []*candidate
			for _, pod := range w.pods[:2000] {
				found = append(found, &candidate{kind: Pod, pods: []*occupant{{pod: pod}}})
			}
			b := &budgets{steps: maxBudgetSteps}
			if b.read(w.budgets[1:]) && countProtected(found, b) {
				t.Errorf("%d steps are left, want that they are not enough", b.steps)
			}
			victims, _ := w.candidates()
			if len(victims) != 2001 {
				t.Fatalf("there are %d victims", len(victims))
			}
			for _, v := range victims {
				if want := map[string]int{"elsewhere": 1}[v.Namespace]; v.Protected != want {
					t.Fatalf("%d pods of %s/%s are protected, want %d", v.Protected, v.Namespace, v.Name, want)
				}
			}
		})
	}
}

// budgetOf returns a budget that allows no disruptions.
func budgetOf(namespace, name string, selector *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}}
}
