package jobspec

import (
	"maps"
	"slices"
	"unicode/utf8"
)

// appendKey writes a key. It writes a comma before every key but the first of an object.
func appendKey(b []byte, key string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(appendText(b, key), ':')
}

// appendField writes a key and its text. It writes nothing if the text is empty.
func appendField(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(appendKey(b, key), text)
}

func appendList[T any](b []byte, items []T, write func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = write(b, item)
	}
	return append(b, ']')
}

func appendMap[T any](b []byte, m map[string]T, write func([]byte, T) []byte) []byte {
	b = append(b, '{')
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b = write(appendKey(b, key), m[key])
	}
	return append(b, '}')
}

// appendText writes a JSON string. It also escapes characters that JSON allows, but that
// YAML takes for line breaks or rejects, because most readers of a jobspec use YAML.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	done := 0
	for i := 0; i < len(s); {
		r, size := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
		}
		if !escaped(r) {
			i += size
			continue
		}
		b = append(b, s[done:i]...)
		if r == '"' || r == '\\' {
			b = append(b, '\\', byte(r))
		} else {
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		}
		i += size
		done = i
	}
	return append(append(b, s[done:]...), '"')
}

// escaped reports whether appendText escapes a character. All these characters are below 0x10000.
func escaped(r rune) bool {
	switch {
	case r < ' ', r == '"', r == '\\':
		return true
	case r >= 0x7f && r <= 0x9f, r == 0x2028, r == 0x2029:
		return true
	}
	return r == 0xfeff || r == 0xfffe || r == 0xffff
}
