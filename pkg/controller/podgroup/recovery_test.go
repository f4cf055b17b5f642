package podgroup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// lossy creates a running Job of three pods that has lost one. The replacement finds no node.
func (e *env) lossy(policy string, before ...func()) (name string, kept []*corev1.Pod) {
	e.Helper()
	job := e.job("train", 3, "", func(j *batchv1.Job) {
		j.Spec.Template.Labels = map[string]string{"app": "train"}
		j.Spec.Template.Annotations = map[string]string{
			group.IncompleteTimeoutAnnotation: "1s", group.IncompletePolicyAnnotation: policy,
		}
	})
	name = nameFor("batch/v1", "Job", job)
	pods := e.podsOf(job, 3)
	e.bind(pods...)
	e.untilPhase(name, scheduling.PodGroupRunning)
	for _, prepare := range before {
		prepare()
	}
	e.delete(pods[0])
	return name, pods[1:]
}

func (e *env) untilIncomplete(name string, status metav1.ConditionStatus, text string) *metav1.Condition {
	e.Helper()
	pg := e.until(name, "Incomplete is "+string(status)+", "+text, func(pg *scheduling.PodGroup) bool {
		c := meta.FindStatusCondition(pg.Status.Conditions, podgroup.ConditionIncomplete)
		return c != nil && c.Status == status && strings.Contains(c.Message, text)
	})
	return meta.FindStatusCondition(pg.Status.Conditions, podgroup.ConditionIncomplete)
}

func TestAnIncompleteGroupThatWaits(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	name, kept := e.lossy(group.IncompleteWait)
	c := e.untilIncomplete(name, metav1.ConditionTrue, "2 of 3 pods are on nodes; policy wait")
	if c.Reason != reason.MembersMissing {
		t.Errorf("condition %+v, want reason %s", c, reason.MembersMissing)
	}
	e.event("PodGroup", name, reason.MembersMissing)
	for _, pod := range kept {
		var now corev1.Pod
		if err := e.client.Get(e.ctx, client.ObjectKeyFromObject(pod), &now); err != nil || now.DeletionTimestamp != nil {
			t.Errorf("pod %s: %v, deleted %v; want it left alone", pod.Name, err, now.DeletionTimestamp)
		}
	}
	e.bindAll()
	if c := e.untilIncomplete(name, metav1.ConditionFalse, ""); c.Reason != reason.Complete {
		t.Errorf("condition %+v, want reason %s", c, reason.Complete)
	}
}

// The group is evicted as soon as the disruption budget allows it, and starts again.
func TestAnIncompleteGroupThatIsRestarted(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: "keep"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(3)), Selector: selector("train")},
	}
	name, kept := e.lossy(group.IncompleteRestart, func() { e.create(budget) })
	c := e.untilIncomplete(name, metav1.ConditionTrue, "not evicted yet: pod train-")
	if !strings.Contains(c.Message, "disruption budget") {
		t.Errorf("the condition says %q, want what the API server says of the budget", c.Message)
	}
	e.event("PodGroup", name, reason.Restarting)
	e.delete(budget)
	if c := e.untilIncomplete(name, metav1.ConditionFalse, ""); c.Reason != reason.NotStarted {
		t.Errorf("condition %+v, want reason %s", c, reason.NotStarted)
	}
	for _, pod := range kept {
		var now corev1.Pod
		err := e.client.Get(e.ctx, client.ObjectKeyFromObject(pod), &now)
		if client.IgnoreNotFound(err) != nil || err == nil && now.DeletionTimestamp == nil {
			t.Errorf("pod %s was not evicted: %v", pod.Name, err)
		}
	}
	e.bindAll()
	e.untilPhase(name, scheduling.PodGroupRunning)
}

func TestAWrongAnnotationIsTold(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("train", 2, "", func(j *batchv1.Job) {
		j.Spec.Template.Annotations = map[string]string{group.IncompletePolicyAnnotation: "panic"}
	})
	name := nameFor("batch/v1", "Job", job)
	pg := e.until(name, "the annotation is told", func(pg *scheduling.PodGroup) bool {
		return pg != nil && meta.IsStatusConditionFalse(pg.Status.Conditions, podgroup.ConditionValid)
	})
	c := meta.FindStatusCondition(pg.Status.Conditions, podgroup.ConditionValid)
	if c.Reason != reason.InvalidAnnotation || !strings.Contains(c.Message, group.IncompletePolicyAnnotation+`: "panic"`) {
		t.Errorf("condition %+v, want the annotation and its value", c)
	}
	if pg.Spec.MinMember != 2 {
		t.Errorf("minMember %d, want 2", pg.Spec.MinMember)
	}
}

