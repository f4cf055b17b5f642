package preemption

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// maxBudgetSteps bounds the work that the PodDisruptionBudgets of all namespaces cause in one search. The
	// scheduling loop waits for it. A step is to look up a label, or to compare it with one value of a selector.
	maxBudgetSteps = 1 << 20
	// readSteps is how many steps it takes to read a selector, and again for each of its keys and values.
	readSteps = 10
)

// budgets counts disruptions by the PodDisruptionBudgets of a namespace.
type budgets struct {
	all []*budget
	// keys are the keys of labels that the selectors read. matching has the budgets whose selectors match pods, by
	// the values that the pods have for these keys.
	keys     []string
	matching map[string][]*budget
	// steps is how many steps are left. It is negative if they were not enough.
	steps int
}

// A budget is a PodDisruptionBudget, with the number of disruptions that are left.
type budget struct {
	terms     []term
	allowed   int32
	disrupted map[string]metav1.Time
}

// A term is a requirement of a selector, and the number of its values.
type term struct {
	labels.Requirement
	values int
}

// read reads PodDisruptionBudgets. It returns false if the steps are not enough. An empty or invalid selector matches
// nothing, as in kube-scheduler.
func (b *budgets) read(all []*policyv1.PodDisruptionBudget) bool {
	if b.steps -= readSteps * len(all); b.steps < 0 {
		return false
	}
	// Which budget is used up first depends on the order.
	slices.SortFunc(all, func(x, y *policyv1.PodDisruptionBudget) int { return cmp.Compare(x.Name, y.Name) })
	for _, pdb := range all {
		selector := pdb.Spec.Selector
		if selector == nil {
			continue
		}
		size := 2 * len(selector.MatchLabels)
		for i := range selector.MatchExpressions {
			size += 1 + len(selector.MatchExpressions[i].Values)
		}
		if b.steps -= readSteps * size; b.steps < 0 {
			return false
		}
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || parsed.Empty() {
			continue
		}
		requirements, _ := parsed.Requirements()
		one := &budget{allowed: pdb.Status.DisruptionsAllowed, disrupted: pdb.Status.DisruptedPods}
		for _, r := range requirements {
			one.terms = append(one.terms, term{r, len(r.ValuesUnsorted())})
			b.keys = append(b.keys, r.Key())
		}
		b.all = append(b.all, one)
	}
	slices.Sort(b.keys)
	b.keys, b.matching = slices.Compact(b.keys), map[string][]*budget{}
	return true
}

// take counts the disruption of a pod, and reports whether a budget does not allow it. The rule for one pod is
// that of FilterVictimsWithPDBViolation in k8s.io/kubernetes/pkg/scheduler/framework/preemption: a budget that is
// found to be used up ends the count for the pod. The least important pods have to come first.
func (b *budgets) take(pod *corev1.Pod) (violates bool) {
	if len(pod.Labels) == 0 {
		return false
	}
	for _, pdb := range b.of(pod.Labels) {
		b.steps--
		if _, already := pdb.disrupted[pod.Name]; already {
			continue
		}
		if pdb.allowed--; pdb.allowed < 0 {
			return true
		}
	}
	return false
}

// of returns the budgets whose selectors match labels. Most pods of a namespace have the same values for the keys that
// selectors read, so that the selectors are evaluated for few of them.
func (b *budgets) of(pod labels.Set) []*budget {
	if b.steps -= len(b.keys); b.steps < 0 {
		return nil
	}
	var values strings.Builder
	for _, key := range b.keys {
		value, has := pod[key]
		if has {
			values.WriteString(value)
			values.WriteByte('=')
		}
		values.WriteByte(',')
	}
	matching, known := b.matching[values.String()]
	if known {
		return matching
	}
	for _, pdb := range b.all {
		if b.matches(pdb, pod) {
			matching = append(matching, pdb)
		}
		if b.steps < 0 {
			return nil
		}
	}
	b.matching[values.String()] = matching
	return matching
}

// matches reports whether the selector of a budget matches labels.
func (b *budgets) matches(pdb *budget, pod labels.Set) bool {
	for i := range pdb.terms {
		t := &pdb.terms[i]
		if b.steps -= 1 + t.values; b.steps < 0 || !t.Matches(pod) {
			return false
		}
	}
	return true
}
