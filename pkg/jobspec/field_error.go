package jobspec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A fieldError describes what is wrong with one field. It is made where the fault is found, and
// its callers add the path on the way out. So reading a valid document costs nothing for errors.
type fieldError struct {
	line int // 0 if no line is known
	// path has the steps from the field up to the document.
	path []step
	text string
}

// A step is a key of a mapping, or an index of a list if key is empty.
type step struct {
	key   string
	index int
}

// Error returns the line, the path and the fault. It
// shortens a long path to its head and tail. The form is:
//
//	line 4: resources[0].count: "x": ...
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

// fault returns an error that has no path and no line yet.
func fault(format string, args ...any) error {
	return &fieldError{text: fmt.Sprintf(format, args...)}
}

// faultAt returns an error at the line of a value.
func faultAt(v value, format string, args ...any) error {
	return &fieldError{line: v.line, text: fmt.Sprintf(format, args...)}
}

// in adds the key under which err happened.
func in(key string, err error) error { return within(step{key: key}, err) }

// inItem adds the index under which err happened.
func inItem(i int, err error) error { return within(step{index: i}, err) }

// within adds a step to the path of err.
func within(s step, err error) error {
	if e, ok := errors.AsType[*fieldError](err); ok {
		e.path = append(e.path, s)
	}
	return err
}

// located sets the line of an error that has none. The line
// is the line of the field in doc that the error names.
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

// shorten quotes a text for an error message. It cuts
// a long text, because the message must stay readable.
func shorten(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
