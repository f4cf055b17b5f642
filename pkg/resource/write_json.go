package resource

import (
	"maps"
	"slices"
)

// appendText writes a JSON string. The text must be UTF-8.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// appendTexts writes an object of strings, with sorted keys.
func appendTexts(b []byte, m map[string]string) []byte {
	b = append(b, '{')
	if len(m) == 1 { // nearly always
		for k, v := range m {
			b = appendText(append(appendText(b, k), ':'), v)
		}
		return append(b, '}')
	}
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(appendText(b, k), ':'), m[k])
	}
	return append(b, '}')
}
