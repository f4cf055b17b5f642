package group

import (
	"maps"
	"testing"
)

func TestWithoutDefaults(t *testing.T) {
	filled := map[string]string{"app": "a", SizeLabel: "8", MinLabel: "4"}
	cases := map[string]struct {
		labels, annotations, want map[string]string
	}{
		"nothing":                           {},
		"labels without the annotation":     {labels: filled, want: filled},
		"labels that were filled in":        {labels: filled, annotations: map[string]string{DefaultedAnnotation: "8/4"}, want: map[string]string{"app": "a"}},
		"a size that was changed since":     {labels: filled, annotations: map[string]string{DefaultedAnnotation: "6/4"}, want: map[string]string{"app": "a", SizeLabel: "8"}},
		"labels that were removed since":    {labels: map[string]string{"app": "a"}, annotations: map[string]string{DefaultedAnnotation: "8/4"}, want: map[string]string{"app": "a"}},
		"an annotation that is no size":     {labels: filled, annotations: map[string]string{DefaultedAnnotation: "eight"}, want: filled},
		"an annotation with something more": {labels: filled, annotations: map[string]string{DefaultedAnnotation: "8/4 "}, want: filled},
		"an annotation in another spelling": {labels: filled, annotations: map[string]string{DefaultedAnnotation: "08/4"}, want: filled},
		"an annotation without labels":      {annotations: map[string]string{DefaultedAnnotation: "8/4"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tc.labels)
			if got := WithoutDefaults(tc.labels, tc.annotations); !maps.Equal(got, tc.want) {
				t.Errorf("WithoutDefaults() = %v, want %v", got, tc.want)
			}
			if !maps.Equal(before, tc.labels) {
				t.Errorf("the labels became %v", tc.labels)
			}
		})
	}
}

func TestFilledInReadsDefaulted(t *testing.T) {
	for _, s := range []Size{{1, 1}, {8, 4}, {MaxSize, 1}} {
		if got := filledIn(map[string]string{DefaultedAnnotation: DefaultedValue(s)}); got != s {
			t.Errorf("filledIn(%q) = %v, want %v", DefaultedValue(s), got, s)
		}
	}
}
