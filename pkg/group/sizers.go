package group

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// A sizer is the part of a spec that says how many pods there are to be. It
// returns the pods of each pod template, in the order in which they are made.
type sizer interface {
	parts() ([]part, error)
}

// A part is the pods that an object makes from one pod template.
type part struct {
	// name is the name of the part in the spec. It is empty if the spec has one part.
	name string
	// pods is how many there are to be. least is how many of them are made
	// at once, and needed for the start.
	pods, least int64
	podTemplate
	// after are the names of the parts that have to run or to end before this part is made.
	after []string
}

// sizeOfParts adds up the parts of a scheduler whose template names a native PodGroup, or names none if
// native is empty. If no template names this scheduler, it adds up all of these parts: a pod that asks
// for the scheduler has its name from elsewhere, such as from an operator or an admission webhook. The
// minimum has only parts that wait for no other part that counts.
func sizeOfParts(parts []part, scheduler, native string) (size, least int64) {
	all := !slices.ContainsFunc(parts, func(p part) bool { return p.Spec.SchedulerName == scheduler })
	// waited has for each part whether a part that is made after it has to wait for pods that count.
	waited := map[string]bool{}
	for _, p := range parts {
		counts := p.native() == native && (all || p.Spec.SchedulerName == scheduler)
		waits := slices.ContainsFunc(p.after, func(name string) bool { w, known := waited[name]; return w || !known })
		waited[p.name] = waits || counts && p.pods > 0
		if !counts {
			continue
		}
		if size += p.pods; size > MaxSize {
			// The sum must not overflow.
			return size, size
		}
		if !waits {
			least += p.least
		}
	}
	return size, least
}

// A podTemplate is what is read of a pod template.
type podTemplate struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		// SchedulerName is empty for the default scheduler.
		SchedulerName   string                     `json:"schedulerName"`
		SchedulingGroup *corev1.PodSchedulingGroup `json:"schedulingGroup"`
	} `json:"spec"`

	// text is the whole template, as JSON.
	text []byte
}

func (t *podTemplate) UnmarshalJSON(data []byte) error {
	type withoutMethods podTemplate
	if err := json.Unmarshal(data, (*withoutMethods)(t)); err != nil {
		return err
	}
	t.text = slices.Clone(data)
	return nil
}

// native returns the native PodGroup that the template names. It is empty if it names none.
func (t podTemplate) native() string {
	return NativePodGroupOf(&corev1.PodSpec{SchedulingGroup: t.Spec.SchedulingGroup})
}

// replicas is a number that defaults to 1.
type replicas struct{ *int32 }

func (r *replicas) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &r.int32) }

// count returns the number. An error names the field.
func (r replicas) count(field string) (int64, error) { return r.countOr(1, field) }

// countOr returns the number, or another default. An error names the field.
func (r replicas) countOr(otherwise int64, field string) (int64, error) {
	switch {
	case r.int32 == nil:
		return otherwise, nil
	case *r.int32 < 0:
		return 0, fmt.Errorf("%s: %d: must not be negative", field, *r.int32)
	default:
		return int64(*r.int32), nil
	}
}

type jobSpec struct {
	Parallelism replicas    `json:"parallelism"`
	Completions replicas    `json:"completions"`
	Template    podTemplate `json:"template"`
}

// parts returns the smaller of parallelism and completions,
// or parallelism if there are no completions.
func (s *jobSpec) parts() ([]part, error) {
	n, err := s.Parallelism.count("spec.parallelism")
	if err != nil {
		return nil, err
	}
	c, err := s.Completions.countOr(math.MaxInt32, "spec.completions")
	n = min(n, c)
	return []part{{pods: n, least: n, podTemplate: s.Template}}, err
}

type jobSetSpec struct {
	StartupPolicy struct {
		Order string `json:"startupPolicyOrder"`
	} `json:"startupPolicy"`
	ReplicatedJobs []struct {
		Name      string   `json:"name"`
		Replicas  replicas `json:"replicas"`
		DependsOn []struct {
			Name string `json:"name"`
		} `json:"dependsOn"`
		Template struct {
			Spec jobSpec `json:"spec"`
		} `json:"template"`
	} `json:"replicatedJobs"`
}

