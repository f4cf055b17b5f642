package podgroup

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A pod that only a label has put into a group is no source of annotations.
func TestWhoSpeaksForAGroup(t *testing.T) {
	const policy = group.IncompletePolicyAnnotation
	restart := annotated(policy, group.IncompleteRestart)
	named := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Name = name } }
	saying := func(j *batchv1.Job) { j.Spec.Template.Annotations = map[string]string{policy: group.IncompleteRestart} }
	unread := func() observation {
		ref := metav1.OwnerReference{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "c", UID: "ray"}
		w := topOwner{topOwnerRef: topOwnerRefFrom(ref), state: unsized}
		return observation{key: types.NamespacedName{Namespace: "ns", Name: w.owner.PodGroupName()}, now: now, topOwners: []topOwner{w}}
	}
	ofRay := ownedBy("ray.io/v1", "RayCluster", "c", "ray")
	bare := func(pods []*corev1.Pod) observation { return observation{key: key, now: now}.with(nil, pods) }
	disagree := func(one, other string) string {
		return "annotation " + policy + `: one of its pods has "` + one + `" but one of its pods has "` + other + `": set the same value on all, or set it on the PodGroup`
	}
	forged := job(1, saying, func(j *batchv1.Job) {
		j.Name, j.UID = "evil", "evil-uid"
		j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job-uid", Controller: new(true)}}
	})
	withPart := func(o observation, j *batchv1.Job) observation {
		p, _ := asPodOwner(j)
		p.topUID = "job-uid"
		o.podOwners = append(o.podOwners, p)
		return o
	}
	launched := func(edit func(*batchv1.Job)) observation {
		launcher := job(1, func(j *batchv1.Job) { j.Name, j.UID = "c-launcher", "launcher" })
		if edit != nil {
			edit(launcher)
		}
		p, _ := asPodOwner(launcher)
		p.topUID = "ray"
		o := unread()
		o.podOwners = append(o.podOwners, p)
		return o.with(nil, pods(1, ofRay, named("pod-1"), restart))
	}
	cases := map[string]struct {
		o         observation
		want, err string
	}{
		"the template of a Job":                               {of(job(2, saying)).with(nil, pods(2, ofTrain)), "restart", ""},
		"a pod beside a Job that says nothing":                {of(job(2)).with(nil, join(pods(2, ofTrain), pods(1, restart))), "", ""},
		"a pod of the Job that its template is not":           {of(job(2)).with(nil, join(pods(1, ofTrain), pods(1, ofTrain, restart))), "", ""},
		"the PodGroup before all":                             {of(job(2, saying)).with(annotatedGroup(policy, "wait"), pods(2, ofTrain)), "wait", ""},
		"pods of what cannot be read":                         {unread().with(nil, pods(2, ofRay, restart)), "restart", ""},
		"a pod beside those of what cannot be read":           {unread().with(nil, join(pods(2, ofRay), pods(1, restart))), "", ""},
		"some pods of what cannot be read":                    {unread().with(nil, join(pods(1, ofRay), pods(1, ofRay, restart))), "", disagree("", "restart")},
		"what says it is a part of a Job":                     {withPart(of(job(2)), forged).with(nil, pods(2, ofTrain)), "", "annotation " + policy + `: the template of Job train has "" but the template of Job evil has "restart": set the same value on all, or set it on the PodGroup`},
		"a launcher that says nothing beside workers that do": {launched(nil), "", "annotation " + policy + `: the template of Job c-launcher has "" but one of its pods has "restart": set the same value on all, or set it on the PodGroup`},
		"a launcher and workers that say the same":            {launched(saying), "restart", ""},
		"all bare pods":                                       {bare(pods(3, restart)), "restart", ""},
		"one of three bare pods":                              {bare(join(pods(1, restart), pods(1), pods(1))), "", disagree("", "restart")},
		"bare pods that disagree, one on its way out":         {bare(join(pods(2, restart), pods(1, deleting))), "restart", ""},
		"nobody": {bare(nil), "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tc.o.annotation(policy)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got != tc.want || text != tc.err {
				t.Errorf("annotation() = %q, %q, want %q, %q", got, text, tc.want, tc.err)
			}
		})
	}
}
