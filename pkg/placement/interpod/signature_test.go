package interpod

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/test/objects"
)

// neverOverBudget is a budget that is never used up.
func neverOverBudget() bool { return false }

func kindsOf(pods []*corev1.Pod, by *Signer) int {
	shapes, _ := ShapesOf(pods, nil, by)
	return len(shapes)
}

// Labels in which the pods of a group differ by design make different shapes only if
// selectors of the group read them.
func TestPerPodLabelsThatNobodyReadsMakeOneShape(t *testing.T) {
	notBesideTheFirst := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}},
			}},
		}}
	}
	eachByItself := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			TopologyKey: objects.ZoneKey, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{batchv1.JobCompletionIndexAnnotation},
		}}
	}
	cases := map[string]struct {
		edit func(*corev1.Pod)
		want int
	}{
		"nobody asks":                     {edit: func(*corev1.Pod) {}, want: 1},
		"the first and all others":        {edit: notBesideTheFirst, want: 2},
		"each is to be counted by itself": {edit: eachByItself, want: 8},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var all []*corev1.Pod
			for i := range 8 {
				all = append(all, objects.Pod(fmt.Sprint(i), func(p *corev1.Pod) {
					p.Labels = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(i)}
				}, tc.edit))
			}
			if got := kindsOf(all, NewSigner(all, nil, &AntiAffinities{}, nil, neverOverBudget)); got != tc.want {
				t.Errorf("%d shapes, want %d", got, tc.want)
			}
		})
	}
}

// Where an extender may read any label, pods of one role that ask for the same are one shape all the
// same. Pods of different roles are not, because the extender has to be asked about each role.
func TestTheLabelsOfOperatorsMakeAShapeForEachRoleForAnExtender(t *testing.T) {
	cases := map[string]struct {
		labels func(i int) map[string]string
		want   int
	}{
		"a leader and its workers, each of another StatefulSet": {want: 1, labels: func(i int) map[string]string {
			return map[string]string{
				"leaderworkerset.sigs.k8s.io/name": "w", "leaderworkerset.sigs.k8s.io/group-index": "0", "leaderworkerset.sigs.k8s.io/worker-index": fmt.Sprint(i),
				"leaderworkerset.sigs.k8s.io/subgroup-index": fmt.Sprint(i / 2), "leaderworkerset.sigs.k8s.io/subgroup-key": fmt.Sprint("k", i/2),
				"controller-revision-hash": fmt.Sprint("w-", min(i, 1)), "apps.kubernetes.io/pod-index": fmt.Sprint(i), "statefulset.kubernetes.io/pod-name": fmt.Sprint("w-0-", i),
			}
		}},
		"head and workers of a Ray cluster": {want: 2, labels: func(i int) map[string]string {
			kind := []string{"head", "worker"}[min(i, 1)]
			return map[string]string{
				"ray.io/cluster": "w", "ray.io/node-type": kind, "ray.io/group": kind, "ray.io/identifier": "w-" + kind,
				"ray.io/worker-group-replica-index": fmt.Sprint(i / 2), "ray.io/worker-group-replica-name": fmt.Sprint("w-", i/2), "ray.io/replica-host-index": fmt.Sprint(i % 2),
			}
		}},
		"a rolling update of a Deployment": {want: 1, labels: func(i int) map[string]string {
			return map[string]string{"app": "w", "pod-template-hash": fmt.Sprint(i / 4)}
		}},
		"launcher and workers of an MPIJob": {want: 2, labels: func(i int) map[string]string {
			return map[string]string{"training.kubeflow.org/job-role": []string{"launcher", "worker"}[min(i, 1)], "training.kubeflow.org/replica-index": fmt.Sprint(i)}
		}},
		"driver and workers of a JobSet": {want: 2, labels: func(i int) map[string]string {
			return map[string]string{"jobset.sigs.k8s.io/replicatedjob-name": []string{"driver", "workers"}[min(i, 1)], "jobset.sigs.k8s.io/job-index": fmt.Sprint(i), "job-name": fmt.Sprint("w-", i)}
		}},
		"master and workers of a PyTorchJob": {want: 2, labels: func(i int) map[string]string {
			kind := []string{"master", "worker"}[min(i, 1)]
			return map[string]string{"training.kubeflow.org/job-name": "w", "training.kubeflow.org/replica-type": kind, "training.kubeflow.org/replica-index": fmt.Sprint(i)}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var all []*corev1.Pod
			for i := range 8 {
				all = append(all, objects.Pod(fmt.Sprint(i), func(p *corev1.Pod) { p.Labels = tc.labels(i) }))
			}
			by := NewSigner(all, nil, &AntiAffinities{}, nil, neverOverBudget)
			by.ReadAllLabels()
			if got := kindsOf(all, by); got != tc.want {
				t.Errorf("%d shapes, want %d", got, tc.want)
			}
		})
	}
}

