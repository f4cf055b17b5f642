package jobspec

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// raw returns a value as compact JSON; it is for values that this package does not interpret.
// YAML has numbers that JSON does not have. raw rewrites these, and rejects .inf and .nan.
func raw(v value) (json.RawMessage, error) { return appendRaw(nil, v) }

// rawMapping returns the values of a mapping as JSON. For null it returns an empty mapping.
func rawMapping(v value) (map[string]json.RawMessage, error) {
	if v.kind == kindNull {
		return nil, nil
	}
	if err := v.mapping(); err != nil {
		return nil, err
	}
	var m map[string]json.RawMessage
	for i, key := range v.keys {
		text, err := raw(v.items[i])
		if err != nil {
			return nil, in(key, err)
		}
		if m == nil {
			m = make(map[string]json.RawMessage, len(v.keys))
		}
		m[key] = text
	}
	return m, nil
}

func appendRaw(b []byte, v value) ([]byte, error) {
	var err error
	switch v.kind {
	case kindNull:
		return append(b, "null"...), nil
	case kindBool:
		lower := strings.ToLower(v.text)
		if lower != "true" && lower != "false" {
			return nil, faultAt(v, "%v: not a truth value", v)
		}
		return append(b, lower...), nil
	case kindNumber:
		n, err := jsonNumber(v.text)
		if err != nil {
			return nil, faultAt(v, "%v: %v", v, err)
		}
		return append(b, n...), nil
	case kindText:
		return appendText(b, v.text), nil
	case kindList:
		b = append(b, '[')
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendRaw(b, item); err != nil {
				return nil, inItem(i, err)
			}
		}
		return append(b, ']'), nil
	case kindMapping:
		b = append(b, '{')
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, v.keys[i]), ':')
			if b, err = appendRaw(b, item); err != nil {
				return nil, in(v.keys[i], err)
			}
		}
		return append(b, '}'), nil
	}
	return nil, faultAt(v, "%v: not a value of JSON", v)
}

// jsonNumber returns a number of YAML in the form of JSON.
func jsonNumber(text string) (string, error) {
	if c := text[len(text)-1]; c >= '0' && c <= '9' && json.Valid([]byte(text)) {
		return text, nil
	}
	plain := strings.ReplaceAll(text, "_", "")
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return strconv.FormatInt(n, 10), nil
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", fmt.Errorf("not a number of JSON")
	}
	b, err := json.Marshal(f)
	return string(b), err
}
