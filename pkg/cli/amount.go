package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/pkg/translate"
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

// quantities returns amounts as Kubernetes writes them: "cpu" is in cores, and memory in binary units.
func quantities(a translate.Amounts) corev1.ResourceList {
	list := corev1.ResourceList{}
	for of, n := range a {
		q := resource.NewQuantity(n, resource.DecimalSI)
		switch {
		case of == translate.TypeCore:
			q = resource.NewMilliQuantity(n, resource.DecimalSI)
		case isBytes(of):
			q = resource.NewQuantity(n, resource.BinarySI)
		}
		list[corev1.ResourceName(resourceName(of))] = *q
	}
	return list
}

// isBytes reports whether a pool is in bytes.
func isBytes(of string) bool {
	return of == translate.TypeMemory || of == string(corev1.ResourceEphemeralStorage) || strings.HasPrefix(of, corev1.ResourceHugePagesPrefix)
}

// MarshalJSON writes the amounts as quantities.
func (p *treeNode) MarshalJSON() ([]byte, error) {
	type plain treeNode
	return json.Marshal(struct {
		*plain
		Size          corev1.ResourceList `json:"size"`
		Used          corev1.ResourceList `json:"used"`
		Unschedulable corev1.ResourceList `json:"closed,omitempty"`
	}{(*plain)(p), quantities(p.Size), quantities(p.Used), quantities(p.Unschedulable)})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
