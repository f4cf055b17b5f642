package resource

import (
	"maps"
	"slices"
	"strconv"
)

// The types of vertices that R_lite knows (RFC 20, "Execution").
const (
	typeCore = "core"
	typeGPU  = "gpu"
)

// appendRLite writes the cores and gpus by rank, ranks that hold the same ids
// together.
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
	ranks := map[string][]int64(nil) // by what they hold
	for rank := range cores {
		ranks = collect(ranks, children(cores[rank], gpus[rank]), rank)
	}
	for rank := range gpus {
		if _, done := cores[rank]; !done {
			ranks = collect(ranks, children(nil, gpus[rank]), rank)
		}
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

func collect[K comparable](m map[K][]int64, key K, id int64) map[K][]int64 {
	if m == nil {
		m = map[K][]int64{}
	}
	m[key] = append(m[key], id)
	return m
}

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

// appendIDSet writes a set of ids (RFC 22), quoted. It sorts ids.
func appendIDSet(b []byte, ids []int64) []byte {
	slices.Sort(ids)
	b = append(b, '"')
	b = appendRanges(b, slices.Compact(ids), func(b []byte, id int64) []byte {
		return strconv.AppendInt(b, id, 10)
	})
	return append(b, '"')
}

// appendRanges writes ids, runs of consecutive ones as first-last.
func appendRanges(b []byte, ids []int64, write func([]byte, int64) []byte) []byte {
	for i := 0; i < len(ids); {
		last := i
		for last+1 < len(ids) && ids[last+1] == ids[last]+1 {
			last++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = write(b, ids[i])
		if last > i {
			b = write(append(b, '-'), ids[last])
		}
		i = last + 1
	}
	return b
}
