package queue_test

import (
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/test/trials"
)

// The core decides as a model does that remembers nothing of refusals, and asks for every job again and again.
func TestTheCoreDecidesAsTheModel(t *testing.T) {
	for seed := range trials.Seeds(300) {
		s := newScript(seed, faults{})
		if wrong := s.play(60); len(wrong) > 0 {
			t.Fatalf("seed %d: %s\n%s", seed, strings.Join(wrong, "\n"), strings.Join(s.log, "\n"))
		}
	}
}
