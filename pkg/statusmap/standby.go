package statusmap

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	// HeartbeatInterval is the time between two words of a standby.
	HeartbeatInterval = 10 * time.Second
	// HeartbeatTimeout is for how long its word counts after the reader saw it change.
	HeartbeatTimeout = 3 * HeartbeatInterval
	// MaxSilence is for how long the matcher of a leader gives no answer before a standby is
	// to lead in its stead.
	MaxSilence = 30 * time.Second
	// MinHandoverInterval is the least time from one handover to the next.
	MinHandoverInterval = 10 * time.Minute
	// StandbyTTL is after how long without another word the key of a standby is removed.
	StandbyTTL = 10 * time.Minute
)

// HandoverKey is the key of the ConfigMap under which the last handover is, as JSON.
const HandoverKey = "handover.json"

// The key of a standby is its own, so that none overwrites the other.
const (
	standbyPrefix = "standby."
	standbySuffix = ".json"
	// maxNameInKey bounds what a key says of its standby.
	maxNameInKey = 63
)

// StandbyKey is the key under which a process keeps its word while it stands by. The name
// is that of the process, cut where it is long; id tells it from others of that name.
func StandbyKey(name, id string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, name)
	return standbyPrefix + name[:min(len(name), maxNameInKey)] + "." + id + standbySuffix
}

// isStandby says whether a key is a standby's.
func isStandby(key string) bool {
	return strings.HasPrefix(key, standbyPrefix) && strings.HasSuffix(key, standbySuffix)
}

// A Standby is what a scheduler that could lead says of itself.
type Standby struct {
	// Name is that of its process.
	Name string `json:"name"`
	// MatcherAnswers says whether its matcher does, with a graph that is loaded.
	MatcherAnswers bool `json:"matcherAnswers"`
	// Updated is when it said so, by its own clock. Readers go by theirs.
	Updated time.Time `json:"updated"`
}

// A Handover is what a leader says that gives up its lease since its matcher is silent.
type Handover struct {
	// From names its process.
	From string `json:"from"`
	// At is when it was, by its own clock.
	At time.Time `json:"at"`
}

// Text is the word of a standby as it stands in the ConfigMap.
func (s Standby) Text() (string, error) { return text(s) }

// Text is the handover as it stands in the ConfigMap.
func (h Handover) Text() (string, error) { return text(h) }

func text(of any) (string, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", of, err)
	}
	return string(text) + "\n", nil
}
