package group

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// A Template is the pods that an owner makes from one pod template, and that may be placed alike.
// The template of a pod is what TemplateOf returns.
type Template struct {
	// Name is the name of the template. No two templates of an owner have the same name.
	Name string
	// Coming is how many pods the owner makes without waiting for other pods of its stage.
	Coming int32
	// Expected is how many pods the owner makes only after other pods of the same stage are bound
	// or ready, as After says.
	Expected int32
	// After is what these other pods have to be. It is empty if Expected is 0.
	After After
	// Leader is the name of the template of a pod whose topology domain the expected pods have to
	// share. It is empty if there is none. It may be Name.
	Leader string
	// Domain is the key of the topology domains, a label of the nodes, of exclusive placement: the pods of
	// this template and of the template that Leader names share a domain, in which no other Job or unit
	// with exclusive placement is. It is empty without exclusive placement.
	Domain string
	// Stage is the number of the stage, counted from 0. The pods of a stage are made after those
	// of earlier stages have ended.
	Stage int32
	// Pod is the pod template.
	Pod corev1.PodTemplateSpec
}

// An After is what has to become of some pods before their owner makes others.
type After string

const (
	// AfterBound means that the pods have to have nodes.
	AfterBound After = "Bound"
	// AfterReady means that the pods have to be ready.
	AfterReady After = "Ready"
)

// The names of templates of owners whose pods have fixed roles.
const (
	leaderTemplate   = "leader"
	workerTemplate   = "worker"
	launcherTemplate = "launcher"
)

// The labels and annotations by which the operators of JobSet, LeaderWorkerSet and MPIJob say of which
// template a pod is, and that its group has a topology domain for itself.
const (
	jobSetReplicatedJobLabel  = "jobset.sigs.k8s.io/replicatedjob-name"
	jobSetJobIndexLabel       = "jobset.sigs.k8s.io/job-index"
	jobSetExclusiveAnnotation = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	jobSetSelectorAnnotation  = "alpha.jobset.sigs.k8s.io/node-selector"
	lwsWorkerIndexLabel       = "leaderworkerset.sigs.k8s.io/worker-index"
	lwsExclusiveAnnotation    = "leaderworkerset.sigs.k8s.io/exclusive-topology"
	mpiJobRoleLabel           = "training.kubeflow.org/job-role"
)

// TemplateOf returns the name of the template that a pod was made from, by the labels that its
// operator sets. It is empty for pods of other owners.
func TemplateOf(pod *corev1.Pod) string {
	l := pod.Labels
	switch {
	case l[jobSetReplicatedJobLabel] != "":
		if pod.Annotations[jobSetExclusiveAnnotation] != "" && pod.Annotations[jobSetSelectorAnnotation] == "" {
			return exclusiveTemplate(l[jobSetReplicatedJobLabel], l[jobSetJobIndexLabel])
		}
		return l[jobSetReplicatedJobLabel]
	case l[lwsWorkerIndexLabel] == "0":
		return leaderTemplate
	case l[lwsWorkerIndexLabel] != "":
		return workerTemplate
	default:
		return l[mpiJobRoleLabel]
	}
}

// exclusiveTemplate returns the name of the template of one Job of a JobSet that has a topology domain
// for itself.
func exclusiveTemplate(replicatedJob, index string) string { return replicatedJob + "/" + index }

// Templates returns the templates of an owner, in the order of its spec, if some of its pods are made
// only after others. Otherwise it returns nil: the owner makes all its pods at once. annotations are
// those of the owner, and spec is its spec as JSON. Templates returns an error if the spec is no spec of
// this kind. Templates of other schedulers are left out, unless all are of other schedulers: see DefaultSize.
// Templates that name a native PodGroup are left out.
func Templates(o Owner, annotations map[string]string, spec []byte, scheduler string) ([]Template, error) {
	return templatesIn("", o, annotations, spec, scheduler)
}

// followers returns how many pods of the first stage of these templates are made only after others are bound.
func followers(templates []Template) int32 {
	var n, first int32
	for i, t := range templates {
		if i == 0 || t.Stage < first {
			n, first = 0, t.Stage
		}
		if t.Stage == first && t.After == AfterBound {
			n += t.Expected
		}
	}
	return n
}

