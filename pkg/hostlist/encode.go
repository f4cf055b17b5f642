package hostlist

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/idset"
)

// Encode writes names in their order, and as often as they are there, as a list.
// Names in a row that begin alike and end in numbers become one expression:
// "a[0-9,12]". The caller owes names that are Single.
func Encode(names []string) string {
	var b []byte
	for i := 0; i < len(names); {
		if i > 0 {
			b = append(b, ',')
		}
		ids, prefix, width := together(names[i:])
		if len(ids) < 2 {
			b = append(b, names[i]...)
			i++
			continue
		}
		b = append(append(b, prefix...), '[')
		b = append(appendIDs(b, ids, width), ']')
		i += len(ids)
	}
	return string(b)
}

// Compare orders names so that Encode writes them in few expressions: by what stands before the digits at their
// ends, and then by the numbers, so that n2 comes before n10.
func Compare(a, b string) int {
	x, _, _ := splitNumber(a)
	y, _, _ := splitNumber(b)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// together returns the numbers of as many names as can be written as one
// expression from the first on.
func together(names []string) (ids []int64, prefix string, width int) {
	prefix, first, ok := splitNumber(names[0])
	if !ok {
		return nil, "", 0
	}
	if len(first) > 1 && first[0] == '0' {
		width = len(first)
	}
	for _, name := range names {
		p, digits, ok := splitNumber(name)
		if !ok || p != prefix {
			break
		}
		id, _ := strconv.ParseInt(digits, 10, 64) // so few digits always fit
		if padded(id, width) != digits {
			break
		}
		ids = append(ids, id)
	}
	return ids, prefix, width
}

// splitNumber parts a name into what stands before the digits at its end, and
// those; ok is false where there are none, or more than an id may have.
func splitNumber(name string) (prefix, digits string, ok bool) {
	prefix = strings.TrimRight(name, "0123456789")
	digits = name[len(prefix):]
	return prefix, digits, digits != "" && len(digits) <= idset.MaxDigits
}

// appendIDs writes numbers in their order, those in a row as a range.
func appendIDs(b []byte, ids []int64, width int) []byte {
	for i := 0; i < len(ids); {
		last := i
		for last+1 < len(ids) && ids[last+1] == ids[last]+1 {
			last++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, padded(ids[i], width)...)
		if last > i {
			b = append(append(b, '-'), padded(ids[last], width)...)
		}
		i = last + 1
	}
	return b
}
