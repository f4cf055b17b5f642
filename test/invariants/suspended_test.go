package invariants

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
)

func TestLeftSuspended(t *testing.T) {
	left := []broke{{RuleLeftSuspended, "ns/j"}}
	made := func(s *script) *script { return s.job(jobFact{key: name("j"), idle: true, evicted: true}) }
	resumed := func(s *script) *script { return s.job(jobFact{key: name("j")}) }
	run(t, map[string]tale{
		"it is not resumed":          {tell: func(s *script) { made(s).after(resumedWithin + time.Second) }, want: left},
		"it is not resumed for long": {tell: func(s *script) { made(s).after(10 * time.Minute) }, want: left},
		"it is resumed late":         {tell: func(s *script) { resumed(made(s).after(resumedWithin + time.Second)) }, want: left},
		"it is resumed":              {tell: func(s *script) { resumed(made(s).after(resumedWithin - time.Second)).after(time.Minute) }},
		"it is deleted":              {tell: func(s *script) { made(s).after(time.Second).removeJob().after(2 * time.Minute) }},
		"it waits in its queue again": {tell: func(s *script) {
			s.job(jobFact{key: name("j"), idle: true, evicted: true, queue: "q"}).after(10 * time.Minute)
		}},
		"somebody else has suspended it": {tell: func(s *script) { s.job(jobFact{key: name("j"), idle: true}).after(2 * time.Minute) }},
		"the controller is away":         {tell: func(s *script) { made(s).excuse(); s.after(2 * time.Minute) }},
		"another controller has just begun": {tell: func(s *script) {
			made(s).after(resumedWithin-time.Second).seeLease("another", s.seen())
			resumed(s.after(resumedWithin - time.Second))
		}},
		"it is suspended again": {tell: func(s *script) {
			made(resumed(made(s).after(resumedWithin - time.Second)).after(time.Second)).after(resumedWithin - time.Second)
			resumed(s)
		}},
		"its pod ends late": {tell: func(s *script) {
			s.node("n", 8).pod("a", "", controlled("j")).bind("a", "n")
			made(s).edit("a", deleting).after(2 * time.Minute).remove("a").after(resumedWithin - time.Second)
			resumed(s)
		}},
		"its pod ends late, and it is not resumed": {tell: func(s *script) {
			s.node("n", 8).pod("a", "", controlled("j")).bind("a", "n")
			made(s).edit("a", deleting).after(2 * time.Minute).remove("a").after(resumedWithin + time.Second)
		}, want: left},
	})
}

// removeJob deletes the Job j.
func (s *script) removeJob() *script {
	how := s.seen()
	how.gone = true
	s.seeOwner(ownerFact{uid: "j"}, how)
	return s
}

// The checker has its own words for what Fluence writes onto a Job that it suspends.
func TestTheSuspensionsOfFluenceAreRead(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "j", Annotations: map[string]string{group.SuspendedForAnnotation: group.SuspensionFor("urgent", "j")}}}
	if jobFactOf(job).evicted {
		t.Error("a Job that runs is suspended")
	}
	job.Spec.Suspend = new(true)
	if !jobFactOf(job).evicted {
		t.Error("a Job with the annotation of Fluence is suspended by somebody else")
	}
	if job.UID = "copy"; jobFactOf(job).evicted {
		t.Error("a copy of a Job that was suspended is suspended by Fluence")
	}
}
