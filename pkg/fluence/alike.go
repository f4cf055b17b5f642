package fluence

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
)

// constraintsOf is the text of all that filters look at in a pod beside its
// requests. Pods with the same text may go to the same nodes.
func (b *selectedBy) constraintsOf(pod *corev1.Pod) string {
	var ports []corev1.ContainerPort
	for _, p := range hostPorts(pod) {
		ports = append(ports, corev1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
	}
	var volumes []string
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; mayClash(*v) {
			volumes = append(volumes, b.claims.text(pod, v))
		}
	}
	read := map[string]string{}
	for key, value := range pod.Labels {
		if b.keys.Has(key) || b.all && !slices.Contains(ownLabels[:], key) {
			read[key] = value
		}
	}
	text, err := json.Marshal(struct {
		Namespace string                            `json:"ns"`
		Selected  []bool                            `json:"m,omitempty"`
		Labels    map[string]string                 `json:"l,omitempty"`
		Selector  map[string]string                 `json:"s,omitempty"`
		Affinity  *corev1.Affinity                  `json:"a,omitempty"`
		Tolerates []corev1.Toleration               `json:"t,omitempty"`
		Spread    []corev1.TopologySpreadConstraint `json:"sp,omitempty"`
		Ports     []corev1.ContainerPort            `json:"p,omitempty"`
		Volumes   []string                          `json:"v,omitempty"`
		Claims    []corev1.PodResourceClaim         `json:"c,omitempty"`
		OS        *corev1.PodOS                     `json:"o,omitempty"`
	}{
		pod.Namespace, b.selects(pod), read, pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations,
		pod.Spec.TopologySpreadConstraints, ports, volumes, pod.Spec.ResourceClaims, pod.Spec.OS,
	})
	if err != nil {
		// Plain data of the API always has a JSON form.
		panic(fmt.Sprintf("encode the constraints of pod %s/%s: %v", pod.Namespace, pod.Name, err))
	}
	return string(text)
}

// selectedBy is how the labels of a plan's pods are read. A label that nothing reads makes
// no two pods unlike.
type selectedBy struct {
	// own are the selectors of the pods' own required affinity and spread constraints, each
	// once, and others those of the required anti-affinity of pods that are there.
	own, others []labels.Selector
	// keys are the labels whose values count by themselves.
	keys sets.Set[string]
	// all says that every label counts but those in which pods of one group differ by design.
	all bool
	// rough says that more selectors of pods that are there read the labels than are told apart.
	rough bool
	// claims say which claims are alike; nil is that none are.
	claims *claims
	// may is what it may take, and cut says that it took more.
	may *allowance
	cut bool
}

const (
	// maxSelectors is how many selectors of the pods' own are told apart. Beyond that every
	// label counts.
	maxSelectors = 1 << 10
	// Selectors of running pods tell a plan's pods apart. At most maxOthers selectors do, with
	// maxRead requirements in all, and they make at most maxSplit kinds more: others shall not make
	// a plan hard. Beyond these bounds each pod is verified by itself.
	maxOthers = 1 << 7
	maxRead   = 1 << 10
	maxSplit  = 16
)

// selectedBy lists what reads the labels of a plan's pods among these nodes.
func (pl *Fluence) selectedBy(plan group.Plan, nodes []fwk.NodeInfo, may *allowance) *selectedBy {
	b := selectedByOf(plan, nodes, &pl.shuns, may)
	b.claims = pl.claimsOf(slices.Concat(plan.Required, plan.Optional))
	return b
}

func selectedByOf(plan group.Plan, nodes []fwk.NodeInfo, shuns *shuns, may *allowance) *selectedBy {
	b := &selectedBy{keys: sets.New[string](), may: may}
	known := sets.New[string]()
	add := func(selector *metav1.LabelSelector) {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || b.all {
			return
		}
		if text := s.String(); !known.Has(text) {
			known.Insert(text)
			b.own = append(b.own, s)
			b.all = len(b.own) > maxSelectors
		}
	}
	for _, pod := range slices.Concat(plan.Required, plan.Optional) {
		if b.cut = may.over(); b.cut {
			return b
		}
		for _, c := range pod.Spec.TopologySpreadConstraints {
			b.keys.Insert(c.MatchLabelKeys...)
			add(c.LabelSelector)
		}
		if a := pod.Spec.Affinity; a != nil {
			for _, t := range affinityTerms(a) {
				add(t.LabelSelector)
			}
		}
	}
	if b.all {
		b.own = nil
	}
	others, read := sets.New[uint64](), 0
	for _, n := range nodes {
		for _, there := range n.GetPodsWithRequiredAntiAffinity() {
			of := shuns.of(there)
			if !of.everywhere && !of.namespaces.Has(plan.Key.Namespace) {
				continue
			}
			for _, s := range of.each {
				if others.Has(s.sum) || !s.everywhere && !s.namespaces.Has(plan.Key.Namespace) {
					continue
				}
				if read += weigh(s.selector); len(b.others) == maxOthers || read > maxRead {
					b.rough = true
					return b
				}
				others.Insert(s.sum)
				b.others = append(b.others, s.selector)
			}
		}
	}
	return b
}

