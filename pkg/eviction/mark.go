package eviction

import (
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/preemption"
)

// A Mark is what is written onto a victim before it is evicted.
type Mark struct {
	// For is for whom the victim is evicted. A mark that was read has its UID and its priority only.
	For preemption.Preemptor
	// Priority is that of the victim.
	Priority int32
	// Suspends is the UID of the owner that is suspended. It is empty if pods are deleted.
	Suspends types.UID
}

// markOf returns the mark of a victim.
func markOf(p preemption.Preemptor, v preemption.Victim) Mark {
	return Mark{For: p, Priority: v.Priority, Suspends: v.Suspend.UID}
}

// Preemptor says for whom a victim in a namespace is evicted. It names a group of the same namespace only.
func (m Mark) Preemptor(namespace string) string {
	who := "a group of another namespace"
	if m.For.Namespace == namespace {
		who = "group " + m.For.Namespace + "/" + m.For.Name
		if m.For.Kind == preemption.Pod {
			who = "pod " + m.For.Namespace + "/" + m.For.Name
		}
	}
	return fmt.Sprintf("%s (priority %d, this one has %d)", who, m.For.Priority, m.Priority)
}

// Message returns the message of the mark on an object of a namespace. Parse reads it.
func (m Mark) Message(namespace string) string {
	text := fmt.Sprintf("evicted for %s; preemptor %s", m.Preemptor(namespace), m.For.UID)
	if m.Suspends != "" {
		text += fmt.Sprintf("; suspends owner %s until the pods have gone", m.Suspends)
	}
	return text
}

// markText is the form of the message of a mark.
var markText = regexp.MustCompile(`^evicted for .* \(priority (-?\d+), this one has (-?\d+)\); preemptor (\S+?)(?:; suspends owner (\S+) until the pods have gone)?$`)

// Parse reads the message of a mark. It returns false if the message is none of Message.
func Parse(message string) (Mark, bool) {
	m := markText.FindStringSubmatch(message)
	if m == nil {
		return Mark{}, false
	}
	of, err := strconv.ParseInt(m[1], 10, 32)
	has, err2 := strconv.ParseInt(m[2], 10, 32)
	if err != nil || err2 != nil {
		return Mark{}, false
	}
	return Mark{
		For:      preemption.Preemptor{UID: types.UID(m[3]), Priority: int32(of)},
		Priority: int32(has), Suspends: types.UID(m[4]),
	}, true
}
