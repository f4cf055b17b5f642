package jobspec

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// readJSON reads a text that is valid JSON; ok says whether it is.
func readJSON(data []byte) (v value, ok bool, err error) {
	if !json.Valid(data) || !utf8.Valid(data) {
		return value{}, false, nil
	}
	r := jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1, left: maxCost}
	r.dec.UseNumber()
	v, err = r.value(0)
	return v, true, err
}

// A jsonReader turns JSON tokens into values. The text is known to be valid.
type jsonReader struct {
	dec  *json.Decoder
	data []byte
	// line is the line at offset, the end of the last token.
	line   int
	offset int64
	left   int
}

func (r *jsonReader) next() (json.Token, error) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, fault("%v", err)
	}
	end := r.dec.InputOffset()
	r.line += bytes.Count(r.data[r.offset:end], []byte{'\n'})
	r.offset = end
	return t, nil
}

func (r *jsonReader) value(depth int) (value, error) {
	t, err := r.next()
	if err != nil {
		return value{}, err
	}
	v := value{line: r.line}
	if depth >= maxDepth {
		return v, faultAt(v, "nested deeper than %d", maxDepth)
	}
	switch t := t.(type) {
	case bool:
		v.kind, v.text = kindBool, "false"
		if t {
			v.text = "true"
		}
	case json.Number:
		v.kind, v.text = kindNumber, t.String()
	case string:
		v.kind, v.text, v.quoted = kindText, t, true
	case json.Delim:
		err = r.container(&v, t, depth)
	}
	if r.left -= valueCost + len(v.text); r.left < 0 {
		return v, faultAt(v, "jobspec is too large")
	}
	return v, err
}

func (r *jsonReader) container(v *value, open json.Delim, depth int) error {
	v.kind = kindList
	seen := map[string]struct{}(nil)
	if open == '{' {
		v.kind = kindMapping
		seen = make(map[string]struct{}, 8)
	}
	for i := 0; r.dec.More(); i++ {
		key := ""
		if open == '{' {
			t, err := r.next()
			if err != nil {
				return err
			}
			key, _ = t.(string)
			if _, twice := seen[key]; twice {
				return faultAt(value{line: r.line}, "key %s is there twice", shorten(key))
			}
			seen[key] = struct{}{}
			r.left -= len(key)
			v.keys = append(v.keys, key)
		}
		item, err := r.value(depth + 1)
		switch {
		case err != nil && open == '{':
			return in(key, err)
		case err != nil:
			return inItem(i, err)
		}
		v.items = append(v.items, item)
	}
	_, err := r.next()
	return err
}
