package simulate

import (
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/group"
)

func TestThePodsOfEachKindThatIsWatchedAreKnown(t *testing.T) {
	for _, k := range group.WatchedKinds() {
		if !slices.Contains(Kinds(), k.Kind) {
			t.Errorf("Make in additions.go knows no pods of a %s", k.Kind)
		}
	}
}
