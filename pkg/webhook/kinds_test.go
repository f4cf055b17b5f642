package webhook

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flux-k8s/fluence/pkg/group"
)

func TestEachKindThatIsWatchedIsRead(t *testing.T) {
	for _, k := range group.WatchedKinds() {
		obj := k.New()
		obj.SetUID("1")
		s := newOwnerReader(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(obj).Build(), nil, nil, "fluence", 0)
		if known, ok := s.fromCache(t.Context(), "", group.Owner{Group: k.Group, Kind: k.Kind, UID: "1"}); !ok || known.Size.Size == 0 {
			t.Errorf("a %s.%s that is watched is seen: %t, with the size %v", k.Kind, k.Group, ok, known.Size)
		}
		if _, labelled := kindLayouts[schema.GroupKind{Group: k.Group, Kind: k.Kind}]; !labelled {
			t.Errorf("shapes in new_object.go has no template of a %s.%s", k.Kind, k.Group)
		}
	}
}
