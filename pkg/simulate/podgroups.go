package simulate

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// addPodGroup adds a PodGroup. If the PodGroup exists, the file replaces its
// labels, annotations and spec. UID, creation time, owners and status are kept.
func (w *Additions) addPodGroup(u *unstructured.Unstructured) error {
	pg := scheduling.PodGroup{}
	if err := w.read(u, &pg); err != nil && !errors.Is(err, errExists) {
		return err
	}
	if pg.Spec.MinMember < 1 {
		return fmt.Errorf("spec.minMember: %d: must be 1 or more", pg.Spec.MinMember)
	}
	for _, o := range w.existing.PodGroups {
		if o.Namespace == pg.Namespace && o.Name == pg.Name {
			pg.UID, pg.CreationTimestamp, pg.OwnerReferences, pg.Status = o.UID, o.CreationTimestamp, o.OwnerReferences, o.Status
		}
	}
	w.PodGroups = append(w.PodGroups, pg)
	return nil
}

// addPodGroups adds the PodGroups that the controller would create, for groups that have none.
func (w *Additions) addPodGroups() error {
	have := map[types.NamespacedName]bool{}
	for _, pg := range slices.Concat(w.existing.PodGroups, w.PodGroups) {
		have[types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}] = true
	}
	members := map[types.NamespacedName][]*corev1.Pod{}
	var keys []types.NamespacedName
	for _, pod := range w.pods {
		id := group.IdentityOf(pod, w.owners)
		if _, native := group.NativeName(id.Key); native || !id.InPodGroup || have[id.Key] {
			continue
		}
		if members[id.Key] == nil {
			keys = append(keys, id.Key)
		}
		members[id.Key] = append(members[id.Key], pod)
	}
	for _, key := range keys {
		if err := podgroup.CheckName(key.Name); err != nil {
			return err
		}
		size, err := w.sizeOf(members[key])
		if err != nil {
			return fmt.Errorf("group %s: %w", key, err)
		}
		if size == (group.Size{}) {
			// Nothing gives a size. The scheduler will report that there is no PodGroup.
			continue
		}
		pg := scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		w.setMetadata(&pg)
		pg.Spec.MinMember = size.Min
		w.PodGroups = append(w.PodGroups, pg)
	}
	return nil
}

// sizeOf returns the size of a group: the size in its labels
// or else the sum of what the owners of its pods give.
func (w *Additions) sizeOf(pods []*corev1.Pod) (group.Size, error) {
	said, err := group.SizeOfPods(pods)
	if err != nil {
		return group.Size{}, err
	}
	tops := map[types.UID]group.Size{}
	for _, pod := range pods {
		if top := group.IdentityOf(pod, w.owners).Owner; top != (group.Owner{}) {
			tops[top.UID] = w.sizes[top.UID]
		}
	}
	var owned group.Size
	for _, uid := range slices.Sorted(maps.Keys(tops)) {
		owned.Size += tops[uid].Size
		owned.Min += tops[uid].Min
	}
	if said != (group.Size{}) {
		return said.WithDefault(owned.Size), nil
	}
	if len(tops) > 1 {
		w.note("group %s: %d objects create its pods, and no label gives its size: it may start before all of them exist; set the label %s on the pods", pods[0].Labels[group.Label], len(tops), group.SizeLabel)
	}
	return owned, nil
}
