// Package statusmap reads and writes the ConfigMap in which the schedulers publish their
// state. It has a few figures of the leader, for users who may read it but not the metrics. It
// also has a heartbeat of each standby, by which a leader knows whether another can take over.
package statusmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Name is the name of the ConfigMap, in the namespace of the scheduler.
const Name = "fluence-status"

// dataKey is the key of the ConfigMap under which the figures are stored, as JSON.
const dataKey = "figures.json"

const (
	// MinWriteInterval is the shortest time between two writes, however much changes. Only a matcher that
	// stops or begins to answer, or loses or loads its graph, is written sooner.
	MinWriteInterval = 30 * time.Second
	// MaxWriteInterval is how long figures that have not changed stay before they are
	// written again. Figures that are older than MaxWriteInterval and MinWriteInterval
	// together come from a scheduler that does not lead any more or cannot write.
	MaxWriteInterval = time.Minute
)

// Status holds the figures that the leader publishes.
type Status struct {
	// Epoch is the epoch in which the matcher's graph is loaded, 0 while it is not
	// loaded. It is a string in JSON, because many readers cannot hold 64-bit numbers.
	Epoch uint64 `json:"epoch,string"`
	// WhyNotLoaded is what the matcher says why it does not load its graph or, with an epoch, the latest
	// changes of it. It is empty if the graph is loaded, or if the matcher says nothing.
	WhyNotLoaded string `json:"whyNotLoaded,omitempty"`
	// Nodes is the number of nodes in the graph.
	Nodes int `json:"nodes"`
	// GroupsByPhase counts the groups, single pods among them,
	// by group.Phase. Phases without groups are left out.
	GroupsByPhase map[string]int `json:"groupsByPhase"`
	// WaitingByReason counts the groups that wait, by reason.
	WaitingByReason map[string]int `json:"waitingByReason"`
	// PodsWithRoom is how many pods of groups have resources: the pods
	// on nodes and the pods that were matched and are not bound yet.
	PodsWithRoom int `json:"allocations"`
	// Drift counts the lasting differences between graph and
	// cluster that were found since this scheduler was started.
	Drift int64 `json:"drift"`
	// MatcherAnswers is true if the matcher answers.
	MatcherAnswers bool `json:"matcherAnswers"`
	// LastMatch is when this scheduler last placed a group, nil if it never has.
	LastMatch *time.Time `json:"lastMatch,omitempty"`
	// Leader is the name of the process that wrote this.
	Leader string `json:"leader"`
	// Version is the release of the process that wrote this.
	Version string `json:"version"`
	// Updated is when the leader wrote this, in whole seconds. If the Lease was acquired
	// in a later second, an earlier process of this name wrote it.
	Updated time.Time `json:"updated"`
}

// Same reports whether two statuses differ at most in Updated.
func (f Status) Same(o Status) bool {
	matched := f.LastMatch == o.LastMatch || f.LastMatch != nil && o.LastMatch != nil && f.LastMatch.Equal(*o.LastMatch)
	return f.Epoch == o.Epoch && f.WhyNotLoaded == o.WhyNotLoaded && f.Nodes == o.Nodes && f.PodsWithRoom == o.PodsWithRoom && f.Drift == o.Drift &&
		f.MatcherAnswers == o.MatcherAnswers && f.Leader == o.Leader && f.Version == o.Version && matched &&
		maps.Equal(f.GroupsByPhase, o.GroupsByPhase) && maps.Equal(f.WaitingByReason, o.WaitingByReason)
}

// Data returns the status as the data of the ConfigMap.
func (f Status) Data() (map[string]string, error) {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the figures: %w", err)
	}
	return map[string]string{dataKey: string(text) + "\n"}, nil
}

// ErrNoStatus means that no leader has written a status yet.
var ErrNoStatus = errors.New("no leader has written a status yet")

// Read reads the status from the data of the ConfigMap. It returns ErrNoStatus if there is none.
// It ignores fields that it does not know, because the scheduler may be newer than the reader.
func Read(data map[string]string) (Status, error) {
	text, ok := data[dataKey]
	if !ok {
		return Status{}, fmt.Errorf("%w: data has no key %q", ErrNoStatus, dataKey)
	}
	var f Status
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return Status{}, fmt.Errorf("data %q: %w", dataKey, err)
	}
	return f, nil
}
