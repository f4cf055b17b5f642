package traverser

import "math/bits"

// An item is sorted by its key, the smallest first.
type item struct {
	key int64
	at  int32
}

// fewItems is the length up to which std::sort only inserts.
const fewItems = 16

// sortItems sorts as std::sort of libstdc++ does (introsort). The sort is not stable,
// so every step must be the same: the order of items with equal keys depends on it.
func sortItems(s []item) {
	if sorted(s) {
		return
	}
	introsort(s, 2*(bits.Len(uint(len(s)))-1))
	if len(s) <= fewItems {
		insertionSort(s)
		return
	}
	insertionSort(s[:fewItems])
	for i := fewItems; i < len(s); i++ {
		insertUnguarded(s, i)
	}
}

// sorted reports whether the keys rise strictly. No sort changes such items.
func sorted(s []item) bool {
	for i := 1; i < len(s); i++ {
		if s[i-1].key >= s[i].key {
			return false
		}
	}
	return true
}

func introsort(s []item, depth int) {
	for len(s) > fewItems {
		if depth == 0 {
			heapSort(s)
			return
		}
		depth--
		cut := partitionPivot(s)
		introsort(s[cut:], depth)
		s = s[:cut]
	}
}

// partitionPivot moves the median of the second, the middle and the last item to the front,
// and partitions the rest by it. It returns the index at which the right part begins.
func partitionPivot(s []item) int {
	moveMedianToFirst(s, 1, len(s)/2, len(s)-1)
	pivot := s[0].key
	first, last := 1, len(s)
	for {
		for s[first].key < pivot {
			first++
		}
		last--
		for pivot < s[last].key {
			last--
		}
		if first >= last {
			return first
		}
		s[first], s[last] = s[last], s[first]
		first++
	}
}

func moveMedianToFirst(s []item, a, b, c int) {
	m := a
	switch x, y, z := s[a].key, s[b].key, s[c].key; {
	case x < y && y < z:
		m = b
	case x < y && x < z:
		m = c
	case x < y:
	case x < z:
	case y < z:
		m = c
	default:
		m = b
	}
	s[0], s[m] = s[m], s[0]
}

func insertionSort(s []item) {
	for i := 1; i < len(s); i++ {
		if s[i].key < s[0].key {
			v := s[i]
			copy(s[1:i+1], s[:i])
			s[0] = v
			continue
		}
		insertUnguarded(s, i)
	}
}

// insertUnguarded moves s[i] down to its place. The place must not be before s[0].
func insertUnguarded(s []item, i int) {
	v := s[i]
	for ; v.key < s[i-1].key; i-- {
		s[i] = s[i-1]
	}
	s[i] = v
}

func heapSort(s []item) {
	for parent := (len(s) - 2) / 2; parent >= 0; parent-- {
		adjustHeap(s, parent, s[parent])
	}
	for last := len(s) - 1; last > 0; last-- {
		v := s[last]
		s[last] = s[0]
		adjustHeap(s[:last], 0, v)
	}
}

// adjustHeap moves the hole down to the bottom, each time to
// the larger child. Then it moves v up from there to its place.
func adjustHeap(s []item, hole int, v item) {
	top, child := hole, hole
	for child < (len(s)-1)/2 {
		child = 2 * (child + 1)
		if s[child].key < s[child-1].key {
			child--
		}
		s[hole] = s[child]
		hole = child
	}
	if len(s)%2 == 0 && child == (len(s)-2)/2 {
		child = 2*child + 1
		s[hole] = s[child]
		hole = child
	}
	for parent := (hole - 1) / 2; hole > top && s[parent].key < v.key; parent = (hole - 1) / 2 {
		s[hole] = s[parent]
		hole = parent
	}
	s[hole] = v
}
