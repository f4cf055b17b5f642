package podgroup

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
)

func TestWantedSize(t *testing.T) {
	template := func(key, value string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{key: value} }
	}
	const wrong = `label fluence.group-size: "x": must be a whole number from 1 to 100000`
	cases := map[string]struct {
		o    observed
		want wanted
	}{
		"a Job's parallelism":                    {observed{job: job(4)}, wanted{4, "minMember 4, size 4", true}},
		"the template's label goes before":       {observed{job: job(4, template(group.SizeLabel, "3"))}, wanted{3, "minMember 3, size 3", true}},
		"the template's minimum":                 {observed{job: job(4, template(group.MinLabel, "2"))}, wanted{2, "minMember 2, size 4", true}},
		"a wrong label on the template":          {observed{job: job(4, template(group.SizeLabel, "x"))}, wanted{1, wrong, false}},
		"pods that say nothing":                  {observed{pods: pods(4)}, wanted{1, "minMember 1, size 1", true}},
		"pods that say a size":                   {observed{pods: join(pods(1, labelled(group.SizeLabel, "4")), pods(3))}, wanted{4, "minMember 4, size 4", true}},
		"a wrong label on a pod":                 {observed{pods: pods(4, labelled(group.SizeLabel, "x"))}, wanted{1, wrong, false}},
		"a wrong label on a pod that is leaving": {observed{pods: join(pods(1, labelled(group.SizeLabel, "x"), deleting), pods(1, labelled(group.SizeLabel, "2")))}, wanted{2, "minMember 2, size 2", true}},
		"labels were corrected":                  {observed{podGroup: podGroup(1, ours), pods: pods(2, labelled(group.SizeLabel, "2"))}, wanted{2, "minMember 2, size 2", true}},
		"labels became wrong":                    {observed{podGroup: podGroup(4, ours), pods: pods(2, labelled(group.SizeLabel, "x"))}, wanted{4, wrong, false}},
		"the pods that said it are gone":         {observed{podGroup: podGroup(4, ours), pods: pods(2)}, wanted{4, "minMember 4, size 4", true}},
		"a user's PodGroup says it":              {observed{podGroup: podGroup(3), pods: pods(2, labelled(group.SizeLabel, "8"))}, wanted{3, "minMember 3, size 8", true}},
		"a user's PodGroup says nothing":         {observed{podGroup: podGroup(0), pods: pods(2)}, wanted{1, "minMember 1, size 1", true}},
		"wrong labels in a user's PodGroup":      {observed{podGroup: podGroup(3), pods: pods(2, labelled(group.SizeLabel, "x"))}, wanted{3, wrong, false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := DefaultConfig().wantedSize(tc.o); got != tc.want {
				t.Errorf("wantedSize() = %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Requests 14 of the lessons of earlier systems: the last pods of a Job are fewer
// than its first, and no more are to come.
func TestAJobThatIsNearlyDoneStartsWithWhatIsLeft(t *testing.T) {
	nearly := func(completions, succeeded int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.Completions, j.Status.Succeeded = &completions, succeeded }
	}
	cases := map[string]struct {
		job     *batchv1.Job
		pods    []*corev1.Pod
		current int32
		want    int32
	}{
		"nothing is done":                                   {job(4, nearly(6, 0)), pods(4), 4, 4},
		"a whole round is left":                             {job(4, nearly(8, 4)), pods(4), 4, 4},
		"half a round is left":                              {job(4, nearly(6, 4)), pods(2), 4, 2},
		"one pod failed and comes again":                    {job(4, nearly(4, 3)), pods(1), 4, 1},
		"nobody waits, so nothing is written":               {job(4, nearly(4, 3)), nil, 4, 4},
		"what was lowered stays lowered while nobody waits": {job(4, nearly(6, 4)), nil, 2, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observed{job: tc.job, pods: tc.pods, podGroup: podGroup(tc.current, ours)}
			if got := DefaultConfig().wantedSize(o).minMember; got != tc.want {
				t.Errorf("minMember = %d, want %d", got, tc.want)
			}
		})
	}
}
