package resource

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestStringsOfEveryLength checks that a special byte is found
// at every place of the eight bytes that are read at a time.
func TestStringsOfEveryLength(t *testing.T) {
	specials := map[string]string{
		"nothing special": "", "a control character": "\n", "NUL": "\x00", "the last control character": "\x1f",
		"an escape": `\n`, "a quote that is escaped": `\"`, "a letter that is not ASCII": "ä", "DEL": "\x7f",
		"neighbours of what is special": "!#[]", "a quote and more": `"x`,
	}
	for name, special := range specials {
		t.Run(name, func(t *testing.T) {
			for length := range 20 {
				for at := range length + 1 {
					text := `"` + strings.Repeat("a", at) + special + strings.Repeat("b", length-at) + `"`
					var want string
					wantErr := json.NewDecoder(strings.NewReader(text)).Decode(&want)
					c := cursor{data: []byte(text)}
					got, err := c.bytes()
					if (err != nil) != (wantErr != nil) || string(got) != want {
						t.Errorf("%s: %q, %v, want %q, %v", text, got, err, want, wantErr)
					}
				}
			}
		})
	}
}

func TestWordsAreTheirOwn(t *testing.T) {
	w := newWords(100)
	var kept, want []string
	for i := range 5000 {
		b := bytes.Repeat([]byte{byte('a' + i%26)}, i%90)
		want = append(want, string(b), string(b))
		kept = append(kept, w.word(b), w.text(b))
		clear(b)
	}
	for i := range want {
		if kept[i] != want[i] {
			t.Fatalf("word %d: %q, want %q", i, kept[i], want[i])
		}
	}
}
