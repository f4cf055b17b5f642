package podgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// sized is a PodGroup whose minMember this field manager has set, too.
func sized(manager string) func(*scheduling.PodGroup) {
	return func(pg *scheduling.PodGroup) {
		pg.ManagedFields = append(pg.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate,
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:minMember":{}}}`),
		})
	}
}

func TestWantedSize(t *testing.T) {
	template := func(key, value string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{key: value} }
	}
	filledIn := func(labels map[string]string, value string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Spec.Template.Labels = labels
			j.Spec.Template.Annotations = map[string]string{group.DefaultedAnnotation: value}
		}
	}
	array := func(j *batchv1.Job) { j.Spec.Template.Annotations = map[string]string{group.ArrayAnnotation: "true"} }
	served := func(j *batchv1.Job) { j.Spec.Completions, j.Status.Succeeded = new(int32(4)), 4 }
	eight := map[string]string{group.SizeLabel: "8", group.MinLabel: "8"}
	said := func(size, least string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels[group.SizeLabel], p.Labels[group.MinLabel] = size, least }
	}
	huge := metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: "1"}
	const wrong = `label fluence.group-size: "x": must be a whole number from 1 to 100000`
	complete := condition(batchv1.JobComplete, corev1.ConditionTrue, now)
	driver := topOwner{topOwnerRef: topOwnerRefFrom(huge), size: group.Size{Size: 4, Min: 4}, otherSchedulers: "1 pod of JobSet/train, driver, has schedulerName other"}
	cases := map[string]struct {
		o         observation
		want      int32
		wantWords string
		wantWrong bool
	}{
		"a Job's parallelism":                         {of(job(4)), 4, "minMember 4, size 4", false},
		"the template's label goes before":            {of(job(4, template(group.SizeLabel, "3"))), 3, "minMember 3, size 3", false},
		"the template's minimum":                      {of(job(4, template(group.MinLabel, "2"))), 2, "minMember 2, size 4", false},
		"a wrong label on the template":               {of(job(4, template(group.SizeLabel, "x"))), 1, wrong, true},
		"a Job that is an array":                      {of(job(4, array)).with(podGroup(4, ours), nil), 1, "minMember 1, size 4", false},
		"an array with a minimum":                     {of(job(4, array, template(group.MinLabel, "2"))), 1, `annotation fluence.flux-framework.org/array: "true" and label fluence.group-min: "2": set only one of them`, true},
		"labels that were filled in do not count":     {of(job(4, filledIn(eight, "8/8"))), 4, "minMember 4, size 4", false},
		"one that was changed afterwards does":        {of(job(4, filledIn(eight, "4/8"))), 8, "minMember 8, size 8", false},
		"a Job grows":                                 {of(job(6)).with(podGroup(4, ours, byTrain), nil), 6, "minMember 6, size 6", false},
		"a Job shrinks":                               {of(job(2)).with(podGroup(4, ours, byTrain), nil), 2, "minMember 2, size 2", false},
		"a Job that is over keeps what it had":        {of(job(6, complete)).with(podGroup(4, ours, byTrain), nil), 4, "minMember 4, size 4", false},
		"also if its template says more":              {of(job(4, complete, template(group.SizeLabel, "8"))).with(podGroup(4, ours, byTrain), nil), 4, "minMember 4, size 8", false},
		"a StatefulSet is scaled to nothing":          {of(statefulSet(0, appsv1.ParallelPodManagement)).with(podGroup(4, ours), nil), 4, "minMember 4, size 4", false},
		"so is a Job":                                 {of(job(0, template(group.MinLabel, "2"))).with(podGroup(4, ours), nil), 4, "minMember 4, size 4", false},
		"so is a StatefulSet beside a complete Job":   {of(statefulSet(0, appsv1.ParallelPodManagement), job(2, complete)).with(podGroup(4, ours), nil), 4, "minMember 4, size 4", false},
		"also if pods of it have succeeded":           {of(job(0, served)).with(podGroup(4, ours), pods(1, ofTrain)), 4, "minMember 4, size 4", false},
		"a StatefulSet comes back smaller":            {of(statefulSet(2, appsv1.ParallelPodManagement)).with(podGroup(4, ours), nil), 2, "minMember 2, size 2", false},
		"a StatefulSet of one pod after the other":    {of(statefulSet(3, "")), 1, "minMember 1, size 3", false},
		"pods that say nothing":                       {observation{pods: each(pods(4))}, 1, "minMember 1, size 1", false},
		"pods that say a size":                        {observation{pods: each(join(pods(1, labelled(group.SizeLabel, "4")), pods(3)))}, 4, "minMember 4, size 4", false},
		"pods of nobody known, filled in":             {observation{pods: each(pods(1, said("4", "2"), annotated(group.DefaultedAnnotation, "4/2")))}, 2, "minMember 2, size 4", false},
		"a wrong label on a pod":                      {observation{pods: each(pods(4, labelled(group.SizeLabel, "x")))}, 1, wrong, true},
		"a wrong label on a pod that is leaving":      {observation{pods: each(join(pods(1, labelled(group.SizeLabel, "x"), deleting), pods(1, labelled(group.SizeLabel, "2"))))}, 2, "minMember 2, size 2", false},
		"labels were corrected":                       {observation{podGroup: podGroup(1, ours), pods: each(pods(2, labelled(group.SizeLabel, "2")))}, 2, "minMember 2, size 2", false},
		"labels became wrong":                         {observation{podGroup: podGroup(4, ours), pods: each(pods(2, labelled(group.SizeLabel, "x")))}, 4, wrong, true},
		"the pods that said it are gone":              {observation{podGroup: podGroup(4, ours), pods: each(pods(2))}, 4, "minMember 4, size 4", false},
		"a user's PodGroup says it":                   {observation{podGroup: podGroup(3), pods: each(pods(2, labelled(group.SizeLabel, "8")))}, 3, "minMember 3, size 8", false},
		"a user's PodGroup says nothing":              {observation{podGroup: podGroup(0), pods: each(pods(2))}, 1, "minMember 1, size 1", false},
		"wrong labels in a user's PodGroup":           {observation{podGroup: podGroup(3), pods: each(pods(2, labelled(group.SizeLabel, "x")))}, 3, wrong, true},
		"a user has set minMember of ours":            {of(job(4)).with(podGroup(2, ours, sized("kubectl-edit")), nil), 2, "minMember 2 (set by kubectl-edit), size 4", false},
		"only the scheduler wrote to ours beside us":  {of(job(4)).with(podGroup(2, ours, func(pg *scheduling.PodGroup) { sized("s")(pg); pg.ManagedFields[1].Subresource = "status" }), nil), 4, "minMember 4, size 4", false},
		"a JobSet of which another has the driver":    {observation{topOwners: []topOwner{driver}}, 4, "minMember 4, size 4; not counted: 1 pod of JobSet/train, driver, has schedulerName other", false},
		"more pods than a group may have":             {observation{topOwners: []topOwner{{topOwnerRef: topOwnerRefFrom(huge), invalid: "JobSet train: asks for 200000 pods"}}}, 1, "JobSet train: asks for 200000 pods", true},
		"more pods than a group may have, but labels": {observation{pods: each(pods(1, labelled(group.SizeLabel, "3"))), topOwners: []topOwner{{topOwnerRef: topOwnerRefFrom(huge), invalid: "JobSet train: asks for 200000 pods"}}}, 3, "minMember 3, size 3", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := DefaultConfig().wantedSize(tc.o)
			if got.minMember != tc.want || got.message != tc.wantWords || got.valid == tc.wantWrong {
				t.Errorf("wantedSize() = %+v, want %d, %q, wrong %t", got, tc.want, tc.wantWords, tc.wantWrong)
			}
		})
	}
}