// parts returns the pods of each replicated Job. A Job is made after the Jobs that it depends on. If Jobs
// are made in order, it is also made after the Job before it.
func (s *jobSetSpec) parts() ([]part, error) {
	var parts []part
	for i, j := range s.ReplicatedJobs {
		n, err := j.Replicas.count(fmt.Sprintf("spec.replicatedJobs[%d].replicas", i))
		if err != nil {
			return nil, err
		}
		one, err := j.Template.Spec.parts()
		if err != nil {
			return nil, fmt.Errorf("spec.replicatedJobs[%d].template: %w", i, err)
		}
		p := one[0]
		p.name, p.pods, p.least = j.Name, n*p.pods, n*p.least
		for _, d := range j.DependsOn {
			p.after = append(p.after, d.Name)
		}
		if s.StartupPolicy.Order == "InOrder" && i > 0 {
			p.after = append(p.after, s.ReplicatedJobs[i-1].Name)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// A replicaSpec is one role of a workload of Kubeflow.
type replicaSpec struct {
	Replicas replicas    `json:"replicas"`
	Template podTemplate `json:"template"`
}

// partsOfRoles returns the pods of each role, by the names of the roles. field is the path of roles.
func partsOfRoles(field string, roles map[string]replicaSpec) ([]part, error) {
	var parts []part
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		n, err := roles[role].Replicas.count(fmt.Sprintf("%s[%s].replicas", field, role))
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{name: role, pods: n, least: n, podTemplate: roles[role].Template})
	}
	return parts, nil
}

type mpiJobSpec struct {
	LauncherCreationPolicy string                 `json:"launcherCreationPolicy"`
	ReplicaSpecs           map[string]replicaSpec `json:"mpiReplicaSpecs"`
}

// parts returns launcher and workers. The launcher may wait for the workers.
func (s *mpiJobSpec) parts() ([]part, error) {
	parts, err := partsOfRoles("spec.mpiReplicaSpecs", s.ReplicaSpecs)
	if s.LauncherCreationPolicy != "WaitForWorkersReady" {
		return parts, err
	}
	isLauncher := func(p part) bool { return p.name == "Launcher" }
	if i := slices.IndexFunc(parts, isLauncher); i >= 0 {
		launcher := parts[i]
		parts = slices.Delete(parts, i, i+1)
		for _, p := range parts {
			launcher.after = append(launcher.after, p.name)
		}
		parts = append(parts, launcher)
	}
	return parts, err
}

// A kubeflowSpec has the roles of one of the kinds of kubeflow.org/v1. The spec of a kind has one of the maps.
type kubeflowSpec struct {
	PyTorch map[string]replicaSpec `json:"pytorchReplicaSpecs"`
	TF      map[string]replicaSpec `json:"tfReplicaSpecs"`
	XGBoost map[string]replicaSpec `json:"xgbReplicaSpecs"`
	Paddle  map[string]replicaSpec `json:"paddleReplicaSpecs"`
	JAX     map[string]replicaSpec `json:"jaxReplicaSpecs"`
	// Elastic is for PyTorchJob and PaddleJob: the workers may be fewer.
	Elastic struct {
		MinReplicas replicas `json:"minReplicas"`
	} `json:"elasticPolicy"`
}

// parts returns the pods of each role. Elastic workers start with minReplicas.
func (s *kubeflowSpec) parts() ([]part, error) {
	var all []part
	for _, of := range []struct {
		field string
		roles map[string]replicaSpec
	}{
		{"spec.pytorchReplicaSpecs", s.PyTorch},
		{"spec.tfReplicaSpecs", s.TF},
		{"spec.xgbReplicaSpecs", s.XGBoost},
		{"spec.paddleReplicaSpecs", s.Paddle},
		{"spec.jaxReplicaSpecs", s.JAX},
	} {
		parts, err := partsOfRoles(of.field, of.roles)
		if err != nil {
			return nil, err
		}
		all = append(all, parts...)
	}
	least, err := s.Elastic.MinReplicas.countOr(math.MaxInt32, "spec.elasticPolicy.minReplicas")
	if i := slices.IndexFunc(all, func(p part) bool { return p.name == "Worker" }); i >= 0 {
		all[i].least = min(all[i].pods, least)
	}
	return all, err
}

type rayClusterSpec struct {
	Autoscaling bool `json:"enableInTreeAutoscaling"`
	Head        struct {
		Template podTemplate `json:"template"`
	} `json:"headGroupSpec"`
	Workers []struct {
		Name        string      `json:"groupName"`
		Suspend     bool        `json:"suspend"`
		Replicas    replicas    `json:"replicas"`
		MinReplicas replicas    `json:"minReplicas"`
		MaxReplicas replicas    `json:"maxReplicas"`
		Hosts       replicas    `json:"numOfHosts"`
		Template    podTemplate `json:"template"`
	} `json:"workerGroupSpecs"`
}

// parts returns the head and the workers of each worker group. A worker group has replicas, but at
// least minReplicas and at most maxReplicas, with numOfHosts pods each. If Ray scales the cluster
// itself, minReplicas are enough for the start.
func (s *rayClusterSpec) parts() ([]part, error) {
	parts := []part{{name: "head", pods: 1, least: 1, podTemplate: s.Head.Template}}
	for i, w := range s.Workers {
		field := func(name string) string { return fmt.Sprintf("spec.workerGroupSpecs[%d].%s", i, name) }
		n, err := w.Replicas.countOr(0, field("replicas"))
		least, err2 := w.MinReplicas.countOr(0, field("minReplicas"))
		most, err3 := w.MaxReplicas.countOr(math.MaxInt32, field("maxReplicas"))
		hosts, err4 := w.Hosts.count(field("numOfHosts"))
		if err := cmp.Or(err, err2, err3, err4); err != nil {
			return nil, err
		}
		n = min(max(n, least), most)
		switch {
		case w.Suspend:
			n, least = 0, 0
		case !s.Autoscaling:
			least = n
		}
		parts = append(parts, part{name: w.Name, pods: n * hosts, least: min(n, least) * hosts, podTemplate: w.Template})
	}
	return parts, nil
}

type leaderWorkerSetSpec struct {
	StartupPolicy string `json:"startupPolicy"`
	Template      struct {
		Size   replicas     `json:"size"`
		Leader *podTemplate `json:"leaderTemplate"`
		Worker podTemplate  `json:"workerTemplate"`
	} `json:"leaderWorkerTemplate"`
}

// parts returns the leader and the workers of one unit. The workers may wait for the leader. Without
// a template of its own the leader has the template of the workers.
func (s *leaderWorkerSetSpec) parts() ([]part, error) {
	n, err := s.Template.Size.count("spec.leaderWorkerTemplate.size")
	n = max(1, n)
	leader := part{name: "leader", pods: 1, least: 1, podTemplate: s.Template.Worker}
	if s.Template.Leader != nil {
		leader.podTemplate = *s.Template.Leader
	}
	workers := part{name: "workers", pods: n - 1, least: n - 1, podTemplate: s.Template.Worker}
	if s.StartupPolicy == "LeaderReady" {
		workers.after = []string{leader.name}
	}
	return []part{leader, workers}, err
}

type statefulSetSpec struct {
	Replicas            replicas    `json:"replicas"`
	PodManagementPolicy string      `json:"podManagementPolicy"`
	Template            podTemplate `json:"template"`
}

// parts returns the replicas. The minimum is 1 unless the pods are made in parallel.
func (s *statefulSetSpec) parts() ([]part, error) {
	n, err := s.Replicas.count("spec.replicas")
	p := part{pods: n, least: 1, podTemplate: s.Template}
	if s.PodManagementPolicy == "Parallel" {
		p.least = n
	}
	return []part{p}, err
}

type replicasSpec struct {
	Replicas replicas    `json:"replicas"`
	Template podTemplate `json:"template"`
}

// parts returns the replicas. The minimum is 1.
func (s *replicasSpec) parts() ([]part, error) {
	n, err := s.Replicas.count("spec.replicas")
	return []part{{pods: n, least: 1, podTemplate: s.Template}}, err
}
