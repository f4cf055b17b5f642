package webhook

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flux-k8s/fluence/pkg/group"
)

// FuzzWebhook gives the webhook arbitrary objects with arbitrary owners.
// What the webhook adds is always valid, and what the user wrote stays.
func FuzzWebhook(f *testing.F) {
	kinds := []schema.GroupKind{{Group: "example.com", Kind: "Thing"}}
	for kind := range kindLayouts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	f.Add(uint8(0), "w", "train", "8", "4", "8/4", "mine", "batch/v1", "Job", "train", "uid", `{"parallelism":3,"template":{"spec":{"schedulerName":"fluence"}}}`)
	f.Add(uint8(3), "", "", "x", "", "", "", "apps/v1", "ReplicaSet", strings.Repeat("a.", 100), "uid", `{"schedulerName":"fluence"}`)
	f.Add(uint8(5), "w", "a~/b", "4", "8", "4/8", "-", "v1", "Pod", "p", "", `{"jobTemplate":{"spec":{"template":{"spec":{"schedulerName":"fluence"}}}}}`)
	f.Add(uint8(6), "w", "", "", "", "9/9", "", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "x", "u", `{"schedulerName":"fluence","template":7}`)
	f.Fuzz(func(t *testing.T, kind uint8, name, label1, size, least, note, named, ownerAPI, ownerKind, ownerName, ownerUID, spec string) {
		labels := map[string]string{label1: "x"}
		for key, value := range map[string]string{group.SizeLabel: size, group.MinLabel: least, group.Label: named} {
			if value != "" {
				labels[key] = value
			}
		}
		fields := map[string]any{
			"metadata": metav1.ObjectMeta{
				Name: name, Namespace: "ns", Labels: labels, Annotations: map[string]string{group.DefaultedAnnotation: note},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: ownerAPI, Kind: ownerKind, Name: ownerName, UID: types.UID(ownerUID), Controller: new(true)}},
			},
			"spec": json.RawMessage(spec),
		}
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Skip("the spec is no JSON")
		}
		c, err := readNewObject(kinds[int(kind)%len(kinds)], "ns", raw)
		if err != nil {
			return
		}
		// Every object that is looked up has the pod's controller and the object's spec.
		find := func(_ string, o group.Owner) (OwnerInfo, bool) {
			above := group.OwnerOf(metav1.OwnerReference{APIVersion: ownerAPI, Kind: named, Name: name, UID: types.UID(size)})
			return ownerInfoOf(o, above, []byte(spec), "fluence"), len(ownerName)%2 == 0
		}
		ops := patch(c.fields, labeller{newObject: c, find: find}.edits("fluence"))
		added := leaves(t, raw, ops)
		said := group.WithoutDefaults(labels, map[string]string{group.DefaultedAnnotation: note})
		for path, value := range added {
			key := path[strings.LastIndex(path, " ")+1:]
			if !slices.Contains([]string{group.Label, group.SizeLabel, group.MinLabel, group.DefaultedAnnotation}, key) {
				t.Errorf("added %s", path)
			}
			if key == group.DefaultedAnnotation {
				continue
			}
			if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
				t.Errorf("%s: %q: %v", path, value, wrong)
			}
			if path == "metadata labels "+key && said[key] != "" {
				t.Errorf("%s: %q was the user's and became %q", path, said[key], value)
			}
		}
	})
}
