package interpod

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// Claims tells which volume claims are alike to the filters. Each pod of a
// StatefulSet has its claims, and all pods of the set should still be of one shape.
type Claims struct {
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	// podsByClaim counts the pods of the group that have a claim.
	podsByClaim map[string]int
}

// ClaimsOf returns the Claims for the pods of one group.
func ClaimsOf(factory informers.SharedInformerFactory, pods []*corev1.Pod) *Claims {
	c := &Claims{
		claims: factory.Core().V1().PersistentVolumeClaims().Lister(), volumes: factory.Core().V1().PersistentVolumes().Lister(),
		classes: factory.Storage().V1().StorageClasses().Lister(), podsByClaim: map[string]int{},
	}
	for _, pod := range pods {
		for i := range pod.Spec.Volumes {
			if name := claimOf(pod, &pod.Spec.Volumes[i]); name != "" {
				c.podsByClaim[name]++
			}
		}
	}
	return c
}

// claimOf returns the name of the claim of a pod's volume. It is empty if the volume has none.
func claimOf(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, v)
	}
	return ""
}

// volumeKey returns what filters look at in a volume, as a text. The text of a claim is
// its name if several pods have the claim, if only one pod may have it (ReadWriteOncePod),
// or if nothing is known of it. Otherwise the text is what decides on the nodes: the
// properties of the volume that the claim is bound to, or the spec of the claim.
func (c *Claims) volumeKey(pod *corev1.Pod, v *corev1.Volume) string {
	name := claimOf(pod, v)
	if name == "" {
		return jsonOf(v)
	}
	if c == nil || c.podsByClaim[name] > 1 {
		return "claim " + name
	}
	claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
	if err != nil || claim.DeletionTimestamp != nil || claim.Status.Phase == corev1.ClaimLost ||
		v.Ephemeral != nil && !metav1.IsControlledBy(claim, pod) || slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return "claim " + name
	}
	if claim.Spec.VolumeName == "" {
		return "unbound " + jsonOf(claim.Spec) + claim.Annotations[volume.AnnSelectedNode] + c.mode(claim)
	}
	bound, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil || bound.Spec.CSI == nil && bound.Spec.Local == nil {
		return "claim " + name
	}
	driver := ""
	if bound.Spec.CSI != nil {
		driver = bound.Spec.CSI.Driver
	}
	_, completed := claim.Annotations[volume.AnnBindCompleted]
	return fmt.Sprintf("bound %t %s %s %s", completed, driver, jsonOf(bound.Spec.NodeAffinity), jsonOf([]string{
		bound.Labels[corev1.LabelTopologyZone], bound.Labels[corev1.LabelTopologyRegion],
		bound.Labels[corev1.LabelFailureDomainBetaZone], bound.Labels[corev1.LabelFailureDomainBetaRegion],
	}))
}

// mode returns a text about when an unbound claim is bound. It is empty if the claim
// does not wait for its first consumer.
func (c *Claims) mode(claim *corev1.PersistentVolumeClaim) string {
	class, err := c.classes.Get(volume.GetPersistentVolumeClaimClass(claim))
	if err != nil || class.VolumeBindingMode == nil {
		return ""
	}
	if *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
		return " waits"
	}
	return ""
}

// jsonOf returns v as JSON.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		// Plain data of the API always has a JSON form.
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(text)
}
