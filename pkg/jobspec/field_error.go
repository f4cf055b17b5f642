package jobspec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A fieldError says what is wrong with one field. It is made where the fault is
// found and learns its path on the way out, so that reading a sound document
// costs nothing.
type fieldError struct {
	line int // 0 where there is no text to point at
	path []step
	text string
}

// A step is a key of a mapping or, where key is empty, an index of a list.
type step struct {
	key   string
	index int
}

// Error renders line, path and fault: `line 4: resources[0].count: "x": ...`.
// Of a path that nests without end only head and tail are shown.
func (e *fieldError) Error() string {
	const head, tail = 8, 8
	var b strings.Builder
	if e.line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.line)
	}
	for i, s := range slices.Backward(e.path) {
		switch {
		case i == tail && i < len(e.path)-head:
			b.WriteString("...")
		case i > tail && i < len(e.path)-head:
		case s.key == "":
			fmt.Fprintf(&b, "[%d]", s.index)
		case strings.ContainsAny(s.key, ".[]\"\n "):
			fmt.Fprintf(&b, "[%s]", shorten(s.key))
		case i == len(e.path)-1:
			b.WriteString(s.key)
		default:
			b.WriteString("." + s.key)
		}
	}
	if len(e.path) > 0 {
		b.WriteString(": ")
	}
	b.WriteString(e.text)
	return b.String()
}

func fault(format string, args ...any) error {
	return &fieldError{text: fmt.Sprintf(format, args...)}
}

func faultAt(v value, format string, args ...any) error {
	return &fieldError{line: v.line, text: fmt.Sprintf(format, args...)}
}

// in adds the key that err happened under.
func in(key string, err error) error { return within(step{key: key}, err) }

// inItem adds the index that err happened under.
func inItem(i int, err error) error { return within(step{index: i}, err) }

func within(s step, err error) error {
	if e, ok := errors.AsType[*fieldError](err); ok {
		e.path = append(e.path, s)
	}
	return err
}

// located gives an error without a line the line of the field it names in doc.
func located(doc value, err error) error {
	e, ok := errors.AsType[*fieldError](err)
	if !ok || e.line > 0 {
		return err
	}
	v := doc
	for _, s := range slices.Backward(e.path) {
		next, ok := v.child(s)
		if !ok {
			break
		}
		v = next
	}
	e.line = v.line
	return e
}

// shorten quotes a text for an error message, which shall stay readable.
func shorten(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