// templatesIn returns what Templates returns, of the templates that
// name a native PodGroup, or name none if native is empty.
func templatesIn(native string, o Owner, annotations map[string]string, spec []byte, scheduler string) ([]Template, error) {
	all, err := templatesFor(o, annotations, spec, scheduler)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(t Template) bool { return NativePodGroupOf(&t.Pod.Spec) != native })
	for _, t := range all {
		if t.Expected > 0 || t.Stage > 0 {
			return all, nil
		}
	}
	return nil, nil
}

// templatesFor returns all templates of an owner whose kind may make some pods after others. As in Templates,
// templates of other schedulers are left out. The result is nil for other kinds.
func templatesFor(o Owner, annotations map[string]string, spec []byte, scheduler string) ([]Template, error) {
	var of interface {
		templates(annotations map[string]string) []Template
	}
	switch {
	case o.isKind(jobSet):
		of = &jobSetTemplates{}
	case o.isKind(leaderWorkerSet):
		of = &leaderWorkerSetTemplates{}
	case o.isKind(mpiJob):
		of = &mpiJobTemplates{}
	default:
		return nil, nil
	}
	if err := json.Unmarshal(spec, of); err != nil {
		return nil, fmt.Errorf("read the spec of %s %s: %w", o.Kind, o.Name, err)
	}
	all := of.templates(annotations)
	ofOther := func(t Template) bool { return t.Pod.Spec.SchedulerName != scheduler }
	if slices.ContainsFunc(all, func(t Template) bool { return !ofOther(t) }) {
		all = slices.DeleteFunc(all, ofOther)
	}
	return all, nil
}