// A label in one of two templates of a JobSet is not enough to make the whole group smaller.
func TestTheLargestSizeOfSeveralTemplatesCounts(t *testing.T) {
	const leader, worker = "the template of Job/leader", "the template of Job/workers"
	differ := func(low string, a, b int, high string, c, d int) string {
		return fmt.Sprintf("the size labels differ: %s has minimum %d of size %d and %s has minimum %d of size %d; the larger counts, so set the same labels on all", low, a, b, high, c, d)
	}
	labelled := func(name string, labels map[string]string) *batchv1.Job {
		return job(1, func(j *batchv1.Job) { j.Name, j.UID, j.Spec.Template.Labels = name, types.UID(name), labels })
	}
	five, four := map[string]string{group.MinLabel: "5"}, map[string]string{group.SizeLabel: "4"}
	filled := labelled("workers", map[string]string{group.SizeLabel: "4", group.MinLabel: "4"})
	filled.Spec.Template.Annotations = map[string]string{group.DefaultedAnnotation: "4/4"}
	ofTop := ownedBy("jobset.x-k8s.io/v1alpha2", "JobSet", "js", "1")
	cases := map[string]struct {
		jobs []client.Object
		pods []*corev1.Pod
		want string
	}{
		"no labels":                       {[]client.Object{labelled("leader", nil), labelled("workers", nil)}, nil, "minMember 13, size 13"},
		"the same on both":                {[]client.Object{labelled("leader", five), labelled("workers", five)}, nil, "minMember 5, size 13"},
		"on one of them":                  {[]client.Object{labelled("leader", nil), labelled("workers", five)}, nil, "minMember 13, size 13; " + differ(worker, 5, 13, leader, 13, 13)},
		"different ones":                  {[]client.Object{labelled("leader", four), labelled("workers", five)}, nil, "minMember 5, size 13; " + differ(leader, 4, 4, worker, 5, 13)},
		"one that was filled in is none":  {[]client.Object{labelled("leader", nil), filled}, nil, "minMember 13, size 13"},
		"beside pods without a template":  {[]client.Object{labelled("leader", five)}, pods(2, ofTop), "minMember 13, size 13; " + differ(leader, 5, 13, "one of its pods", 13, 13)},
		"on one kind of pods":             {nil, join(pods(2, ofTop), pods(1, ofTop, func(p *corev1.Pod) { p.Labels[group.MinLabel] = "5" })), "minMember 13, size 13; " + differ("one of its pods", 5, 13, "one of its pods", 13, 13)},
		"on the pods, not on templates":   {[]client.Object{labelled("leader", nil)}, pods(2, ownedBy("batch/v1", "Job", "leader", "leader"), func(p *corev1.Pod) { p.Labels[group.MinLabel] = "5" }), "minMember 5, size 13"},
		"pods of a template say no more":  {[]client.Object{labelled("leader", five)}, pods(1, ownedBy("batch/v1", "Job", "leader", "leader")), "minMember 5, size 13"},
		"ReplicaSets differ by a rollout": {[]client.Object{&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: labelled("x", five).Spec.Template}}, &appsv1.ReplicaSet{}}, nil, "minMember 5, size 13"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			top := topOwner{topOwnerRef: topOwnerRefFrom(metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "js", UID: "1"}), size: group.Size{Size: 13, Min: 13}}
			o := of(tc.jobs...).with(nil, tc.pods)
			o.topOwners, o.key.Name = []topOwner{top}, top.owner.PodGroupName()
			w := DefaultConfig().wantedSize(o)
			if w.message != tc.want || (w.differ != "") != strings.Contains(tc.want, "differ") {
				t.Errorf("wantedSize() = %+v, want %q", w, tc.want)
			}
			m := memory{}
			o.podGroup = podGroup(13, ours)
			for i := range 2 {
				told := slices.ContainsFunc(m.newEvents(o, w), func(n pendingEvent) bool { return n.reason == reason.SizesDiffer })
				if told != (w.differ != "" && i == 0) {
					t.Errorf("look %d: an event that sizes differ: %t", i, told)
				}
			}
		})
	}
}

