package fluence

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// rejectedFor returns an edit: a kubelet has no room for the pod.
func rejectedFor(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = "n1"
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, reason, "Pod was rejected: Node didn't have enough resource: cpu"
	}
}

// rejectionCount returns the number of rejections since the process began.
func (r *rig) rejectionCount() float64 {
	r.Helper()
	n, err := testutil.GetCounterMetricValue(r.pl.kubeletRejections.count)
	r.must(err)
	return n
}

func TestKubeletRejectionIsCountedAndReportedOnce(t *testing.T) {
	const message = "pod p was bound to node n1, whose kubelet rejected it: OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu"
	onPodGroup := event{kind: "PodGroup", name: g.Name, reason: reason.RejectedByKubelet, message: message, eventType: corev1.EventTypeWarning}
	onPod := event{kind: "Pod", name: "p", reason: reason.RejectedByKubelet, message: message, eventType: corev1.EventTypeWarning}
	cases := map[string]struct {
		pod  []func(*corev1.Pod)
		then []func(*corev1.Pod)
		want []event
	}{
		"a member's, on its PodGroup": {pod: []func(*corev1.Pod){objects.InGroup(g.Name)}, then: []func(*corev1.Pod){rejectedFor("OutOfcpu")}, want: []event{onPodGroup}},
		"a lone pod's, on itself":     {then: []func(*corev1.Pod){rejectedFor("OutOfcpu")}, want: []event{onPod}},
		"without its PodGroup, on itself": {
			pod: []func(*corev1.Pod){objects.InGroup("gone")}, then: []func(*corev1.Pod){rejectedFor("OutOfcpu")}, want: []event{onPod},
		},
		"one for a device": {then: []func(*corev1.Pod){rejectedFor("OutOfnvidia.com/gpu")}, want: []event{{
			kind: "Pod", name: "p", reason: reason.RejectedByKubelet, eventType: corev1.EventTypeWarning,
			message: "pod p was bound to node n1, whose kubelet rejected it: OutOfnvidia.com/gpu: Pod was rejected: Node didn't have enough resource: cpu",
		}}},
		"another failure is none":           {then: []func(*corev1.Pod){rejectedFor("Evicted")}},
		"another scheduler's is not ours":   {pod: []func(*corev1.Pod){nominatedFor("", 0)}, then: []func(*corev1.Pod){rejectedFor("OutOfcpu")}},
		"a pod that runs is none":           {then: []func(*corev1.Pod){objects.OnNode("n1"), objects.InPhase(corev1.PodRunning)}},
		"what failed without a node is not": {then: []func(*corev1.Pod){rejectedFor("OutOfcpu"), objects.OnNode("")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.podGroupAPI.put(aPodGroup(g.Name, 1, "pg"))
				before := r.rejectionCount()
				r.pod("p", tc.pod...)
				r.update("p", tc.then...)
				r.pass(time.Second)
				// The pod is updated again, with another label.
				r.update("p", func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, "told", "again") })
				r.pass(time.Second)
				if got := r.rejectionCount() - before; got != float64(len(tc.want)) {
					t.Errorf("%v races counted, want %d", got, len(tc.want))
				}
				if got := r.rejections(); !slices.Equal(got, tc.want) {
					t.Errorf("events %+v, want %+v", got, tc.want)
				}
			})
		})
	}
}

// rejections returns the events that report rejections.
func (r *rig) rejections() []event {
	all := append(r.recorder.of("PodGroup"), r.recorder.of("Pod")...)
	return slices.DeleteFunc(all, func(e event) bool { return e.reason != reason.RejectedByKubelet })
}

func TestOldAndForeignRejectionsAreNotCounted(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		before := r.rejectionCount()
		r.standby.Store(true)
		r.pod("told-to-a-standby", rejectedFor("OutOfcpu"))
		r.pass(time.Second)
		r.standby.Store(false)
		// A scheduler that starts now finds the pod in its first list, and sees others later.
		again, err := newKubeletRejections(r.ctx, r.fwk, r.recorder, r.pl.owners, r.pl.podGroups, func() bool { return true })
		r.must(err)
		go again.run(r.ctx)
		r.pass(time.Second)
		if got := r.rejectionCount() - before; got != 0 {
			t.Errorf("%v races counted, want none", got)
		}
		r.pod("p", rejectedFor("OutOfpods"))
		r.pass(time.Second)
		if got := r.rejectionCount() - before; got != 2 {
			t.Errorf("%v races counted by two that watch, want one each", got)
		}
		// The next pod of that name is another pod, even
		// if the deletion of the first one was missed.
		r.update("p", func(p *corev1.Pod) { p.UID = "successor" })
		r.pass(time.Second)
		if got := r.rejectionCount() - before; got != 4 {
			t.Errorf("%v races counted by two that watch, want two each", got)
		}
	})
}
