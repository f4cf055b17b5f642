package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// decimal returns a number as decimal text.
func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// cores returns thousandths of a core as cores.
func cores(n int64) string {
	text := strconv.FormatInt(n/1000, 10)
	if rest := n % 1000; rest > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%03d", rest), "0")
	}
	return text
}

// inBytes returns a number of bytes in the largest binary unit that is not above it, with
// one decimal unless that is 0. It rounds down, so that free room is never overstated.
func inBytes(n int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	i, unit := 0, int64(1)
	for i < len(units)-1 && n >= unit<<10 {
		unit <<= 10
		i++
	}
	text := strconv.FormatInt(n/unit, 10)
	// A multiplication could overflow.
	if tenth := (n % unit) / max(1, unit/10); i > 0 && tenth > 0 {
		text += "." + strconv.FormatInt(min(9, tenth), 10)
	}
	return text + units[i]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
