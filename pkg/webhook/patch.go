package webhook

import (
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/validation"
)

// An edit has the values to add to a map of strings at a path of an object.
type edit struct {
	path   []string
	values map[string]string
}

// take adds the labels with these keys whose values are valid. An invalid label is
// left where the user wrote it, so that the API server's error names this place.
func (e edit) take(labels map[string]string, keys []string) {
	for _, key := range keys {
		if value, ok := labels[key]; ok && len(validation.IsValidLabelValue(value)) == 0 {
			e.values[key] = value
		}
	}
}

// patch returns the edits of an object as a JSON patch (RFC 6902). It changes the object,
// too. All other fields stay as they are, also fields that this program does not know.
func patch(fields map[string]any, edits []edit) []jsonpatch.JsonPatchOperation {
	var ops []jsonpatch.JsonPatchOperation
	for _, e := range edits {
		at, pointer := fields, ""
		for _, field := range e.path {
			if len(e.values) == 0 {
				break
			}
			pointer += "/" + escape(field)
			next, ok := at[field].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[field] = next
				ops = append(ops, jsonpatch.NewOperation("add", pointer, map[string]any{}))
			}
			at = next
		}
		for _, key := range slices.Sorted(maps.Keys(e.values)) {
			if at[key] == e.values[key] {
				continue
			}
			at[key] = e.values[key]
			ops = append(ops, jsonpatch.NewOperation("add", pointer+"/"+escape(key), e.values[key]))
		}
	}
	return ops
}

// escape writes a key as part of a JSON pointer (RFC 6901, section 3).
func escape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// mergeLabels returns the labels together with added. added counts if both have a key.
func mergeLabels(labels, added map[string]string) map[string]string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, added)
	return all
}
