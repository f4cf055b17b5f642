package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

// racks is a cluster of two racks with two nodes each, a default class
// of volumes that are created when a pod comes, and one device on n3.
func racks() Cluster {
	var c Cluster
	for i := range 4 {
		n := objects.ReadyNode(fmt.Sprintf("n%d", i), 4)
		n.Labels["rack"] = fmt.Sprint(i / 2)
		c.Objects = append(c.Objects, n)
	}
	return Cluster{Objects: append(c.Objects,
		&storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "later", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: "example.com/disks", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		},
		&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "example.com", NodeName: new("n3"), Pool: resourcev1.ResourcePool{Name: "n3", ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "d"}},
		}},
	)}
}

// The pods and claims of a file get what the API server and the
// controllers would set, before the scheduler's filters see them.
func TestWhatIsSimulatedIsCompleted(t *testing.T) {
	with := func(spec string) string {
		return strings.Replace(fmt.Sprintf(job, "j"), "schedulerName: fluence", "schedulerName: fluence, "+spec, 1)
	}
	const claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
	const devices = `
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: all}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: all}`
	apart := func(n int) string {
		term := "{topologyKey: rack, labelSelector: {matchLabels: {app: a}}, %s: [job-name]}"
		text := with("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [" + fmt.Sprintf(term, "matchLabelKeys") +
			"]}, podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [" + fmt.Sprintf(term, "mismatchLabelKeys") + "]}}")
		return strings.Replace(text, "spec:\n", fmt.Sprintf("spec:\n  parallelism: %d\n", n), 1)
	}
	cases := map[string]struct{ text, want string }{
		"a claim without a class":            {with("volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]") + "\n---\n" + claim, "starts j#0@n0"},
		"a claim of a class of the file":     {with("volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]") + "\n---\n" + strings.Replace(claim, "spec: {", "spec: {storageClassName: now, ", 1) + "\n---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: now}\nprovisioner: example.com/disks", "waits without j#0: NodesRuledOut: pod j#0: pod has unbound immediate"},
		"an ephemeral volume":                {with("volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]"), "starts j#0@n0"},
		"a device by a template":             {with("resourceClaims: [{name: d, resourceClaimTemplateName: one}]") + devices, "starts j#0@n3"},
		"pods with those of their own job":   {apart(2), "starts j#0@n0 j#1@n0"},
		"pods that spread and are too large": {strings.Replace(strings.Replace(with("topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: a}}}]"), `cpu: "2"`, `cpu: "9"`, 1), "spec:\n", "spec:\n  parallelism: 4\n", 1), "waits without j#0,j#1,j#2,j#3: NeverFits: no node is large enough"},
		"pods without those of another job":  {apart(4), "starts j#0@n0 j#1@n0 j#2@n1 j#3@n1"},
	}
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := racks()
			w, err := Make(parsed(t, tc.text), c, "fluence", time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			r, err := New(t.Context(), c.With(w.Cluster), shipped)
			if err != nil {
				t.Fatal(err)
			}
			d, err := r.Decide(t.Context(), r.Groups()[0])
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(d.line(), tc.want) {
				t.Errorf("%s\nwant  %s", d.line(), tc.want)
			}
			if len(w.Notes) > 0 {
				t.Errorf("notes %q, want none", w.Notes)
			}
		})
	}
}
