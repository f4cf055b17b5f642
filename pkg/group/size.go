package group

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// The size labels of a group. They are set on pods, or on the pod template of an
// owner. Values are whole numbers from 1 to MaxSize, and min is at most size.
const (
	// SizeLabel is how many pods the group is to start with.
	SizeLabel = "fluence.group-size"
	// MinLabel is the smallest number of pods that the
	// group can start with. It defaults to the size.
	MinLabel = "fluence.group-min"
)

// ArrayAnnotation makes each pod of a group start by itself if it is "true": the minimum is 1, as with MinLabel,
// and late members are not placed near the others. It is set on pods, or on the pod template of an owner.
const ArrayAnnotation = "fluence.flux-framework.org/array"

// IsArray reports whether the annotations of a pod make each pod of its group start by itself.
func IsArray(annotations map[string]string) bool { return annotations[ArrayAnnotation] == "true" }

// MaxSize is the largest number of pods that a group may ask for.
const MaxSize = 100_000

// A Size is how many pods a group is to start with, and the smallest
// number that it can start with. 0 means that nothing is given.
type Size struct{ Size, Min int32 }

// SizeOf reads the size labels of one pod. It returns the zero Size if there are none.
// Min defaults to Size. An error names the label and its value in words fit for a user.
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

// UserSizeOf reads what a user wrote on one pod about its group's size: the size labels, without those that were
// filled in, and ArrayAnnotation, which may not be with such labels. It returns the zero Size if there is nothing.
// An error names the keys and their values in words fit for a user.
func UserSizeOf(labels, annotations map[string]string) (Size, error) {
	labels = WithoutDefaults(labels, annotations)
	switch value := annotations[ArrayAnnotation]; value {
	case "", "false":
		return SizeOf(labels)
	case "true":
		for _, key := range []string{MinLabel, SizeLabel} {
			if said, has := labels[key]; has {
				return Size{}, fmt.Errorf("annotation %s: %q and label %s: %q: set only one of them", ArrayAnnotation, value, key, said)
			}
		}
		return Size{Min: 1}, nil
	default:
		return Size{}, fmt.Errorf(`annotation %s: %q: must be "true" or "false"`, ArrayAnnotation, value)
	}
}

// SizeAlone is UserSizeOf for a pod that no owner and no label puts into a group with others. Its minimum may not
// be above 1.
func SizeAlone(labels, annotations map[string]string) (Size, error) {
	size, err := UserSizeOf(labels, annotations)
	if err != nil || size.Min <= 1 {
		return size, err
	}
	key := MinLabel
	if size.Size > 0 {
		key = SizeLabel
	}
	return Size{}, fmt.Errorf("label %s: %q: a pod without an owner is a group of one; to group it with others, set the label %s on all of them", key, labels[key], Label)
}

// count reads the size label of a key. It returns 0 if there is none.
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

// SizeOfPods reads what users wrote on a group's pods about its size, in any order. It returns the largest
// of each value, so that a group never starts with fewer pods than one of its pods asks for.
func SizeOfPods(pods []*corev1.Pod) (Size, error) {
	var all Size
	for _, pod := range pods {
		s, err := UserSizeOf(pod.Labels, pod.Annotations)
		if err != nil {
			return Size{}, err
		}
		all = Size{Size: max(all.Size, s.Size), Min: max(all.Min, s.Min)}
	}
	return all, nil
}

// WithDefault fills in what the labels leave open. Size becomes
// the given size, or Min if that is more. Min becomes Size.
func (s Size) WithDefault(size int32) Size {
	if s.Size == 0 {
		s.Size = max(1, size, s.Min)
	}
	if s.Min == 0 {
		s.Min = s.Size
	}
	return s
}
