package resource

import (
	"fmt"
	"strconv"
	"strings"
)

// complete sets the fields that the text left out. seen has the keys that the text had.
func (n *node) complete(seen int) error {
	if seen&keyUniqID == 0 {
		uniq, ok := leadingInteger(string(n.id))
		if !ok {
			return fmt.Errorf("no uniq_id, and the vertex id begins with no number")
		}
		n.UniqID = uniq
	}
	if seen&keyBasename == 0 {
		n.Basename = n.Type
	}
	if seen&keyID == 0 {
		n.ID = n.UniqID
		if n.Type == TypeNode && seen&keyName != 0 {
			if id, ok := trailingInteger(n.Name); ok {
				n.ID = id
			}
		}
	}
	if seen&keyName == 0 {
		n.Name = n.Basename + strconv.FormatInt(n.ID, 10)
	}
	return nil
}

// leadingInteger reads the number at the start of a text as C does:
// blanks and a sign may come before it, and anything may follow it.
func leadingInteger(s string) (int64, bool) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	end := 0
	if end < len(s) && (s[end] == '+' || s[end] == '-') {
		end++
	}
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	return n, err == nil
}

// trailingInteger reads the digits at the end of a text.
func trailingInteger(s string) (int64, bool) {
	n, err := strconv.ParseInt(s[len(strings.TrimRight(s, "0123456789")):], 10, 64)
	return n, err == nil
}
