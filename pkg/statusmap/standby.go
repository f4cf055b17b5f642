package statusmap

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	// HeartbeatInterval is the time between two heartbeats of a standby.
	HeartbeatInterval = 10 * time.Second
	// HeartbeatTimeout is how long a heartbeat counts after the reader has seen it.
	HeartbeatTimeout = 3 * HeartbeatInterval
	// MaxSilence is how long the matcher of a leader may give
	// no answer before the leader hands over to a standby.
	MaxSilence = 30 * time.Second
	// MinHandoverInterval is the shortest time from one handover to the next.
	MinHandoverInterval = 10 * time.Minute
	// StandbyTTL is how long after its last heartbeat the key of a standby is removed.
	StandbyTTL = 10 * time.Minute
)

// HandoverKey is the key of the ConfigMap under which the last handover is stored, as JSON.
const HandoverKey = "handover.json"

// Each standby has a separate key, so that none overwrites another.
const (
	standbyPrefix = "standby."
	standbySuffix = ".json"
	// maxNameInKey bounds the part of the name in a key, in bytes.
	maxNameInKey = 63
)

// StandbyKey returns the key under which a process stores its heartbeat
// while it stands by. The name is the name of the process. It is cut if
// it is long. id distinguishes processes of the same name.
func StandbyKey(name, id string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, name)
	return standbyPrefix + name[:min(len(name), maxNameInKey)] + "." + id + standbySuffix
}

// isStandby reports whether a key is the key of a standby.
func isStandby(key string) bool {
	return strings.HasPrefix(key, standbyPrefix) && strings.HasSuffix(key, standbySuffix)
}

// A Standby is the heartbeat of a scheduler that could lead.
type Standby struct {
	// Name is the name of its process.
	Name string `json:"name"`
	// MatcherAnswers is true if its matcher answers and has loaded its graph.
	MatcherAnswers bool `json:"matcherAnswers"`
	// Updated is when it was written, by the clock of the standby. Readers use their own clock.
	Updated time.Time `json:"updated"`
}

// A Handover is written by a leader that gives up its lease because its matcher does not answer.
type Handover struct {
	// From is the name of its process.
	From string `json:"from"`
	// At is when it was written, by the clock of the leader.
	At time.Time `json:"at"`
}

// Text returns the entry of a standby in the ConfigMap.
func (s Standby) Text() (string, error) { return text(s) }

// Text returns the entry of the handover in the ConfigMap.
func (h Handover) Text() (string, error) { return text(h) }

func text(of any) (string, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", of, err)
	}
	return string(text) + "\n", nil
}