// Requests 14 of the lessons of earlier systems: the last pods
// of a Job are fewer than its first ones, and no more will come.
func TestAJobThatIsNearlyDoneStartsWithWhatIsLeft(t *testing.T) {
	nearly := func(completions, succeeded int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.Completions, j.Status.Succeeded = &completions, succeeded }
	}
	failing := func(indexes string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.FailedIndexes = &indexes }
	}
	queue := func(succeeded int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.Succeeded = succeeded }
	}
	inJobSet := func(jobs ...*batchv1.Job) observation {
		o := observation{key: key, now: now, topOwners: []topOwner{{reportsEnd: true, size: group.Size{Size: 8, Min: 8}}}}
		for _, j := range jobs {
			p, _ := asPodOwner(j)
			o.podOwners = append(o.podOwners, p)
		}
		return o
	}
	cases := map[string]struct {
		o       observation
		pods    []*corev1.Pod
		current int32
		want    int32
	}{
		"nothing is done":                                   {of(job(4, nearly(6, 0))), pods(4), 4, 4},
		"a whole round is left":                             {of(job(4, nearly(8, 4))), pods(4), 4, 4},
		"half a round is left":                              {of(job(4, nearly(6, 4))), pods(2), 4, 2},
		"one pod failed and comes again":                    {of(job(4, nearly(4, 3))), pods(1), 4, 1},
		"an index has failed for good":                      {of(job(4, nearly(4, 2), failing("0"))), pods(1), 4, 1},
		"more indexes have failed than there were":          {of(job(4, nearly(4, 2), failing("0-9"))), pods(1), 4, 1},
		"the indexes that have failed cannot be read":       {of(job(4, nearly(4, 2), failing("x"))), pods(2), 4, 2},
		"nobody waits, so nothing is written":               {of(job(4, nearly(4, 3))), nil, 4, 4},
		"what was lowered stays lowered while nobody waits": {of(job(4, nearly(6, 4))), nil, 2, 2},
		"a work queue makes no more once a pod succeeded":   {of(job(4, queue(1))), pods(1), 4, 3},
		"a JobSet of which one Job is nearly done":          {inJobSet(job(4, nearly(4, 3)), job(4)), pods(1), 8, 5},
		"a JobSet of which one Job is complete":             {inJobSet(job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now)), job(4)), pods(1), 8, 4},
		"a JobSet that has not made its second Job":         {inJobSet(job(4, nearly(4, 3))), pods(1), 8, 5},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, p := range tc.pods {
				ofTrain(p)
			}
			got := DefaultConfig().wantedSize(tc.o.with(podGroup(tc.current, ours), tc.pods))
			if got.minMember != tc.want {
				t.Errorf("minMember = %d, want %d", got.minMember, tc.want)
			}
			if words := fmt.Sprintf("minMember %d, size ", tc.want); !strings.HasPrefix(got.message, words) {
				t.Errorf("the message is %q, want it to begin with %q", got.message, words)
			}
		})
	}
}

