package jobspec

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// readJSON reads a text that is valid JSON. ok reports whether it is.
func readJSON(data []byte) (v value, ok bool, err error) {
	if !json.Valid(data) || !utf8.Valid(data) {
		return value{}, false, nil
	}
	r := jsonReader{text: string(data), line: 1, left: maxCost}
	v, err = r.value(0)
	return v, true, err
}

// A jsonReader turns JSON into values. The text is known to be valid, so
// one byte decides what follows. A text without escapes is a part of the
// input and not a copy, because a jobspec can have thousands of texts.
type jsonReader struct {
	text string
	pos  int
	line int
	left int
}

// next skips the characters between values. It returns the byte after them.
func (r *jsonReader) next() byte {
	for ; ; r.pos++ {
		switch c := r.text[r.pos]; c {
		case '\n':
			r.line++
		case ' ', '\t', '\r', ',', ':':
		default:
			return c
		}
	}
}

func (r *jsonReader) value(depth int) (value, error) {
	c := r.next()
	v := value{line: r.line}
	if depth >= maxDepth {
		return v, faultAt(v, "nested deeper than %d", maxDepth)
	}
	var err error
	switch c {
	case '{':
		v.kind = kindMapping
		err = r.mapping(&v, depth)
	case '[':
		v.kind = kindList
		err = r.list(&v, depth)
	case '"':
		v.kind, v.text, v.quoted = kindText, r.string(), true
	case 't', 'f':
		v.kind, v.text = kindBool, r.word()
	case 'n':
		r.word()
	default:
		v.kind, v.text = kindNumber, r.word()
	}
	if r.left -= valueCost + len(v.text); r.left < 0 && err == nil {
		err = faultAt(v, "jobspec is too large")
	}
	return v, err
}

func (r *jsonReader) list(v *value, depth int) error {
	r.pos++
	for r.next() != ']' {
		item, err := r.value(depth + 1)
		if err != nil {
			return inItem(len(v.items), err)
		}
		v.items = append(v.items, item)
	}
	r.pos++
	return nil
}

func (r *jsonReader) mapping(v *value, depth int) error {
	r.pos++
	var seen map[string]struct{}
	for r.next() != '}' {
		key := r.string()
		if _, twice := seen[key]; twice {
			return faultAt(value{line: r.line}, "key %s appears twice", shorten(key))
		}
		if seen == nil {
			seen = map[string]struct{}{}
		}
		seen[key] = struct{}{}
		r.left -= len(key)
		item, err := r.value(depth + 1)
		if err != nil {
			return in(key, err)
		}
		v.keys = append(v.keys, key)
		v.items = append(v.items, item)
	}
	r.pos++
	return nil
}

// string reads the string at the current position.
func (r *jsonReader) string() string {
	start, escapes := r.pos, false
	for end := start + 1; ; end++ {
		switch r.text[end] {
		case '\\':
			escapes = true
			end++
		case '"':
			r.pos = end + 1
			if !escapes {
				return r.text[start+1 : end]
			}
			var s string
			_ = json.Unmarshal([]byte(r.text[start:r.pos]), &s) // known to be valid
			return s
		}
	}
}

// word reads a number, a truth value or null.
func (r *jsonReader) word() string {
	rest := r.text[r.pos:]
	if end := strings.IndexAny(rest, ",]} \t\r\n"); end >= 0 {
		rest = rest[:end]
	}
	r.pos += len(rest)
	return rest
}
