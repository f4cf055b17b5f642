package fluence

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