// A label tells pods apart only if something reads it.
func TestALabelThatNothingReadsMakesNoShape(t *testing.T) {
	const key = "example.com/index"
	shunsTheFirst := func(namespaces ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Namespace = "elsewhere"
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, Namespaces: namespaces,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: "0"}},
				}},
			}}
		}
	}
	cases := map[string]struct {
		there []*corev1.Pod
		all   bool
		want  int
	}{
		"nobody":                   {nil, false, 1},
		"a pod that is there":      {[]*corev1.Pod{objects.Pod("there", shunsTheFirst(objects.Namespace))}, false, 2},
		"a pod of others":          {[]*corev1.Pod{objects.Pod("there", shunsTheFirst())}, false, 1},
		"an extender, for example": {nil, true, 8},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var all []*corev1.Pod
			for i := range 8 {
				all = append(all, objects.Pod(fmt.Sprint(i), func(p *corev1.Pod) { p.Labels = map[string]string{key: fmt.Sprint(i)} }))
			}
			by := NewSigner(all, []fwk.NodeInfo{schedulerframework.NewNodeInfo(tc.there...)}, &AntiAffinities{}, nil, neverOverBudget)
			if tc.all {
				by.ReadAllLabels()
			}
			if got := kindsOf(all, by); got != tc.want {
				t.Errorf("%d shapes, want %d", got, tc.want)
			}
		})
	}
}

// Existing pods add only a few shapes. Their other selectors are left to the
// verification, pod by pod.
func TestExistingSelectorsAddFewShapes(t *testing.T) {
	bits := func(n int) (lists [][]string) {
		for bit := range n {
			var values []string
			for i := range 1000 {
				if i>>bit&1 == 1 {
					values = append(values, fmt.Sprint(i))
				}
			}
			lists = append(lists, values)
		}
		return lists
	}
	singles := func(n int) (lists [][]string) {
		for i := range n {
			lists = append(lists, []string{fmt.Sprint(i)})
		}
		return lists
	}
	cases := map[string]struct {
		lists [][]string
		want  int
		exact bool
	}{
		"none":                      {nil, 1, true},
		"a half":                    {bits(1), 2, true},
		"sixteen kinds":             {bits(4), 16, true},
		"a thousand kinds":          {bits(10), 1, false},
		"more than are told apart":  {singles(maxExistingSelectors + 1), 1, false},
		"many that nobody is among": {[][]string{{"-1"}, {"-2"}, {"-3"}}, 1, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var all []*corev1.Pod
			for i := range 1000 {
				all = append(all, objects.Pod(fmt.Sprint(i), func(p *corev1.Pod) {
					p.Labels = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(i)}
				}))
			}
			var there []fwk.NodeInfo
			for i, l := range tc.lists {
				there = append(there, schedulerframework.NewNodeInfo(objects.KeepingOff(fmt.Sprint("there-", i), l)))
			}
			shapes, exact := ShapesOf(all, nil, NewSigner(all, there, &AntiAffinities{}, nil, neverOverBudget))
			if len(shapes) != tc.want || exact != tc.exact {
				t.Errorf("%d kinds, exactly %t; want %d and %t", len(shapes), exact, tc.want, tc.exact)
			}
		})
	}
}

// A scheduling cycle may see a pod that is gone already.
func TestAntiAffinityIsCachedWhilePodExists(t *testing.T) {
	pod := objects.Pod("there", func(p *corev1.Pod) {
		p.UID, p.Spec.NodeName = "there", "n1"
		term := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term, term}}}
	})
	info, err := schedulerframework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	var s AntiAffinities
	for _, step := range []struct {
		do   func()
		kept int
	}{{func() {}, 0}, {func() { s.Put(pod) }, 1}, {func() { s.Drop(pod.UID) }, 0}} {
		step.do()
		if got := s.get(info); len(got.terms) != 1 || !got.namespaces.Has(pod.Namespace) || got.hasNamespaceSelector {
			t.Errorf("it shuns %+v, want one selector in its own namespace", got)
		}
		if len(s.byUID) != step.kept {
			t.Errorf("%d pods are kept, want %d", len(s.byUID), step.kept)
		}
	}
}

func TestConstraintsTellPodsApartByWhatFiltersLookAt(t *testing.T) {
	cases := map[string]struct {
		edit func(*corev1.Pod)
		same bool
	}{
		"the name":             {func(p *corev1.Pod) { p.Name = "other" }, true},
		"the index in a Job":   {func(p *corev1.Pod) { p.Labels["batch.kubernetes.io/job-completion-index"] = "7" }, true},
		"the index in a set":   {func(p *corev1.Pod) { p.Labels["apps.kubernetes.io/pod-index"] = "7" }, true},
		"the name in a set":    {func(p *corev1.Pod) { p.Labels["statefulset.kubernetes.io/pod-name"] = "s-7" }, true},
		"a port of the pod":    {func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}} }, true},
		"a volume of its own":  {func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v"}} }, true},
		"another label":        {func(p *corev1.Pod) { p.Labels["role"] = "leader" }, true},
		"a label that is read": {func(p *corev1.Pod) { p.Labels["read"] = "leader" }, false},
		"the namespace":        {objects.In("other"), false},
		"a selector":           {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, false},
		"an affinity":          {func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{} }, false},
		"a toleration":         {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "k"}} }, false},
		"a spread": {func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1}}
		}, false},
		"a port of the node":   {func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }, false},
		"a claim of devices":   {func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} }, false},
		"the operating system": {func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }, false},
		"a claim of a volume": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			by := Signer{keys: sets.New("read")}
			if same := by.signature(objects.Pod("a", objects.InGroup("g"))) == by.signature(objects.Pod("a", objects.InGroup("g"), tc.edit)); same != tc.same {
				t.Errorf("the constraints are the same: %v, want %v", same, tc.same)
			}
		})
	}
}
