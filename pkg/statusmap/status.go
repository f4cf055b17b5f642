// Package health is the object in which schedulers say how Fluence does:
// a ConfigMap with a few figures of the leader, for those who may read it and not the
// metrics, and a word of each standby, by which a leader knows whether another can take over.
package statusmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Name is the ConfigMap's, in the namespace of the scheduler.
const Name = "fluence-status"

// dataKey is the key of the ConfigMap under which the figures are, as JSON.
const dataKey = "figures.json"

const (
	// MinWriteInterval is the least time between two writes, however much changes.
	MinWriteInterval = 30 * time.Second
	// MaxWriteInterval is after how long the figures are written again though they are the
	// same: those that are older by more than a Pause come from a scheduler that leads no
	// more or cannot write.
	MaxWriteInterval = time.Minute
)

// Status are what there is to say.
type Status struct {
	// Epoch numbers the loading of the matcher's graph; 0 while it is not loaded. It is
	// text in JSON, since it is beyond what all readers take for a number.
	Epoch uint64 `json:"epoch,string"`
	// Nodes is how many the graph has.
	Nodes int `json:"nodes"`
	// GroupsByPhase counts the groups, lone pods among them, by group.Phase, those that
	// there are none of left out.
	GroupsByPhase map[string]int `json:"groupsByPhase"`
	// WaitingByReason counts the groups that wait by the reason that they were given.
	WaitingByReason map[string]int `json:"waitingByReason"`
	// PodsWithRoom is how many pods of groups hold room: those on nodes and those that
	// were matched and are not bound yet.
	PodsWithRoom int `json:"allocations"`
	// Drift counts the lasting differences between graph and cluster that were found
	// since this scheduler was started.
	Drift int64 `json:"drift"`
	// MatcherAnswers says whether the matcher does.
	MatcherAnswers bool `json:"matcherAnswers"`
	// LastMatch is when a group was last given room by this scheduler; nil if never.
	LastMatch *time.Time `json:"lastMatch,omitempty"`
	// Leader names the process that wrote this, and Version is its release.
	Leader  string `json:"leader"`
	Version string `json:"version"`
	// Updated is when it did.
	Updated time.Time `json:"updated"`
}

// Same says whether figures differ in nothing but the times of their writing.
func (f Status) Same(o Status) bool {
	matched := f.LastMatch == o.LastMatch || f.LastMatch != nil && o.LastMatch != nil && f.LastMatch.Equal(*o.LastMatch)
	return f.Epoch == o.Epoch && f.Nodes == o.Nodes && f.PodsWithRoom == o.PodsWithRoom && f.Drift == o.Drift &&
		f.MatcherAnswers == o.MatcherAnswers && f.Leader == o.Leader && f.Version == o.Version && matched &&
		maps.Equal(f.GroupsByPhase, o.GroupsByPhase) && maps.Equal(f.WaitingByReason, o.WaitingByReason)
}

// Data returns the figures as the data of the ConfigMap.
func (f Status) Data() (map[string]string, error) {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the figures: %w", err)
	}
	return map[string]string{dataKey: string(text) + "\n"}, nil
}

// ErrNoStatus says that the ConfigMap has none: no scheduler has led that writes them.
var ErrNoStatus = errors.New("no figures")

// Read reads the figures from the data of the ConfigMap, or fails with ErrNoStatus. A field that it does not
// know is left out: the scheduler may be newer than the reader.
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