// jobSetTemplates is the part of a JobSet's spec that says which pods it makes, and when
// (jobset.x-k8s.io/v1alpha2).
type jobSetTemplates struct {
	StartupPolicy struct {
		Order string `json:"startupPolicyOrder"`
	} `json:"startupPolicy"`
	ReplicatedJobs []struct {
		Name      string   `json:"name"`
		Replicas  replicas `json:"replicas"`
		DependsOn []struct {
			Name   string `json:"name"`
			Status string `json:"status"`
		} `json:"dependsOn"`
		Template struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
			Spec struct {
				Parallelism replicas               `json:"parallelism"`
				Completions replicas               `json:"completions"`
				Template    corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"replicatedJobs"`
}

// templates: a Job that depends on the completion of others is of a later stage. A Job that depends on
// others to be ready, or that comes later in a JobSet whose Jobs start in order, is expected after
// them. With exclusive placement JobSet's webhook refuses all pods of a Job but the one of index 0,
// until that pod has a node.
func (s *jobSetTemplates) templates(annotations map[string]string) []Template {
	stages := map[string]int32{}
	var all []Template
	for i, j := range s.ReplicatedJobs {
		stage, after := int32(0), s.StartupPolicy.Order == "InOrder" && i > 0
		for _, on := range j.DependsOn {
			first := stages[on.Name]
			if on.Status == "Complete" {
				first++
			}
			stage = max(stage, first)
		}
		for _, on := range j.DependsOn {
			// The Jobs of earlier stages are there before this stage begins.
			after = after || on.Status != "Complete" && stages[on.Name] == stage
		}
		stages[j.Name] = stage
		jobs, err := j.Replicas.count("replicas")
		pods, err2 := j.Template.Spec.Parallelism.count("parallelism")
		completions, err3 := j.Template.Spec.Completions.countOr(math.MaxInt32, "completions")
		if cmp.Or(err, err2, err3) != nil {
			continue // DefaultSize names the field
		}
		pods = min(pods, completions)
		domain := cmp.Or(j.Template.Metadata.Annotations[jobSetExclusiveAnnotation], annotations[jobSetExclusiveAnnotation])
		strategy := annotations[jobSetSelectorAnnotation] != "" || j.Template.Metadata.Annotations[jobSetSelectorAnnotation] != ""
		if domain == "" || strategy {
			t := Template{Name: j.Name, Stage: stage, Pod: j.Template.Spec.Template}
			if n := bounded(jobs * pods); after {
				t.Expected, t.After = n, AfterReady
			} else {
				t.Coming = n
			}
			all = append(all, t)
			continue
		}
		// With more than MaxTemplates none is used, and only the number of pods counts: the last stands for the rest.
		named := min(jobs, max(1, int64(MaxTemplates+1-len(all))))
		for index := range named {
			name := exclusiveTemplate(j.Name, strconv.FormatInt(index, 10))
			t := Template{Name: name, Leader: name, Domain: domain, Stage: stage, Pod: j.Template.Spec.Template, Coming: bounded(min(1, pods)), Expected: bounded(max(0, pods-1)), After: AfterBound}
			if after {
				t.Coming, t.Expected, t.After = 0, bounded(pods), AfterReady
			} else if index == named-1 {
				t.Coming = bounded(int64(t.Coming) * (jobs - index))
			}
			all = append(all, t)
		}
	}
	return all
}

// MaxTemplates is the largest number of templates of a group.
const MaxTemplates = 128

// bounded returns n, at most MaxSize+1, which is too large for a group.
func bounded(n int64) int32 { return int32(min(n, MaxSize+1)) }

// leaderWorkerSetTemplates is the part of a LeaderWorkerSet's spec that says which pods a unit has,
// and when they are made (leaderworkerset.x-k8s.io/v1).
type leaderWorkerSetTemplates struct {
	StartupPolicy string `json:"startupPolicy"`
	Template      struct {
		Size           replicas                `json:"size"`
		LeaderTemplate *corev1.PodTemplateSpec `json:"leaderTemplate"`
		WorkerTemplate corev1.PodTemplateSpec  `json:"workerTemplate"`
	} `json:"leaderWorkerTemplate"`
}

// templates: the workers are made after their leader is ready if the startup policy says so, and
// after it is bound if the unit has a topology domain for itself.
func (s *leaderWorkerSetTemplates) templates(annotations map[string]string) []Template {
	size, err := s.Template.Size.count("size")
	if err != nil {
		return nil
	}
	leader := Template{Name: leaderTemplate, Coming: 1, Pod: s.Template.WorkerTemplate}
	if s.Template.LeaderTemplate != nil {
		leader.Pod = *s.Template.LeaderTemplate
	}
	workers := Template{Name: workerTemplate, Pod: s.Template.WorkerTemplate, Coming: bounded(max(0, size-1))}
	leader.Domain, workers.Domain = annotations[lwsExclusiveAnnotation], annotations[lwsExclusiveAnnotation]
	if workers.Domain != "" {
		workers.Leader, workers.After = leaderTemplate, AfterBound
	}
	if s.StartupPolicy == "LeaderReady" {
		workers.After = AfterReady
	}
	if workers.After != "" {
		workers.Coming, workers.Expected = 0, workers.Coming
	}
	return []Template{leader, workers}
}

// mpiJobTemplates is the part of an MPIJob's spec that says which pods it makes, and when
// (kubeflow.org/v2beta1).
type mpiJobTemplates struct {
	LauncherCreationPolicy string `json:"launcherCreationPolicy"`
	ReplicaSpecs           map[string]struct {
		Replicas replicas               `json:"replicas"`
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"mpiReplicaSpecs"`
}

// templates: the launcher is made after the workers are ready if the policy says so.
func (s *mpiJobTemplates) templates(map[string]string) []Template {
	var all []Template
	for _, role := range []struct{ field, name string }{{"Worker", workerTemplate}, {"Launcher", launcherTemplate}} {
		r, there := s.ReplicaSpecs[role.field]
		n, err := r.Replicas.count(role.field)
		if !there || err != nil {
			continue
		}
		t := Template{Name: role.name, Coming: bounded(n), Pod: r.Template}
		if role.name == launcherTemplate && s.LauncherCreationPolicy == "WaitForWorkersReady" {
			t.Coming, t.Expected, t.After = 0, t.Coming, AfterReady
		}
		all = append(all, t)
	}
	return all
}
