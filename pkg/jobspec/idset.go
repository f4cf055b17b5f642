package jobspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An idset is a set of non-negative whole numbers, written "0,3-7" (RFC 22).
// As spans it takes no more room than its text, whatever the numbers.
type idset []span

// parseIDSet adds the ids of a text to a set. They may come in any order; the
// empty text is the empty set.
func parseIDSet(set idset, text string) (idset, error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if text, ok = strings.CutSuffix(inner, "]"); !ok {
			return nil, fmt.Errorf("brackets do not match")
		}
	}
	if text == "" {
		return set, nil
	}
	for id := range strings.SplitSeq(text, ",") {
		s, err := parseSpan(id)
		if err != nil {
			return nil, err
		}
		low, high, _ := strings.Cut(id, "-")
		if leadingZero(low) || leadingZero(high) {
			return nil, fmt.Errorf("%s begins with a zero", shorten(id))
		}
		set = append(set, s)
	}
	return set, nil
}

func leadingZero(id string) bool { return len(id) > 1 && id[0] == '0' }

// merged returns the set as ascending spans that do not meet.
func (set idset) merged() idset {
	slices.SortFunc(set, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	var out idset
	for _, s := range set {
		if n := len(out); n > 0 && s.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, s.last)
			continue
		}
		out = append(out, s)
	}
	return out
}
