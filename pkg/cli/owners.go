package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// noteHidden adds a note if kinds of owners cannot be read, and pods need them to be found.
func (r *reader) noteHidden(hidden []string, pods []*corev1.Pod) {
	unlabelled := func(pod *corev1.Pod) bool {
		return metav1.GetControllerOfNoCopy(pod) != nil && pod.Labels[group.Label] == ""
	}
	if len(hidden) > 0 && slices.ContainsFunc(pods, unlabelled) {
		r.notes = append(r.notes, fmt.Sprintf("you may not list %s: pods that they control are found only if they have the label %s", strings.Join(hidden, ", "), group.Label))
	}
}

// readVisibleOwners reads the owners of pods that the user may read. hidden are the kinds of the others.
func (r *reader) readVisibleOwners(ctx context.Context) (objects []runtime.Object, hidden []string, err error) {
	for _, k := range r.watched(r.namespace) {
		some, err := listAll(ctx, k.name, k.list)
		switch {
		case apierrors.IsForbidden(err):
			hidden = append(hidden, k.name)
		case err != nil:
			return nil, nil, err
		}
		objects = append(objects, some...)
	}
	return objects, hidden, nil
}

// membersOf returns the pods of each group, except pods that are scheduled alone.
func membersOf(pods []*corev1.Pod, above group.Owners) map[types.NamespacedName][]*corev1.Pod {
	members := map[types.NamespacedName][]*corev1.Pod{}
	for _, pod := range pods {
		if id := group.IdentityOf(pod, above); id.InPodGroup {
			members[id.Key] = append(members[id.Key], pod)
		}
	}
	return members
}