// What a user sets on a PodGroup stays, whatever the Job does.
func TestUsersEditPodGroupsOfTheController(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("train", 4, "", func(j *batchv1.Job) { j.Spec.Completions = nil })
	name := nameFor("batch/v1", "Job", job)
	pg := e.untilSized(name, 4, 4)

	edit := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"minMember":2}}`))
	if err := e.client.Patch(e.ctx, pg, edit, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	e.patch(job, `{"spec":{"parallelism":6}}`)
	says := func(words string) func(*scheduling.PodGroup) bool {
		return func(pg *scheduling.PodGroup) bool {
			if pg == nil {
				return false
			}
			c := meta.FindStatusCondition(pg.Status.Conditions, podgroup.ConditionValid)
			return c != nil && c.Message == words
		}
	}
	words := "minMember 2 (set by kubectl-edit), size 6"
	if pg = e.until(name, words, says(words)); pg.Spec.MinMember != 2 {
		t.Errorf("minMember %d, want the user's 2", pg.Spec.MinMember)
	}

	// After a user has deleted it, it is created again by the controller.
	e.delete(pg)
	again := e.until(name, "it is made again", func(now *scheduling.PodGroup) bool {
		return now != nil && now.UID != pg.UID && says("minMember 6, size 6")(now)
	})

	// After a user has taken it over, it belongs to the user.
	e.patch(again, `{"metadata":{"labels":{"%s":null}}}`, podgroup.ManagedByLabel)
	e.patch(job, `{"spec":{"parallelism":3}}`)
	e.podsOf(e.job("later", 1, ""), 1)
	e.patch(again, `{"spec":{"minMember":5}}`)
	if pg = e.until(name, "the user's 5", says("minMember 5, size 5")); pg.Labels[podgroup.ManagedByLabel] != "" || pg.Spec.MinMember != 5 {
		t.Errorf("PodGroup %+v, want it as the user left it", pg)
	}
}

// A minMember that a user sets stays even if the controller is about to set another.
func TestAUserEditsAPodGroupWhileItsJobIsResized(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	edit := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"minMember":2}}`))
	for i := range 15 {
		job := e.job(fmt.Sprintf("train-%d", i), 4, "", func(j *batchv1.Job) { j.Spec.Completions = nil })
		name := nameFor("batch/v1", "Job", job)
		pg := e.untilSized(name, 4, 4)
		e.patch(job, `{"spec":{"parallelism":6}}`)
		if err := e.client.Patch(e.ctx, pg, edit, client.FieldOwner("kubectl-edit")); err != nil {
			t.Fatal(err)
		}
		e.until(name, "the user's 2", func(pg *scheduling.PodGroup) bool {
			c := meta.FindStatusCondition(pg.Status.Conditions, podgroup.ConditionValid)
			return c != nil && c.Message == "minMember 2 (set by kubectl-edit), size 6"
		})
	}
}

// A PodGroup that a user deletes and creates again belongs to the user both times.
func TestUsersRemakeTheirPodGroup(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *podgroup.Config) { c.EmptyDelay = time.Second })
	mine := func() *scheduling.PodGroup {
		pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: "mine"}}
		pg.Spec.MinMember = 3
		e.create(pg)
		return pg
	}
	first := mine()
	e.pod("a", map[string]string{group.Label: "mine"})
	e.untilPhase("mine", scheduling.PodGroupPending)
	e.delete(first)
	second := mine()
	pg := e.until("mine", "the second has a status", func(pg *scheduling.PodGroup) bool {
		return pg != nil && pg.UID == second.UID && pg.Status.CreationTime != nil
	})
	if pg.Generation != 1 || len(pg.OwnerReferences)+len(pg.Labels)+len(pg.Annotations) > 0 {
		t.Errorf("PodGroup %+v, want only its status written", pg)
	}
}
