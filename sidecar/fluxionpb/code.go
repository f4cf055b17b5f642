package fluxionpb

import (
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

var ops = map[match.Op]Op{
	match.Allocate:                Op_OP_ALLOCATE,
	match.AllocateOrElseReserve:   Op_OP_ALLOCATE_OR_ELSE_RESERVE,
	match.Satisfiability:          Op_OP_SATISFIABILITY,
	match.WithoutAllocating:       Op_OP_WITHOUT_ALLOCATING,
	match.WithoutAllocatingFuture: Op_OP_WITHOUT_ALLOCATING_FUTURE,
}

var statuses = map[resource.Status]Status{
	resource.Up:   Status_STATUS_UP,
	resource.Down: Status_STATUS_DOWN,
}

// EncodeStatus returns the status as a message has
// it. It fails for a status that has no value there.
func EncodeStatus(s resource.Status) (Status, error) { return encodeCode("status", statuses, s) }

// DecodeStatus is the inverse of EncodeStatus.
func DecodeStatus(s Status) (resource.Status, error) { return decodeCode("status", statuses, s) }

func encodeCode[K, V ~int | ~int32](field string, table map[K]V, k K) (V, error) {
	v, ok := table[k]
	if !ok {
		return 0, fieldError(field, "%d is unknown", k)
	}
	return v, nil
}

func decodeCode[K, V ~int | ~int32](field string, table map[K]V, v V) (K, error) {
	for known, is := range table {
		if is == v {
			return known, nil
		}
	}
	return 0, fieldError(field, "%d is unknown", v)
}
