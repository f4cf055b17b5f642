package group

import (
	"fmt"
	"maps"
)

// DefaultedAnnotation marks an object whose size labels were filled in: by its
// value, as Defaulted writes it, they are told from those that a user wrote.
const DefaultedAnnotation = "fluence.flux-framework.org/defaulted-size"

// Defaulted returns the value of DefaultedAnnotation where both size labels were
// filled in from s: "SIZE/MIN".
func Defaulted(s Size) string { return fmt.Sprintf("%d/%d", s.Size, s.Min) }

// WithoutDefaults returns the labels of an object without the size labels that were filled
// in, which leaves what its user said. A label that was changed afterwards is the
// user's. It returns the labels themselves if none was filled in; the caller must
// not change the result.
func WithoutDefaults(labels, annotations map[string]string) map[string]string {
	filled := filledIn(annotations)
	if filled == (Size{}) {
		return labels
	}
	said := maps.Clone(labels)
	for key, n := range map[string]int32{SizeLabel: filled.Size, MinLabel: filled.Min} {
		if said[key] == fmt.Sprint(n) {
			delete(said, key)
		}
	}
	return said
}

// filledIn reads DefaultedAnnotation. It is zero if that is absent, or if its
// value is none that Defaulted writes: the labels are the user's then.
func filledIn(annotations map[string]string) Size {
	value, ok := annotations[DefaultedAnnotation]
	if !ok {
		return Size{}
	}
	var s Size
	if n, err := fmt.Sscanf(value, "%d/%d", &s.Size, &s.Min); n != 2 || err != nil || Defaulted(s) != value {
		return Size{}
	}
	return s
}
