package jobspec

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// maxHosts bounds the names that the hostlists of one jobspec stand for.
const maxHosts = 1 << 20

// maxIDDigits bounds an id of a hostlist, so that it fits an int64.
const maxIDDigits = 18

// A hostlist is the names that a text such as "a[0-9,12]-ib,login" stands for
// (RFC 29), kept as the expressions it is made of.
type hostlist []hostExpression

// A hostExpression is prefix, ids and suffix; without ids it is the one name
// prefix.
type hostExpression struct {
	prefix, suffix string
	ids            []span
	// width is the least number of digits of an id, filled up with zeros.
	width int
}

// A span is the whole numbers from first to last.
type span struct{ first, last int64 }

func parseHostlist(text string) (hostlist, error) {
	var list hostlist
	for rest := text; rest != ""; {
		end, open := strings.IndexByte(rest, ','), strings.IndexByte(rest, '[')
		if open >= 0 && (end < 0 || open < end) {
			// The commas inside the brackets do not end the expression.
			closing := strings.IndexByte(rest, ']')
			if closing < open {
				return nil, fmt.Errorf("brackets do not match")
			}
			if end = strings.IndexByte(rest[closing:], ','); end >= 0 {
				end += closing
			}
		}
		expression := rest
		if end >= 0 {
			expression, rest = rest[:end], rest[end+1:]
		} else {
			rest = ""
		}
		if expression == "" {
			continue
		}
		e, err := parseHostExpression(expression)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func parseHostExpression(text string) (hostExpression, error) {
	var e hostExpression
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
			s, err := parseSpan(id)
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
			case c <= ' ' || c > '~':
				return e, fmt.Errorf("%q cannot be part of a host name", c)
			}
		}
	}
	return e, nil
}

// isName says whether a hostlist is one name and needs no reading.
func isName(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ', c > '~', c == ',', c == '[', c == ']':
			return false
		}
	}
	return text != ""
}

// parseSpan reads "3" or "3-7".
func parseSpan(text string) (span, error) {
	low, high, ranged := strings.Cut(text, "-")
	if !ranged {
		high = low
	}
	var s span
	for _, end := range []struct {
		text string
		to   *int64
	}{{low, &s.first}, {high, &s.last}} {
		if end.text == "" || len(end.text) > maxIDDigits || strings.Trim(end.text, "0123456789") != "" {
			return s, fmt.Errorf("%s is no id", shorten(end.text))
		}
		*end.to, _ = strconv.ParseInt(end.text, 10, 64) // so few digits always fit
	}
	if s.last < s.first {
		return s, fmt.Errorf("%s runs backwards", shorten(text))
	}
	return s, nil
}

// checkHostlist takes the number of names off the room that is left for them.
func checkHostlist(text string, room *int) error {
	if isName(text) {
		*room--
	} else {
		list, err := parseHostlist(text)
		if err != nil {
			return err
		}
		*room = list.within(*room)
	}
	if *room < 0 {
		return fmt.Errorf("more than %d names in all hostlists", maxHosts)
	}
	return nil
}

// within returns the room that is left after the names, negative if there is
// not enough.
func (l hostlist) within(room int) int {
	for _, e := range l {
		if len(e.ids) == 0 {
			room--
		}
		for _, s := range e.ids {
			room -= int(min(s.last-s.first, maxHosts)) + 1
		}
		if room < 0 {
			break
		}
	}
	return room
}

// names yields the names in order, those that are there twice twice.
func (l hostlist) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range l {
			if len(e.ids) == 0 && !yield(e.prefix) {
				return
			}
			for _, s := range e.ids {
				for id := s.first; id <= s.last; id++ {
					if !yield(e.name(id)) {
						return
					}
				}
			}
		}
	}
}

func (e hostExpression) name(id int64) string {
	digits := strconv.FormatInt(id, 10)
	zeros := strings.Repeat("0", max(0, e.width-len(digits)))
	return e.prefix + zeros + digits + e.suffix
}
