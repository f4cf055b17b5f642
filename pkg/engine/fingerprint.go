package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// requestIdentity has the fields that must be equal for two requests of a job to be the same
// request. The operation is left out: if there is room now, all operations that book
// book the same slots, and all operations that book nothing answer with the same slots.
type requestIdentity struct {
	Jobspec  *jobspec.Jobspec
	Keys     []string
	Near     []string
	Policy   string
	Holder   string
	Duration time.Duration
}

// fingerprintOf returns the fingerprint of a request. The request's policy must be set.
func fingerprintOf(r *match.Request) store.Fingerprint {
	return sha256.Sum256(appendValue(nil, reflect.ValueOf(requestIdentity{r.Jobspec, r.Keys, r.Near, r.Policy, r.Holder, r.Duration})))
}

// appendValue encodes plain data so that different data have different encodings: the length
// precedes everything without a fixed length.
func appendValue(b []byte, v reflect.Value) []byte {
	switch kind := v.Kind(); {
	case v.CanInt():
		return binary.AppendVarint(b, v.Int())
	case v.CanUint():
		return binary.AppendUvarint(b, v.Uint())
	case kind == reflect.Bool && v.Bool():
		return append(b, 1)
	case kind == reflect.Bool:
		return append(b, 0)
	case kind == reflect.String:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		return append(b, v.String()...)
	case kind == reflect.Pointer && v.IsNil():
		return append(b, 0)
	case kind == reflect.Pointer:
		return appendValue(append(b, 1), v.Elem())
	case kind == reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
		return b
	case kind == reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
		b = binary.AppendUvarint(b, uint64(len(keys)))
		for _, k := range keys {
			b = appendValue(appendValue(b, k), v.MapIndex(k))
		}
		return b
	case kind == reflect.Struct:
		for i := range v.NumField() { //nolint:modernize // Value.Fields makes garbage of every field
			b = appendValue(b, v.Field(i))
		}
		return b
	default:
		panic(fmt.Sprintf("engine: cannot fingerprint a value of kind %s in a request", kind))
	}
}
