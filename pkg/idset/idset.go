// Package idset reads and writes sets of non-negative whole numbers in the form
// that Flux gives them: "0,3-7" (RFC 22).
package idset

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// MaxDigits bounds the digits of an id, so that it fits an int64.
const MaxDigits = 18

// A Set is the ids of its spans, which ascend and do not meet. It takes no more
// room than its text, however many ids there are. The zero Set is empty.
type Set []Span

// A Span is the ids from First to Last.
type Span struct{ First, Last int64 }

// Parse reads a set. Brackets may enclose it, the empty text is the empty set, and
// ids may come in any order, several times too, where RFC 22 wants them to ascend.
// It fails for what is no id, for an id with more than MaxDigits digits or zeros in
// front, and for a range that runs backwards.
func Parse(text string) (Set, error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if text, ok = strings.CutSuffix(inner, "]"); !ok {
			return nil, fmt.Errorf("brackets do not match")
		}
	}
	if text == "" {
		return nil, nil
	}
	var spans []Span
	for part := range strings.SplitSeq(text, ",") {
		s, err := ParseSpan(part)
		if err != nil {
			return nil, err
		}
		low, high, _ := strings.Cut(part, "-")
		if leadingZero(low) || leadingZero(high) {
			return nil, fmt.Errorf("%.60q begins with a zero", part)
		}
		spans = append(spans, s)
	}
	return Merge(spans), nil
}

func leadingZero(id string) bool { return len(id) > 1 && id[0] == '0' }

// ParseSpan reads "3" or "3-7", with zeros in front or not.
func ParseSpan(text string) (Span, error) {
	low, high, ranged := strings.Cut(text, "-")
	first, err := parseID(low)
	if err != nil || !ranged {
		return Span{first, first}, err
	}
	last, err := parseID(high)
	if err == nil && last < first {
		err = fmt.Errorf("%.60q runs backwards", text)
	}
	return Span{first, last}, err
}

func parseID(text string) (int64, error) {
	if text == "" || len(text) > MaxDigits || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%.60q is no id", text)
	}
	id, _ := strconv.ParseInt(text, 10, 64) // so few digits always fit
	return id, nil
}

// Of returns the set of these ids.
func Of(ids ...int64) Set {
	spans := make([]Span, len(ids))
	for i, id := range ids {
		spans[i] = Span{id, id}
	}
	return Merge(spans)
}

// Merge returns the set of the ids in spans, and sorts those.
func Merge(spans []Span) Set {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.First, b.First) })
	var s Set
	for _, next := range spans {
		if n := len(s); n > 0 && next.First <= s[n-1].Last+1 {
			s[n-1].Last = max(s[n-1].Last, next.Last)
			continue
		}
		s = append(s, next)
	}
	return s
}

// Has says whether an id is in the set.
func (s Set) Has(id int64) bool {
	i, _ := slices.BinarySearchFunc(s, id, func(span Span, id int64) int {
		if span.Last < id {
			return -1
		}
		return 1
	})
	return i < len(s) && s[i].First <= id
}

// Len counts the ids.
func (s Set) Len() int64 {
	n := int64(0)
	for _, span := range s {
		n += span.Last - span.First + 1
	}
	return n
}

// All yields the ids in ascending order.
func (s Set) All() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, span := range s {
			for id := span.First; id <= span.Last; id++ {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// String writes the set as Parse reads it, ids in a row as a range.
func (s Set) String() string { return string(s.Append(nil)) }

// Append writes the set to the end of b.
func (s Set) Append(b []byte) []byte {
	for i, span := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, span.First, 10)
		if span.Last > span.First {
			b = strconv.AppendInt(append(b, '-'), span.Last, 10)
		}
	}
	return b
}
