package cli

import (
	"slices"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/flux-k8s/fluence/pkg/group"
)

func TestEachKindThatIsWatchedIsRead(t *testing.T) {
	r := &reader{client: fake.NewClientset()}
	var read []string
	for _, k := range r.kinds() {
		read = append(read, k.name)
	}
	for _, k := range group.WatchedKinds() {
		if !slices.Contains(read, k.Resource) {
			t.Errorf("watched in read.go does not list %s", k.Resource)
		}
	}
}
