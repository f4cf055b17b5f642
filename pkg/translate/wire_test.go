package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// An engine behind a connection gets nodes as JGF and holds as R.
func TestWhatIsTranslatedSurvivesItsTextForms(t *testing.T) {
	labels := map[string]string{"example.com/rack": "r7"}
	part := Node(nodeWith(labels, "cpu", "3920m", "memory", "8Gi", "pods", "110", "nvidia.com/gpu", "0"), zoneAndRack)
	text, err := part.JGF()
	if err != nil {
		t.Fatal(err)
	}
	read, err := resource.ReadJGF(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(part, read); diff != "" {
		t.Errorf("node (-before +after):\n%s", diff)
	}

	held := HeldSlot(podWith(app("cpu", "250m", "memory", "1Gi", "nvidia.com/gpu", "2"), bound)).R
	if text, err = held.Encode(); err != nil {
		t.Fatal(err)
	}
	set, err := resource.ParseSet(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(held, set); diff != "" {
		t.Errorf("held (-before +after):\n%s", diff)
	}
}
