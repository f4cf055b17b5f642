package interpod

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// Constraints are the shapes of one group, and the constraints among them and with existing pods.
type Constraints struct {
	shapes []*Shape
	// infos has the first pod of each shape, with its terms parsed.
	infos  []fwk.PodInfo
	nodes  []fwk.NodeInfo
	levels []translate.Level
	// labelsOf returns the labels of a namespace.
	labelsOf func(namespace string) labels.Set

	// spreads are the spread constraints that count members.
	spreads []*spreadConstraint
	// colocated are the sets of shapes that must share a domain.
	colocated []colocatedSet
	// domain is the label of the domain that the group itself asks for. It is empty if there is none.
	domain string
	// Relaxed has, for each shape, the pod to run the filters on before any member is
	// placed. It lacks the constraints that depend on other members.
	Relaxed []*corev1.Pod
	// Unlabelled has, for each shape, the nodes without a topology key of
	// the affinity that was removed from Relaxed. These nodes are ruled out.
	Unlabelled [][]string
	// domains caches the domains of each label.
	domains map[string]domains
	// cachedCapacity is the capacity, once it was needed.
	cachedCapacity podCapacity
	// isOverBudget reports whether the budget is used up.
	isOverBudget func() bool
	// whyTooMany is the message of a group with too many constraints to compare. It
	// is empty if there are not too many.
	whyTooMany string
}

// hasPodConstraints reports whether a filter may reject the pod because of another
// pod of its group.
func hasPodConstraints(pod *corev1.Pod) bool {
	if a := pod.Spec.Affinity; a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0) {
		return true
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.Volumes, isFilteredVolume) || len(pod.Spec.ResourceClaims) > 0 || len(hostPorts(pod)) > 0
}

// isFilteredVolume reports whether a volume is of a kind that filters look at.
func isFilteredVolume(v corev1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil || v.ISCSI != nil || v.RBD != nil ||
		v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil
}

// New returns the constraints among shapes. It returns nil if there is nothing to
// verify: the group is one pod, or it asks for no domain, no filter can reject one pod because of
// another and the shapes are exact. domain is a label of which the nodes of all pods have to have the
// same value, or empty. The constraints are incomplete once spent returns true. labelsOf
// returns the labels of a namespace. New fails if the terms of a pod cannot be parsed.
func New(shapes []*Shape, exact bool, domain string, nodes []fwk.NodeInfo, levels []translate.Level, labelsOf func(namespace string) labels.Set, isOverBudget func() bool) (*Constraints, error) {
	if len(shapes) == 1 && len(shapes[0].Pods) == 1 || domain == "" && exact && !slices.ContainsFunc(shapes, func(s *Shape) bool { return hasPodConstraints(s.Pods[0]) }) {
		return nil, nil
	}
	return findConstraints(shapes, domain, nodes, levels, labelsOf, isOverBudget)
}

// findConstraints finds the constraints among shapes.
func findConstraints(shapes []*Shape, domain string, nodes []fwk.NodeInfo, levels []translate.Level, labelsOf func(namespace string) labels.Set, isOverBudget func() bool) (*Constraints, error) {
	s := &Constraints{
		isOverBudget: isOverBudget, shapes: shapes, domain: domain, nodes: nodes, levels: levels, labelsOf: labelsOf,
		Unlabelled: make([][]string, len(shapes)),
		domains:    map[string]domains{},
	}
	for _, shape := range shapes {
		info, err := schedulerframework.NewPodInfo(shape.Pods[0])
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", shape.Pods[0].Name, err)
		}
		s.infos = append(s.infos, info)
		s.Relaxed = append(s.Relaxed, shape.Pods[0])
	}
	if err := s.findSpreads(); err != nil {
		return nil, err
	}
	if domain != "" {
		// It comes first: the filters do not check it, as they check the affinity among the pods.
		all := colocatedSet{key: domain}
		for i := range shapes {
			all.shapes = append(all.shapes, i)
		}
		s.colocated = append(s.colocated, all)
	}
	s.findColocated()
	return s, nil
}

