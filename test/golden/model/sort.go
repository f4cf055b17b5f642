package model

import "math/bits"

// sortLike sorts as std::sort of libstdc++ does. That is not stable for
// more than 16 elements, so the order of equal elements is the algorithm's.
func sortLike[T any](s []T, less func(a, b T) bool) {
	if len(s) == 0 {
		return
	}
	introsort(s, 2*(bits.Len(uint(len(s)))-1), less)
	const threshold = 16
	for i := 1; i < len(s); i++ {
		v := s[i]
		if i < threshold && less(v, s[0]) {
			copy(s[1:i+1], s[:i])
			s[0] = v
			continue
		}
		j := i
		for ; j > 0 && less(v, s[j-1]); j-- {
			s[j] = s[j-1]
		}
		s[j] = v
	}
}

func introsort[T any](s []T, depth int, less func(a, b T) bool) {
	for len(s) > 16 {
		if depth == 0 {
			heapsort(s, less)
			return
		}
		depth--
		cut := partition(s, less)
		introsort(s[cut:], depth, less)
		s = s[:cut]
	}
}

func partition[T any](s []T, less func(a, b T) bool) int {
	a, b, c := 1, len(s)/2, len(s)-1
	median := b
	switch {
	case less(s[a], s[b]):
		if !less(s[b], s[c]) {
			if median = a; less(s[a], s[c]) {
				median = c
			}
		}
	case less(s[a], s[c]):
		median = a
	case less(s[b], s[c]):
		median = c
	}
	s[0], s[median] = s[median], s[0]
	first, last := 1, len(s)
	for {
		for less(s[first], s[0]) {
			first++
		}
		last--
		for less(s[0], s[last]) {
			last--
		}
		if first >= last {
			return first
		}
		s[first], s[last] = s[last], s[first]
		first++
	}
}

// heapsort is std::partial_sort over the whole range.
func heapsort[T any](s []T, less func(a, b T) bool) {
	for top := (len(s) - 2) / 2; top >= 0; top-- {
		sift(s, top, s[top], less)
	}
	for n := len(s) - 1; n > 0; n-- {
		v := s[n]
		s[n] = s[0]
		sift(s[:n], 0, v, less)
	}
}

// sift inserts v into a heap with a hole. It moves the hole down to a leaf, and v up from there.
func sift[T any](s []T, hole int, v T, less func(a, b T) bool) {
	top, child := hole, hole
	for child < (len(s)-1)/2 {
		child = 2 * (child + 1)
		if less(s[child], s[child-1]) {
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
	for hole > top && less(s[(hole-1)/2], v) {
		s[hole] = s[(hole-1)/2]
		hole = (hole - 1) / 2
	}
	s[hole] = v
}
