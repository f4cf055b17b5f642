// Package hostlist reads and writes ordered lists of host names in the form that
// Flux gives them: "a[0-9,12]-ib,login" (RFC 29).
package hostlist

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/idset"
)

// A List is the names that a text stands for, kept as the expressions that it is
// made of: it takes no more room than the text, however many names there are.
type List []expression

// An expression is prefix, ids and suffix; without ids it is the one name prefix.
type expression struct {
	prefix, suffix string
	ids            []idset.Span
	// width is the least number of digits of an id, filled up with zeros.
	width int
}

// Parse reads a list. Names keep their order, and are there as often as they are
// written; empty parts between commas are none. It fails for brackets that do not
// match, ids that idset.ParseSpan refuses, and characters that RFC 29 does not
// allow in a name.
func Parse(text string) (List, error) {
	var l List
	for rest := text; rest != ""; {
		var part string
		var err error
		if part, rest, err = cut(rest); err != nil {
			return nil, err
		}
		if part == "" {
			continue
		}
		e, err := parseExpression(part)
		if err != nil {
			return nil, err
		}
		l = append(l, e)
	}
	return l, nil
}

// cut parts the first expression from the rest. The commas inside brackets do not
// end it.
func cut(text string) (part, rest string, err error) {
	end, open := strings.IndexByte(text, ','), strings.IndexByte(text, '[')
	if open >= 0 && (end < 0 || open < end) {
		closing := strings.IndexByte(text, ']')
		if closing < open {
			return "", "", fmt.Errorf("brackets do not match")
		}
		if end = strings.IndexByte(text[closing:], ','); end >= 0 {
			end += closing
		}
	}
	if end < 0 {
		return text, "", nil
	}
	return text[:end], text[end+1:], nil
}

func parseExpression(text string) (expression, error) {
	var e expression
	prefix, rest, ranged := strings.Cut(text, "[")
	e.prefix = prefix
	if ranged {
		ids, suffix, _ := strings.Cut(rest, "]")
		e.suffix = suffix
		if first, _, _ := strings.Cut(ids, ","); len(first) > 1 && first[0] == '0' {
			first, _, _ = strings.Cut(first, "-")
			e.width = len(first)
		}
		for id := range strings.SplitSeq(ids, ",") {
			s, err := idset.ParseSpan(id)
			if err != nil {
				return e, err
			}
			e.ids = append(e.ids, s)
		}
	}
	for _, part := range [...]string{e.prefix, e.suffix} {
		for i := range len(part) {
			switch c := part[i]; {
			case c == '[' || c == ']':
				return e, fmt.Errorf("brackets do not match")
			case !allowed(c):
				return e, fmt.Errorf("%q cannot be part of a host name", c)
			}
		}
	}
	return e, nil
}

// allowed says which characters a name may have, apart from brackets.
func allowed(c byte) bool { return c > ' ' && c <= '~' && c != ',' }

// Single says whether a text is a list of one name, and that name as it stands.
func Single(text string) bool {
	for i := range len(text) {
		if c := text[i]; !allowed(c) || c == '[' || c == ']' {
			return false
		}
	}
	return text != ""
}

// Len counts the names, but not on beyond most: where there are more, it returns
// most+1.
func (l List) Len(most int) int {
	n := 0
	for _, e := range l {
		if e.ids == nil {
			n++
		}
		for _, s := range e.ids {
			n += int(min(s.Last-s.First, int64(most))) + 1
			if n > most {
				return most + 1
			}
		}
	}
	return min(n, most+1)
}

// Names yields the names in order.
func (l List) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range l {
			if e.ids == nil && !yield(e.prefix) {
				return
			}
			for _, s := range e.ids {
				for id := s.First; id <= s.Last; id++ {
					if !yield(e.prefix + padded(id, e.width) + e.suffix) {
						return
					}
				}
			}
		}
	}
}

func padded(id int64, width int) string {
	digits := strconv.FormatInt(id, 10)
	return strings.Repeat("0", max(0, width-len(digits))) + digits
}