// IsStopped reports whether the comparison has stopped: there are too many
// constraints, or the budget is used up. The constraints are incomplete then.
func (s *Constraints) IsStopped() bool { return s.whyTooMany != "" || s.isOverBudget() }

// WhyTooMany returns the message of a group with too many constraints to compare. It
// is empty if there are not too many.
func (s *Constraints) WhyTooMany() string { return s.whyTooMany }

// HasSpreads reports whether there are spread constraints that count members.
func (s *Constraints) HasSpreads() bool { return len(s.spreads) > 0 }

// OnlySpreads reports whether s has spread constraints, and no affinity between members.
func OnlySpreads(s *Constraints) bool { return s.HasSpreads() && len(s.colocated) == 0 }

// WithoutDomain returns the label of a spread constraint that no node has. The end of
// a pod cannot help such a group. It is empty if there is none.
func (s *Constraints) WithoutDomain() string {
	for _, sp := range s.spreads {
		if len(s.domainsOf(sp.key).hosts) == 0 {
			return sp.key
		}
	}
	return ""
}

// InOrder reports whether the order of placement matters: a node may be rejected for
// a member now, and accepted once another member is placed.
func (s *Constraints) InOrder() bool { return len(s.spreads)+len(s.colocated) > 0 }

// Selects reports whether a term matches the pods of shape i.
func (s *Constraints) Selects(term *fwk.AffinityTerm, i int) bool {
	pod := s.shapes[i].Pods[0]
	return term.Matches(pod, s.labelsOf(pod.Namespace))
}

// domains are the nodes grouped by the value of one label.
type domains struct {
	// hosts names the nodes with each value. Nodes without the label are in none.
	hosts map[string][]string
	// values lists the values, sorted.
	values []string
	// level is the type of the graph's vertices that are the same domains. It is
	// empty if there are none.
	level string
}

// domainsOf returns the nodes grouped by a label, and caches the result.
func (s *Constraints) domainsOf(key string) domains {
	if d, ok := s.domains[key]; ok {
		return d
	}
	d := domains{hosts: map[string][]string{}}
	for _, n := range s.nodes {
		if v, ok := n.Node().Labels[key]; ok {
			d.hosts[v] = append(d.hosts[v], n.Node().Name)
		}
	}
	d.values = slices.Sorted(maps.Keys(d.hosts))
	d.level = s.levelOf(key, d)
	s.domains[key] = d
	return d
}

// levelOf returns the level whose vertices are the domains of a label that all nodes have. It
// is the level of the nodes if each node has a different value. It is the configured level of
// the label if each value belongs to one vertex. Otherwise levelOf returns an empty string.
func (s *Constraints) levelOf(key string, d domains) string {
	labelled := 0
	for _, hosts := range d.hosts {
		labelled += len(hosts)
	}
	if labelled < len(s.nodes) {
		return ""
	}
	if len(d.hosts) == labelled {
		return resource.TypeNode
	}
	i := slices.IndexFunc(s.levels, func(l translate.Level) bool { return l.Key == key })
	if i < 0 {
		return ""
	}
	vertex := map[string]string{}
	for _, n := range s.nodes {
		v := n.Node().Labels[key]
		domain, _ := translate.Domain(n.Node().Labels, s.levels, s.levels[i].Type)
		if was, ok := vertex[v]; v == "" || ok && was != domain {
			return ""
		}
		vertex[v] = domain
	}
	return s.levels[i].Type
}

// atMost returns the limits that allow at most most slots in each domain.
func (d domains) atMost(name string, most int64) []jobspec.Limit {
	switch {
	case d.level != "":
		return []jobspec.Limit{{Name: name, Level: d.level, Most: most}}
	case len(d.values) == 0:
		return nil
	}
	hosts := make([]string, len(d.values))
	for i, v := range d.values {
		hosts[i] = hostlist.Encode(d.hosts[v])
	}
	return []jobspec.Limit{{Name: name, Hosts: hosts, Most: most}}
}
