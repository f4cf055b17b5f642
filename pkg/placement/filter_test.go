package placement

import (
	"testing"
)

func TestBracketedReasonsByFrequency(t *testing.T) {
	var r filterResult
	r.add(filterResult{nodesByMessage: map[string]int{"b": 2, "a": 2, "c": 1}})
	r.add(filterResult{nodesByMessage: map[string]int{"b": 3, "d": 9}})
	if got, want := r.bracketedReasons(), " (9 d, 3 b, 2 a)"; got != want {
		t.Errorf("ruled out%s, want%s", got, want)
	}
	if got := (filterResult{}).bracketedReasons(); got != "" {
		t.Errorf("nothing ruled out: %q", got)
	}
}
