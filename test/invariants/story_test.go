package invariants

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A script gives a judge one change after another, each with a new version.
type script struct {
	*testing.T
	*judge
	now     time.Time
	version uint64
	facts   map[string]podFact
	nodes   map[string]nodeFact
	pgs     map[string]groupFact
	serial  int
}

// These are the limits of all stories.
const (
	testSlack   = 15 * time.Second
	testTimeout = time.Minute
)

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{
		T:     t,
		judge: newJudge(Config{Slack: testSlack, IncompleteTimeout: testTimeout, Levels: []string{corev1.LabelTopologyZone, "example.com/rack"}}),
		now:   time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		facts: map[string]podFact{}, nodes: map[string]nodeFact{}, pgs: map[string]groupFact{},
	}
	s.begin(s.now)
	return s
}

func name(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: n} }

// after lets time pass, in small steps.
func (s *script) after(d time.Duration) *script {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(min(tick, end.Sub(s.now)))
		s.advance(s.now)
	}
	return s
}

func (s *script) seen() seen {
	s.version++
	return seen{version: s.version, at: s.now}
}

// node adds a node, or changes it.
func (s *script) node(n string, cpu int64, edit ...func(*nodeFact)) *script {
	f := nodeFact{name: n, allocatable: amounts{corev1.ResourceCPU: cpu * 1000, corev1.ResourcePods: 110}}
	for _, e := range edit {
		e(&f)
	}
	s.nodes[n] = f
	s.seeNode(f, s.seen())
	return s
}

func (s *script) removeNode(n string) *script {
	how := s.seen()
	how.gone = true
	s.seeNode(s.nodes[n], how)
	return s
}

// group writes a PodGroup.
func (s *script) group(n string, minMember int, edit ...func(*groupFact)) *script {
	f, ok := s.pgs[n]
	if !ok {
		s.serial++
		f = groupFact{key: name(n), uid: types.UID(fmt.Sprint("group-", s.serial))}
	}
	f.minMember = minMember
	f.conditions = slices.Clone(f.conditions)
	for _, e := range edit {
		e(&f)
	}
	s.pgs[n] = f
	s.seeGroup(f, s.seen())
	return s
}

func (s *script) removeGroup(n string) *script {
	how := s.seen()
	how.gone = true
	s.seeGroup(s.pgs[n], how)
	delete(s.pgs, n)
	return s
}

// says sets a condition of a PodGroup.
func says(kind, status, reason, message string) func(*groupFact) {
	return func(g *groupFact) {
		g.conditions = append(slices.DeleteFunc(slices.Clone(g.conditions), func(c conditionFact) bool { return c.kind == kind }),
			conditionFact{kind: kind, status: status, reason: reason, message: message})
	}
}

func refusal() func(*groupFact) { return says("Scheduled", "False", "NoRoom", "needs 2 pods") }
func placed() func(*groupFact)  { return says("Scheduled", "True", "Placed", "2 pods") }
func lacking(status string) func(*groupFact) {
	return says("Incomplete", status, "MembersMissing", "1 of 2")
}
func restart(g *groupFact) { g.policy = policyRestart }

// pod creates a pod of a group, of 1 CPU. A pod without a group has been given a reason.
func (s *script) pod(n, group string, edit ...func(*podFact)) *script {
	s.serial++
	f := podFact{
		key: name(n), uid: types.UID(fmt.Sprint("pod-", s.serial)), created: s.now.Truncate(time.Second),
		scheduler: schedulerName, label: group, phase: corev1.PodPending, told: group == "",
		asks: amounts{corev1.ResourceCPU: 1000, corev1.ResourcePods: 1},
	}
	for _, e := range edit {
		e(&f)
	}
	s.facts[n] = f
	s.seePod(f, s.seen())
	return s
}

func cpu(n int64) func(*podFact) {
	return func(p *podFact) { p.asks = amounts{corev1.ResourceCPU: n * 1000, corev1.ResourcePods: 1} }
}
func on(node string) func(*podFact)          { return func(p *podFact) { p.node = node } }
func foreign(p *podFact)                     { p.scheduler = "default-scheduler" }
func controlled(uid string) func(*podFact)   { return func(p *podFact) { p.controller = types.UID(uid) } }
func phase(v corev1.PodPhase) func(*podFact) { return func(p *podFact) { p.phase = v } }
func untold(p *podFact)                      { p.told = false }
func deleting(p *podFact)                    { p.deleting = true }

// edit changes a pod.
func (s *script) edit(n string, edits ...func(*podFact)) *script {
	f := s.facts[n]
	for _, e := range edits {
		e(&f)
	}
	s.facts[n] = f
	s.seePod(f, s.seen())
	return s
}

// bind records a bind by Fluence: the request, and the change that it makes.
func (s *script) bind(n, node string) *script { return s.bindBy(schedulerAccount, n, node) }

func (s *script) bindBy(user, n, node string) *script {
	s.seeAudit(auditFact{user: user, verb: "create", subresource: "binding", pod: name(n), code: 201, received: s.now})
	return s.edit(n, on(node))
}

// remove removes a pod.
func (s *script) remove(n string) *script {
	how := s.seen()
	how.gone = true
	s.seePod(s.facts[n], how)
	return s
}

// evict records an eviction by the controller.
func (s *script) evict(n string) *script {
	s.seeAudit(auditFact{user: controllerUser, verb: "create", subresource: "eviction", pod: name(n), code: 201, received: s.now})
	return s
}

// excuse begins an excuse, and returns a function that ends it.
func (s *script) excuse() func() {
	id := s.excuses.begin("test", s.now)
	return func() { s.excuses.finish(id, s.now) }
}

// heard marks the first excuse as one in which the scheduler hears.
func (s *script) heard() { s.excuses.heard(1) }

// job records the progress of the Job j.
func (s *script) job(j jobFact) *script {
	s.seeOwner(ownerFact{uid: "j", job: &j}, s.seen())
	return s
}

// broke is an expected violation.
type broke struct{ rule, object string }

// want ends a story. It fails unless exactly these violations were reported.
func (s *script) want(wants ...broke) {
	s.Helper()
	s.after(standAfter + tick)
	var got []broke
	for _, v := range s.violations {
		got = append(got, broke{v.Rule, v.Object})
	}
	if !slices.Equal(got, wants) {
		s.Errorf("violations %v, want %v:\n%v", got, wants, s.violations)
	}
}

// A tale is one story and its violations.
type tale struct {
	tell func(s *script)
	want []broke
}

func run(t *testing.T, tales map[string]tale) {
	t.Helper()
	for title, tc := range tales {
		t.Run(title, func(t *testing.T) {
			s := newScript(t)
			tc.tell(s)
			s.want(tc.want...)
		})
	}
}
