package podgroup

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/group"
)

func TestEachKindThatIsWatchedIsRead(t *testing.T) {
	for _, k := range group.WatchedKinds() {
		p, ok := asPodOwner(k.New())
		if !ok {
			t.Errorf("partOf in pod_owner.go does not read a %s.%s", k.Kind, k.Group)
			continue
		}
		if o := group.OwnerOf(p.ref); o.Group != k.Group || o.Kind != k.Kind {
			t.Errorf("a %s.%s is referred to as %+v", k.Kind, k.Group, p.ref)
		}
		if p.template == nil || p.sizing == nil {
			t.Errorf("of a %s.%s partOf has the template: %t, and the size: %t", k.Kind, k.Group, p.template != nil, p.sizing != nil)
		}
	}
}
