package group

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// The labels, on a pod or on the pod template of what makes it, that say how
// large its group is. Values are whole numbers from 1 to MaxSize, and min is at
// most size.
const (
	// SizeLabel is how many pods the group wants to start with.
	SizeLabel = "fluence.group-size"
	// MinLabel is how many it can start with. It defaults to the size.
	MinLabel = "fluence.group-min"
)

// MaxSize is the largest number of pods that the labels of a group may ask for.
const MaxSize = 100_000

// A Size is how many pods a group wants to start with, and how many it can
// start with. A field is 0 where nothing was said.
type Size struct{ Size, Min int32 }

// SizeOf reads the labels of one pod. Without labels it returns the zero Size;
// with SizeLabel alone Min is the same. An error names the label and its value in
// words fit for a user.
func SizeOf(labels map[string]string) (Size, error) {
	size, err := count(labels, SizeLabel)
	if err != nil {
		return Size{}, err
	}
	least, err := count(labels, MinLabel)
	switch {
	case err != nil:
		return Size{}, err
	case size > 0 && least == 0:
		least = size
	case size > 0 && least > size:
		return Size{}, fmt.Errorf("label %s: %q: must not exceed %s, which is %d", MinLabel, labels[MinLabel], SizeLabel, size)
	}
	return Size{Size: size, Min: least}, nil
}

// count reads the label of this key; absent it is 0.
func count(labels map[string]string, key string) (int32, error) {
	value, ok := labels[key]
	if !ok {
		return 0, nil
	}

	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n < 1 || n > MaxSize {
		return 0, fmt.Errorf("label %s: %q: must be a whole number from 1 to %d", key, value, MaxSize)
	}
	return int32(n), nil
}

// SizeOfPods reads the labels of a group's pods, in any order. Pods without
// labels say nothing. Where pods disagree the largest values count, so that a
// group never starts with fewer pods than one of them asks for.
func SizeOfPods(pods []*corev1.Pod) (Size, error) {
	var all Size
	for _, pod := range pods {
		s, err := SizeOf(pod.Labels)
		if err != nil {
			return Size{}, err
		}
		all = Size{Size: max(all.Size, s.Size), Min: max(all.Min, s.Min)}
	}
	return all, nil
}

// WithDefault fills in what the labels left open: size is that many, or Min if
// that is more, and Min is the size.
func (s Size) WithDefault(size int32) Size {
	if s.Size == 0 {
		s.Size = max(1, size, s.Min)
	}
	if s.Min == 0 {
		s.Min = s.Size
	}
	return s
}
