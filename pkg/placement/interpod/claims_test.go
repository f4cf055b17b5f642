package interpod

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/test/objects"
)

// Each pod of a StatefulSet has a claim. The pods are of one shape if the claims are
// alike to the filters.
func TestPodsWithClaimsOfTheirOwnAreAlike(t *testing.T) {
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	asking := func(size string, modes ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse(size)}
			c.Spec.AccessModes = append(c.Spec.AccessModes, modes...)
		}
	}
	boundTo := func(volume string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
	}
	on := func(node string) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
	}
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}
	volumes := []*corev1.PersistentVolume{
		{ObjectMeta: metav1.ObjectMeta{Name: "anywhere-0"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: csi}},
		{ObjectMeta: metav1.ObjectMeta{Name: "anywhere-1"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: csi}},
		{ObjectMeta: metav1.ObjectMeta{Name: "there-0"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: csi, NodeAffinity: on("n0")}},
		{ObjectMeta: metav1.ObjectMeta{Name: "there-1"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: csi, NodeAffinity: on("n1")}},
		{ObjectMeta: metav1.ObjectMeta{Name: "zone-0", Labels: map[string]string{corev1.LabelTopologyZone: "a"}}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: csi}},
		{ObjectMeta: metav1.ObjectMeta{Name: "zone-1", Labels: map[string]string{corev1.LabelTopologyZone: "b"}}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: csi}},
	}
	cases := map[string]struct {
		claims [2]func(*corev1.PersistentVolumeClaim)
		// names are the claims of the two pods. The default is c-0 and c-1.
		names [2]string
		want  int
	}{
		"both wait to be bound":          {claims: [2]func(*corev1.PersistentVolumeClaim){asking("1Gi"), asking("1Gi")}, want: 1},
		"of two sizes":                   {claims: [2]func(*corev1.PersistentVolumeClaim){asking("1Gi"), asking("2Gi")}, want: 2},
		"one pod alone may have each":    {claims: [2]func(*corev1.PersistentVolumeClaim){asking("1Gi", corev1.ReadWriteOncePod), asking("1Gi", corev1.ReadWriteOncePod)}, want: 2},
		"one is bound":                   {claims: [2]func(*corev1.PersistentVolumeClaim){asking("1Gi"), boundTo("anywhere-0")}, want: 2},
		"both are bound":                 {claims: [2]func(*corev1.PersistentVolumeClaim){boundTo("anywhere-0"), boundTo("anywhere-1")}, want: 1},
		"bound to what is on two nodes":  {claims: [2]func(*corev1.PersistentVolumeClaim){boundTo("there-0"), boundTo("there-1")}, want: 2},
		"bound to what is in two zones":  {claims: [2]func(*corev1.PersistentVolumeClaim){boundTo("zone-0"), boundTo("zone-1")}, want: 2},
		"bound to a volume that is gone": {claims: [2]func(*corev1.PersistentVolumeClaim){boundTo("gone-0"), boundTo("gone-1")}, want: 2},
		"there are none":                 {want: 2},
		"they share one":                 {claims: [2]func(*corev1.PersistentVolumeClaim){asking("1Gi"), nil}, names: [2]string{"c-0", "c-0"}, want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			known := informers.NewSharedInformerFactory(nil, 0)
			add := func(to cache.SharedIndexInformer, obj any) {
				if err := to.GetIndexer().Add(obj); err != nil {
					t.Fatal(err)
				}
			}
			add(known.Storage().V1().StorageClasses().Informer(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, VolumeBindingMode: &waits})
			for _, v := range volumes {
				add(known.Core().V1().PersistentVolumes().Informer(), v)
			}
			var all []*corev1.Pod
			for i, edit := range tc.claims {
				claim := fmt.Sprintf("c-%d", i)
				if edit != nil {
					c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: objects.Namespace, Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("late")}}
					edit(c)
					add(known.Core().V1().PersistentVolumeClaims().Informer(), c)
				}
				if tc.names[i] != "" {
					claim = tc.names[i]
				}
				all = append(all, objects.Pod(fmt.Sprint(i), func(p *corev1.Pod) {
					p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
				}))
			}
			if got := kindsOf(all, NewSigner(all, nil, &AntiAffinities{}, ClaimsOf(known, all), neverOverBudget)); got != tc.want {
				t.Errorf("%d shapes, want %d", got, tc.want)
			}
		})
	}
}
