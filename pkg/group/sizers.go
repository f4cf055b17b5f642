package group

import (
	"encoding/json"
	"fmt"
)

// A sizer is the part of a spec that says how many pods there
// are to be. It returns the size of the group and its minimum.
type sizer interface {
	size() (size, least int64, err error)
}

// replicas is a number that defaults to 1.
type replicas struct{ *int32 }

func (r *replicas) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &r.int32) }

// count returns the number. An error names the field.
func (r replicas) count(field string) (int64, error) {
	switch {
	case r.int32 == nil:
		return 1, nil
	case *r.int32 < 0:
		return 0, fmt.Errorf("%s: %d: must not be negative", field, *r.int32)
	default:
		return int64(*r.int32), nil
	}
}

type jobSpec struct {
	Parallelism replicas `json:"parallelism"`
	Completions replicas `json:"completions"`
}

// size returns the smaller of parallelism and completions,
// or parallelism if there are no completions.
func (s *jobSpec) size() (size, least int64, err error) {
	n, err := s.Parallelism.count("spec.parallelism")
	if err != nil || s.Completions.int32 == nil {
		return n, n, err
	}
	c, err := s.Completions.count("spec.completions")
	return min(n, c), min(n, c), err
}

type jobSetSpec struct {
	StartupPolicy struct {
		Order string `json:"startupPolicyOrder"`
	} `json:"startupPolicy"`
	ReplicatedJobs []struct {
		Replicas  replicas          `json:"replicas"`
		DependsOn []json.RawMessage `json:"dependsOn"`
		Template  struct {
			Spec jobSpec `json:"spec"`
		} `json:"template"`
	} `json:"replicatedJobs"`
}

// size adds up the pods of all Jobs. The minimum has only Jobs that are made first:
// Jobs that depend on no other and, if Jobs are made in order, the first of them.
func (s *jobSetSpec) size() (size, least int64, err error) {
	for i, j := range s.ReplicatedJobs {
		n, err := j.Replicas.count(fmt.Sprintf("spec.replicatedJobs[%d].replicas", i))
		if err != nil {
			return 0, 0, err
		}
		pods, _, err := j.Template.Spec.size()
		if err != nil {
			return 0, 0, fmt.Errorf("spec.replicatedJobs[%d].template: %w", i, err)
		}
		size += n * pods
		if size > MaxSize {
			// The sum must not overflow.
			return size, size, nil
		}
		waits := len(j.DependsOn) > 0 || s.StartupPolicy.Order == "InOrder" && least > 0
		if !waits {
			least += n * pods
		}
	}
	return size, least, nil
}

type mpiJobSpec struct {
	LauncherCreationPolicy string `json:"launcherCreationPolicy"`
	ReplicaSpecs           map[string]struct {
		Replicas replicas `json:"replicas"`
	} `json:"mpiReplicaSpecs"`
}

// size adds up the replicas of all roles. The minimum
// leaves out a launcher that waits for the workers.
func (s *mpiJobSpec) size() (size, least int64, err error) {
	for role, r := range s.ReplicaSpecs {
		n, err := r.Replicas.count(fmt.Sprintf("spec.mpiReplicaSpecs[%s].replicas", role))
		if err != nil {
			return 0, 0, err
		}
		size += n
		if role != "Launcher" || s.LauncherCreationPolicy != "WaitForWorkersReady" {
			least += n
		}
		if size > MaxSize {
			return size, size, nil
		}
	}
	return size, least, nil
}

type leaderWorkerSetSpec struct {
	StartupPolicy string `json:"startupPolicy"`
	Template      struct {
		Size replicas `json:"size"`
	} `json:"leaderWorkerTemplate"`
}

// size returns the size of a unit. The minimum is 1 if the workers wait for the leader.
func (s *leaderWorkerSetSpec) size() (size, least int64, err error) {
	size, err = s.Template.Size.count("spec.leaderWorkerTemplate.size")
	if s.StartupPolicy == "LeaderReady" {
		return size, 1, err
	}
	return size, size, err
}

type statefulSetSpec struct {
	Replicas            replicas `json:"replicas"`
	PodManagementPolicy string   `json:"podManagementPolicy"`
}

// size returns the replicas. The minimum is 1 unless the pods are made in parallel.
func (s *statefulSetSpec) size() (size, least int64, err error) {
	size, err = s.Replicas.count("spec.replicas")
	if s.PodManagementPolicy == "Parallel" {
		return size, size, err
	}
	return size, 1, err
}

type replicaSpec struct {
	Replicas replicas `json:"replicas"`
}

// size returns the replicas. The minimum is 1.
func (s *replicaSpec) size() (size, least int64, err error) {
	size, err = s.Replicas.count("spec.replicas")
	return size, 1, err
}