// weigh says how much there is to read in a selector. Its values take little each.
func weigh(s labels.Selector) int {
	requirements, _ := s.Requirements()
	n := len(requirements)
	for _, r := range requirements {
		n += len(r.ValuesUnsorted()) / 16
	}
	return n
}

// selects says which of the selectors match a pod.
func (b *selectedBy) selects(pod *corev1.Pod) []bool {
	var by []bool
	for _, s := range [][]labels.Selector{b.own, b.others} {
		for _, s := range s {
			by = append(by, s.Matches(labels.Set(pod.Labels)))
		}
	}
	return by
}

// shuns are the selectors of the required anti-affinity of pods that are there, read once for
// each pod. The zero value is ready for use.
type shuns struct {
	mu   sync.Mutex
	seed maphash.Seed
	// by is by the pod's UID: such terms never change.
	by map[types.UID]shunned
}

// What a pod shuns: each selector once, and the namespaces of all of them.
type shunned struct {
	each       []shun
	namespaces sets.Set[string]
	everywhere bool
}

// A shun is one selector of one pod.
type shun struct {
	// sum tells selectors apart, whatever their size.
	sum        uint64
	selector   labels.Selector
	namespaces sets.Set[string]
	// everywhere says that it goes for namespaces by their labels.
	everywhere bool
	// times is how many terms of the pod it stands for, and weight how much there is to read in each.
	times, weight int
}

// toRead says how much filters have to read in what a pod shuns for the sake of a pod of a
// namespace: each term, and all of those that may go for it.
func (s shunned) toRead(namespace string) int {
	n := 0
	for _, of := range s.each {
		n += of.times
		if of.everywhere || of.namespaces.Has(namespace) {
			n += of.times * of.weight
		}
	}
	return n
}

// of returns what a pod shuns. It keeps none: the pod may be gone already.
func (s *shuns) of(pod fwk.PodInfo) shunned {
	s.mu.Lock()
	known, ok := s.by[pod.GetPod().UID]
	seed := s.seeded()
	s.mu.Unlock()
	if ok {
		return known
	}
	return shunnedBy(pod, seed)
}

// seeded returns the seed of all sums.
func (s *shuns) seeded() maphash.Seed {
	if s.by == nil {
		s.by, s.seed = map[types.UID]shunned{}, maphash.MakeSeed()
	}
	return s.seed
}

func shunnedBy(pod fwk.PodInfo, seed maphash.Seed) shunned {
	all := shunned{namespaces: sets.New[string]()}
	known := map[string]int{}
	for _, t := range pod.GetRequiredAntiAffinityTerms() {
		_, some := t.NamespaceSelector.Requirements()
		text := textOf(&t)
		if i, ok := known[text]; ok {
			all.each[i].times++
			continue
		}
		known[text] = len(all.each)
		all.each = append(all.each, shun{
			sum: maphash.String(seed, t.Selector.String()), selector: t.Selector,
			namespaces: t.Namespaces, everywhere: some,
			times: 1, weight: weigh(t.Selector) + weigh(t.NamespaceSelector),
		})
		all.namespaces = all.namespaces.Union(t.Namespaces)
		all.everywhere = all.everywhere || some
	}
	return all
}

// put reads those of a pod before anybody waits for it.
func (s *shuns) put(pod *corev1.Pod) {
	if a := pod.Spec.Affinity; a == nil || a.PodAntiAffinity == nil || pod.Spec.NodeName == "" {
		return
	}
	info, err := schedulerframework.NewPodInfo(pod)
	if err != nil {
		return
	}
	s.mu.Lock()
	_, ok := s.by[pod.UID]
	seed := s.seeded()
	s.mu.Unlock()
	if ok {
		return
	}
	all := shunnedBy(info, seed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[pod.UID] = all
}

// drop forgets a pod that is gone.
func (s *shuns) drop(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, uid)
}

// ownLabels are labels in which the pods of one group differ by design: those of
// a Job or a StatefulSet, those of the Jobs of a JobSet, the workers of an MPIJob
// and of a LeaderWorkerSet, and their group and its sizes, which not all of them need
// have. They count only where something is known to read them.
var ownLabels = [...]string{
	"batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid", "job-name", "controller-uid",
	"apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name",
	"jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-group-index", "jobset.sigs.k8s.io/job-key", "jobset.sigs.k8s.io/replicatedjob-name",
	"jobset.sigs.k8s.io/replicatedjob-replicas", "training.kubeflow.org/replica-index", "training.kubeflow.org/job-role", "leaderworkerset.sigs.k8s.io/worker-index",
	"ray.io/worker-group-replica-index",
	group.Label, group.SizeLabel, group.MinLabel,
}

func affinityTerms(a *corev1.Affinity) []corev1.PodAffinityTerm {
	var terms []corev1.PodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return terms
}
