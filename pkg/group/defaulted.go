package group

import (
	"fmt"
	"maps"
)

// DefaultedAnnotation marks an object whose size labels were filled in. Its value, written
// by DefaultedValue, has the sizes that were filled in, so that they are not taken for a user's.
const DefaultedAnnotation = "fluence.flux-framework.org/defaulted-size"

// DefaultedValue returns the value of DefaultedAnnotation if
// both size labels were filled in from s: "SIZE/MIN".
func DefaultedValue(s Size) string { return fmt.Sprintf("%d/%d", s.Size, s.Min) }

// WithoutDefaults returns the labels of an object without the size labels that
// were filled in. What remains is what the user wrote. A label that was changed
// afterwards counts as the user's. If no label was filled in, WithoutDefaults
// returns the given labels; the caller must not change the result.
func WithoutDefaults(labels, annotations map[string]string) map[string]string {
	filled := filledIn(annotations)
	if filled == (Size{}) {
		return labels
	}
	userLabels := maps.Clone(labels)
	for key, n := range map[string]int32{SizeLabel: filled.Size, MinLabel: filled.Min} {
		if userLabels[key] == fmt.Sprint(n) {
			delete(userLabels, key)
		}
	}
	return userLabels
}

// filledIn reads DefaultedAnnotation. It returns zero if the annotation is absent,
// or if DefaultedValue cannot have written its value: then all labels are the user's.
func filledIn(annotations map[string]string) Size {
	value, ok := annotations[DefaultedAnnotation]
	if !ok {
		return Size{}
	}
	var s Size
	if n, err := fmt.Sscanf(value, "%d/%d", &s.Size, &s.Min); n != 2 || err != nil || DefaultedValue(s) != value {
		return Size{}
	}
	return s
}
