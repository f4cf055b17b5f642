package translate

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/objects"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

type podOption func(*corev1.Pod)

// podWith builds a pod that has, unlike objects.Pod, only the containers of its options.
func podWith(options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "uid-a"}}
	for _, o := range options {
		o(pod)
	}
	return pod
}

func container(name string, requests ...string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: objects.Amounts(requests...)}}
}

func app(requests ...string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, container("main", requests...))
	}
}

func initial(requests ...string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, container("init", requests...))
	}
}

func sidecar(requests ...string) podOption {
	return func(p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		c := container("sidecar", requests...)
		c.RestartPolicy = &always
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

func overhead(amounts ...string) podOption {
	return func(p *corev1.Pod) { p.Spec.Overhead = objects.Amounts(amounts...) }
}

func podLevel(requests ...string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: objects.Amounts(requests...)}
	}
}

// allocated is what the kubelet reports for the container main.
func allocated(amounts ...string) podOption {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:               "main",
			AllocatedResources: objects.Amounts(amounts...),
			Resources:          &corev1.ResourceRequirements{Requests: objects.Amounts(amounts...)},
		}}
	}
}

func resizeRefused(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible,
	})
}

// Requests 12 of the lessons of earlier systems: a pod is charged what
// the kubelet charges it, with all types of containers and of resources.
func TestRequests(t *testing.T) {
	cases := map[string]struct {
		pod  *corev1.Pod
		want Amounts
	}{
		"a pod that requests nothing still counts as a pod": {
			pod:  podWith(app()),
			want: Amounts{"pods": 1},
		},
		"cpu is in thousandths and memory in bytes": {
			pod:  podWith(app("cpu", "1500m", "memory", "1Gi")),
			want: Amounts{"core": 1500, "memory": gi, "pods": 1},
		},
		"containers add up": {
			pod:  podWith(app("cpu", "250m", "memory", "100Mi"), app("cpu", "1", "memory", "1M")),
			want: Amounts{"core": 1250, "memory": 100*mi + 1_000_000, "pods": 1},
		},
		"fractions are rounded up": {
			pod:  podWith(app("cpu", "100u", "memory", "1500m")),
			want: Amounts{"core": 1, "memory": 2, "pods": 1},
		},
		"zero requests are left out": {
			pod:  podWith(app("cpu", "0", "memory", "0", "nvidia.com/gpu", "0")),
			want: Amounts{"pods": 1},
		},
		"every other resource goes by its full name": {
			pod: podWith(app("ephemeral-storage", "2Gi", "hugepages-2Mi", "4Mi", "hugepages-1Gi", "1Gi",
				"nvidia.com/gpu", "8", "example.com/fpga", "1")),
			want: Amounts{
				"ephemeral-storage": 2 * gi, "hugepages-2Mi": 4 * mi, "hugepages-1Gi": gi,
				"nvidia.com/gpu": 8, "example.com/fpga": 1, "pods": 1,
			},
		},
		"an init container counts only as far as it exceeds the containers": {
			pod:  podWith(initial("cpu", "3", "memory", "1Mi"), app("cpu", "1", "memory", "1Gi")),
			want: Amounts{"core": 3000, "memory": gi, "pods": 1},
		},
		"a sidecar runs beside the containers and later init containers": {
			pod:  podWith(sidecar("cpu", "1"), initial("cpu", "4"), app("cpu", "2")),
			want: Amounts{"core": 5000, "pods": 1},
		},
		"an init container before a sidecar runs alone": {
			pod:  podWith(initial("cpu", "4"), sidecar("cpu", "1"), app("cpu", "2")),
			want: Amounts{"core": 4000, "pods": 1},
		},
		"overhead is added": {
			pod:  podWith(app("cpu", "1"), overhead("cpu", "250m", "memory", "64Mi")),
			want: Amounts{"core": 1250, "memory": 64 * mi, "pods": 1},
		},
		"pod-level requests replace those of containers, overhead comes on top": {
			pod:  podWith(app("cpu", "1", "nvidia.com/gpu", "1"), podLevel("cpu", "3", "memory", "1Gi"), overhead("cpu", "100m")),
			want: Amounts{"core": 3100, "memory": gi, "nvidia.com/gpu": 1, "pods": 1},
		},
		"pod-level huge pages count": {
			pod:  podWith(app("cpu", "1"), podLevel("hugepages-2Mi", "2Mi")),
			want: Amounts{"core": 1000, "hugepages-2Mi": 2 * mi, "pods": 1},
		},
		"a pod that asks to grow is charged what it asks for": {
			pod:  podWith(app("cpu", "2"), allocated("cpu", "1")),
			want: Amounts{"core": 2000, "pods": 1},
		},
		"a pod that asks to shrink is charged what it still has": {
			pod:  podWith(app("cpu", "1"), allocated("cpu", "2")),
			want: Amounts{"core": 2000, "pods": 1},
		},
		"a refused resize is not charged": {
			pod:  podWith(app("cpu", "8"), allocated("cpu", "1"), resizeRefused),
			want: Amounts{"core": 1000, "pods": 1},
		},
		"what exceeds the numbers is held at the largest": {
			pod: podWith(
				app("cpu", "9223372036854775807", "memory", "9223372036854775807"),
				app("cpu", "9223372036854775807", "memory", "9223372036854775807")),
			want: Amounts{"core": math.MaxInt64, "memory": math.MaxInt64, "pods": 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.pod.DeepCopy()
			if diff := cmp.Diff(tc.want, Requests(tc.pod)); diff != "" {
				t.Errorf("Requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.pod); diff != "" {
				t.Errorf("the pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestResizeOfAWholePod(t *testing.T) {
	pod := podWith(app("cpu", "1"), podLevel("cpu", "2"))
	pod.Status.AllocatedResources = objects.Amounts("cpu", "4")
	pod.Status.Resources = &corev1.ResourceRequirements{Requests: objects.Amounts("cpu", "3")}
	if got := Requests(pod)[TypeCore]; got != 4000 {
		t.Errorf("a pod-level resize from 4 to 2 cores in progress is charged %dm, want 4000m", got)
	}
}

func TestShape(t *testing.T) {
	a := podWith(app("cpu", "1", "memory", "1Gi"), app("cpu", "500m"))
	b := podWith(app("memory", "1024Mi"), initial("cpu", "1500m"))
	c := podWith(app("cpu", "1500m", "memory", "1Gi", "nvidia.com/gpu", "1"))

	if got, want := Requests(a).Key(), AmountsKey("core=1500m memory=1073741824B pods=1"); got != want {
		t.Errorf("shape %q, want %q", got, want)
	}
	if a, b := Requests(a).Key(), Requests(b).Key(); a != b {
		t.Errorf("pods with equal requests have the shapes %q and %q", a, b)
	}
	if a, c := Requests(a).Key(), Requests(c).Key(); a == c {
		t.Errorf("pods with different requests share the shape %q", a)
	}
}

func TestSet(t *testing.T) {
	share := func(poolType, unit string, n int64) resource.Share {
		return resource.Share{Vertex: resource.Vertex{Type: poolType, Unit: unit, Size: n, Rank: resource.NoRank}, Amount: n}
	}
	got := Amounts{"pods": 1, "memory": gi, "core": 250, "nvidia.com/gpu": 2, "hugepages-2Mi": 2 * mi}.Set()
	want := &resource.Set{Vertices: []resource.Share{
		share("core", "m", 250), share("hugepages-2Mi", "B", 2*mi), share("memory", "B", gi),
		share("nvidia.com/gpu", "", 2), share("pods", "", 1),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Set (-want +got):\n%s", diff)
	}
}

// FuzzRequests compares the charge with the kubelet's rule, written down a second time: init
// containers run one after the other, each together with the sidecars that were started before it.
func FuzzRequests(f *testing.F) {
	f.Add(int64(100), int64(200), int64(50), int64(1000), int64(0))
	f.Add(int64(math.MaxInt64), int64(1), int64(0), int64(math.MaxInt64), int64(7))
	f.Add(int64(-1), int64(3), int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, one, two, side, initially, over int64) {
		// The API server accepts no negative quantity.
		one, two, side, initially, over = max(0, one), max(0, two), max(0, side), max(0, initially), max(0, over)
		of := func(n int64) corev1.ResourceList {
			return corev1.ResourceList{
				corev1.ResourceCPU:    *apiresource.NewMilliQuantity(n, apiresource.DecimalSI),
				corev1.ResourceMemory: *apiresource.NewQuantity(n, apiresource.BinarySI),
			}
		}
		pod := podWith(app(), app(), sidecar(), initial(), overhead())
		pod.Spec.Containers[0].Resources.Requests = of(one)
		pod.Spec.Containers[1].Resources.Requests = of(two)
		pod.Spec.InitContainers[0].Resources.Requests = of(side)
		pod.Spec.InitContainers[1].Resources.Requests = of(initially)
		pod.Spec.Overhead = of(over)

		sum := func(ns ...int64) int64 {
			var total int64
			for _, n := range ns {
				if total > math.MaxInt64-n {
					return math.MaxInt64
				}
				total += n
			}
			return total
		}
		want := max(sum(one, two, side, over), sum(side, initially, over))
		got := Requests(pod)
		if got[TypeMemory] != want {
			t.Errorf("memory %d, want %d", got[TypeMemory], want)
		}
		if want > math.MaxInt64-1000 {
			want = math.MaxInt64 // where cores have no exact number either
		}
		if core := got[TypeCore]; core != want && (core < math.MaxInt64-1000 || want != math.MaxInt64) {
			t.Errorf("core %d, want %d", core, want)
		}
	})
}

// FuzzAdd checks that a sum is never negative, never smaller than a part, and the same both ways.
func FuzzAdd(f *testing.F) {
	f.Add(int64(1), int64(2))
	f.Add(int64(math.MaxInt64), int64(1))
	f.Fuzz(func(t *testing.T, x, y int64) {
		x, y = max(0, x), max(0, y)
		a, b := Amounts{"core": x}, Amounts{"core": y, "pods": 1}
		a.Add(b)
		b.Add(Amounts{"core": x})
		if a["core"] < max(x, y) || a["core"] != b["core"] || a["pods"] != 1 {
			t.Errorf("%d and %d make %v one way and %v the other", x, y, a, b)
		}
		if x <= math.MaxInt64-y && a["core"] != x+y {
			t.Errorf("%d and %d make %d", x, y, a["core"])
		}
	})
}
