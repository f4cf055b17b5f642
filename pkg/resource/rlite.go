package resource

import (
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/idset"
)

// R_lite has vertices of these types (RFC 20, "Execution").
const (
	typeCore = "core"
	typeGPU  = "gpu"
)

// appendRLite writes the cores and gpus by rank. Ranks that hold the same ids are written together.
func appendRLite(b []byte, shares []Share) []byte {
	cores, gpus := map[int64][]int64(nil), map[int64][]int64(nil)
	for i := range shares {
		v := &shares[i]
		if v.Rank < 0 || v.ID < 0 || v.Unit != "" {
			continue
		}
		switch v.Type {
		case typeCore:
			cores = collect(cores, v.Rank, v.ID)
		case typeGPU:
			gpus = collect(gpus, v.Rank, v.ID)
		}
	}
	var all []holding
	for rank := range cores {
		all = append(all, holding{rank, nil, children(cores[rank], gpus[rank])})
	}
	for rank := range gpus {
		if _, done := cores[rank]; !done {
			all = append(all, holding{rank, nil, children(nil, gpus[rank])})
		}
	}
	return appendHoldings(b, all)
}

// A holding is the part of R_lite for one rank: the node
// if it is known, and the ids that are held, as JSON.
type holding struct {
	rank     int64
	node     *Share
	children string
}

// appendHoldings writes R_lite. Ranks that hold the same ids are written together.
func appendHoldings(b []byte, holdings []holding) []byte {
	ranks := map[string][]int64(nil)
	for _, h := range holdings {
		ranks = collect(ranks, h.children, h.rank)
	}
	b = append(b, '[')
	for i, held := range slices.Sorted(maps.Keys(ranks)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendIDSet(append(b, `{"rank":`...), ranks[held])
		b = append(append(b, `,"children":`...), held...)
		b = append(b, '}')
	}
	return append(b, ']')
}

// collect appends id to the list of a key. It makes the map if m is nil.
func collect[K comparable](m map[K][]int64, key K, id int64) map[K][]int64 {
	if m == nil {
		m = map[K][]int64{}
	}
	m[key] = append(m[key], id)
	return m
}

// children returns the value of the key children of R_lite.
func children(cores, gpus []int64) string {
	b := []byte{'{'}
	if cores != nil {
		b = appendIDSet(append(b, `"core":`...), cores)
	}
	if gpus != nil {
		if cores != nil {
			b = append(b, ',')
		}
		b = appendIDSet(append(b, `"gpu":`...), gpus)
	}
	return string(append(b, '}'))
}

// appendIDSet writes a set of ids (RFC 22) as a JSON string.
func appendIDSet(b []byte, ids []int64) []byte {
	return append(idset.Of(ids...).Append(append(b, '"')), '"')
}
