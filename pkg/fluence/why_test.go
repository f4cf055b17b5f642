package fluence

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/match"
)

// TestWhoseEndWouldHelpIsNamed: the matcher knows jobs, people know groups and pods.
func TestWhoseEndWouldHelpIsNamed(t *testing.T) {
	lone := func(uid string) match.JobID { return match.NewJobID("pod", uid) }
	cases := map[string]struct {
		job  func(r *rig) match.JobID
		want string // empty is that nobody is named
	}{
		"a group that was matched here":       {job: func(r *rig) match.JobID { return r.matches()[0].ID }, want: "; 3 more if group ns/g ends"},
		"a pod of another scheduler":          {job: func(*rig) match.JobID { return lone("foreign") }, want: "; 3 more if pod ns/foreign ends"},
		"a pod of a group from before":        {job: func(*rig) match.JobID { return lone("old") }, want: "; 3 more if pod ns/old of group ns/before ends"},
		"a pod that has ended":                {job: func(*rig) match.JobID { return lone("ended") }},
		"a pod that is gone":                  {job: func(*rig) match.JobID { return lone("gone") }},
		"a pod that waits":                    {job: func(*rig) match.JobID { return lone("lone") }},
		"a job that nobody has ever heard of": {job: func(*rig) match.JobID { return 77 }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.node("n1", 8)
				r.give("n1", "n1")
				others := func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }
				for _, p := range []string{"foreign", "ended", "gone"} {
					r.pod(p, others, onNode("n1"))
				}
				r.remove("gone")
				ended := aPod("ended", others, onNode("n1"))
				ended.Status.Phase = corev1.PodSucceeded
				r.must(r.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), ended, ns))
				r.pod("old", inGroup("before"), onNode("n1"))
				r.preFilter(r.gang(2, 2)[0])
				r.pass(time.Second)

				waits := r.pod("lone")
				r.fake.Refuse(match.ErrBusy, match.Reason{
					Code: match.TooFew, Level: "cluster", Wanted: 4, Found: 1, Nodes: 1, WaitingHelps: true,
					End: &match.End{Job: tc.job(r), More: 3},
				})
				_, _, status := r.preFilter(waits)
				if got := status.Message(); got != "needs 4 pods; room for 1"+tc.want || tc.want != "" && !strings.Contains(got, " ends") {
					t.Errorf("message = %q, want it to name %q", got, tc.want)
				}
			})
		})
	}
}

// TestWhatADaemonSetLeavesIsAllThereEverIs: "never" counts its pods, and is said no
// longer when they go.
func TestWhatADaemonSetLeavesIsAllThereEverIs(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.pod("agent", cpu("100m"), onNode("n1"), func(p *corev1.Pod) {
			p.Spec.SchedulerName = "default-scheduler"
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
		})
		r.pass(time.Second)
		r.schedule()
		r.gang(1, 1, cpu("4"))
		r.pass(time.Minute)
		c := r.api.get(g).Status.Conditions
		if len(c) != 1 || c[0].Reason != reasonNeverFits || c[0].Message != "no node is large enough: cpu 4 wanted, largest node has 3900m" {
			t.Errorf("conditions = %+v, want that it never fits", c)
		}
		if head := r.pl.groups.Overdue(time.Now(), 0); len(head) > 0 {
			t.Errorf("room is kept for %v, which never fits", head)
		}
		r.remove("agent")
		r.pass(2 * time.Second)
		r.wantAssigned(map[string]string{"g-0": "n1"})
	})
}
