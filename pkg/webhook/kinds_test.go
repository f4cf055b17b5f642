package webhook

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flux-k8s/fluence/pkg/group"
)

func TestEachKindThatIsWatchedIsRead(t *testing.T) {
	for _, k := range group.FollowedKinds() {
		if specOf(k.New()) == nil {
			t.Errorf("specOf in owners.go does not read a %s.%s", k.Kind, k.Group)
		}
		if _, labelled := shapes[schema.GroupKind{Group: k.Group, Kind: k.Kind}]; !labelled {
			t.Errorf("shapes in creation.go has no template of a %s.%s", k.Kind, k.Group)
		}
	}
}