// The earlier ReplicaSets of a Deployment stay, without
// pods. The sizes in their templates no longer count.
func TestOnlyCurrentTemplatesSayASize(t *testing.T) {
	set := func(name string, replicas int32, size string, age int) podOwner {
		p, _ := asPodOwner(&appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.AddDate(0, 0, -age))},
			Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{group.SizeLabel: size}},
			}},
		})
		return p
	}
	cases := map[string]struct {
		parts []podOwner
		want  int32
	}{
		"the old one has no pods":      {[]podOwner{set("old", 0, "8", 2), set("new", 3, "3", 1)}, 3},
		"a rolling update":             {[]podOwner{set("old", 1, "8", 2), set("new", 3, "3", 1)}, 8},
		"scaled to nothing":            {[]podOwner{set("new", 0, "3", 1), set("old", 0, "8", 2)}, 3},
		"a label of the past is wrong": {[]podOwner{set("old", 0, "x", 2), set("new", 3, "3", 1)}, 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := (observation{podOwners: tc.parts}).userSize(); err != nil || got.Size != tc.want {
				t.Errorf("said() = %+v, %v, want %d", got, err, tc.want)
			}
		})
	}
}

func TestCountIndexes(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "0": 1, "1,3-5,7": 5, "0,2147483647": 2, "5-3": 0, "x,2": 1, "1-,-1,--": 0, "1-2-3": 0, "-": 0, "99999999999": 0, "1, 2": 1,
	} {
		if got := countIndexes(text); got != want {
			t.Errorf("countIndexes(%q) = %d, want %d", text, got, want)
		}
	}
}
