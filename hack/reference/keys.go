package main

import (
	"strings"

	"github.com/flux-k8s/fluence/pkg/group"
)

// keys describes the labels and annotations.
func keys() (string, error) {
	var b strings.Builder
	b.WriteString(`## Labels and annotations

The column "on" says where a key has an effect. The value on a PodGroup takes precedence over the pods'. Put all
other keys for the pods into the pod template. [groups.md](groups.md), [topology.md](topology.md) and
[policies.md](policies.md) explain them.
`)
	for _, form := range []group.Form{group.LabelForm, group.AnnotationForm} {
		var own, written [][]string
		for _, k := range group.Keys() {
			if k.Form != form {
				continue
			}
			var places []string
			for _, p := range k.Places {
				places = append(places, string(p))
			}
			row := []string{code(k.Name), k.Means, strings.Join(places, ", "), k.Values, k.Default}
			if k.Written {
				written = append(written, row)
			} else {
				own = append(own, row)
			}
		}
		header := []string{string(form), "means", "on", "values", "default"}
		b.WriteString("\n" + table(header, own))
		if len(written) > 0 {
			b.WriteString("\nFluence itself writes these:\n\n" + table(header, written))
		}
	}
	return b.String(), nil
}
