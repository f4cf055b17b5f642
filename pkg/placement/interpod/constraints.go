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

// Constraints are the shapes of one group, and what they ask of each other and of the
// pods that are there.
type Constraints struct {
	shapes []*Shape
	// infos are the first pods of the shapes, with their terms parsed.
	infos  []fwk.PodInfo
	nodes  []fwk.NodeInfo
	levels []translate.Level
	// labelsOf returns the labels of a namespace.
	labelsOf func(namespace string) labels.Set

	spreads []*spreadConstraint
	// colocated are the shapes that are to share a domain.
	colocated []colocated
	// Relaxed are the pods to run the filters on, before any pod of the group is placed, by
	// shape.
	Relaxed []*corev1.Pod
	// Unlabelled are, by shape, the nodes ruled out for lack of a label that Lenient
	// does not ask for.
	Unlabelled [][]string
	domains    map[string]domains
	estimate   capacity
	// isOverBudget says that comparing has taken as much as it may, and whyTooMany what there is too much
	// of to compare at all.
	isOverBudget func() bool
	whyTooMany   string
}

// hasPodConstraints says whether a filter could object to one pod for the sake of
// another of its group.
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

// isFilteredVolume says whether a volume is of a kind that filters look at.
func isFilteredVolume(v corev1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil || v.ISCSI != nil || v.RBD != nil ||
		v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil
}

// New returns what shapes ask of each other, or nil where no filter could object to one
// for the sake of another, and all of a shape may go to the same nodes, exactly. What they ask is
// known in part once spent says true. LabelsOf returns the labels of a namespace. The error is that
// a pod's terms cannot be read.
func New(shapes []*Shape, exact bool, nodes []fwk.NodeInfo, levels []translate.Level, labelsOf func(namespace string) labels.Set, spent func() bool) (*Constraints, error) {
	if len(shapes) == 1 && len(shapes[0].Pods) == 1 || exact && !slices.ContainsFunc(shapes, func(s *Shape) bool { return hasPodConstraints(s.Pods[0]) }) {
		return nil, nil
	}
	return compare(shapes, nodes, levels, labelsOf, spent)
}

// compare finds out what shapes ask of each other.
func compare(shapes []*Shape, nodes []fwk.NodeInfo, levels []translate.Level, labelsOf func(namespace string) labels.Set, spent func() bool) (*Constraints, error) {
	s := &Constraints{
		isOverBudget: spent, shapes: shapes, nodes: nodes, levels: levels, labelsOf: labelsOf,
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
	s.findColocated()
	return s, nil
}

// IsStopped says that there is to be no more comparing: what was found is not all there is.
func (s *Constraints) IsStopped() bool { return s.whyTooMany != "" || s.isOverBudget() }

// WhyTooMany says what there is too much of to compare; empty is that there is not.
func (s *Constraints) WhyTooMany() string { return s.whyTooMany }

// HasSpreads says that the pods are to be spread.
func (s *Constraints) HasSpreads() bool { return len(s.spreads) > 0 }

// InOrder says whether a member may be refused a node before another is placed, and
// given it afterwards.
func (s *Constraints) InOrder() bool { return len(s.spreads)+len(s.colocated) > 0 }

// Selects says whether a term of one shape matches the pods of another.
func (s *Constraints) Selects(term *fwk.AffinityTerm, i int) bool {
	pod := s.shapes[i].Pods[0]
	return term.Matches(pod, s.labelsOf(pod.Namespace))
}

// domains are the nodes by the value of one label.
type domains struct {
	// hosts are the names of a value's nodes; nodes without the label are of no value.
	hosts map[string][]string
	// values are sorted.
	values []string
	// level is the type of vertices that are the same domains; empty where there is none.
	level string
}

// domainsOf sorts the nodes by a label.
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

// levelOf returns the level whose vertices are the domains of a label: that of the
// nodes, if each has a value of its own, or a configured one, if each node has a value
// and each value one vertex.
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

// atMost bounds the slots in each domain of a label.
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
