package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
)

// neighbour returns the same story in another namespace.
func (s *story) neighbour() *story {
	s.Helper()
	n := &story{T: s.T, Stack: s.Stack, ns: s.ns + "-too"}
	n.kubectl("create", "namespace", n.ns)
	s.Cleanup(func() {
		ctx := context.WithoutCancel(s.Context())
		if s.Failed() {
			n.dump(ctx)
		}
		n.clear(ctx)
	})
	return n
}

// groupNames returns the names of the namespace's PodGroups.
func (s *story) groupNames() []string {
	s.Helper()
	groups, err := s.PodGroups(s.Context(), s.ns)
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return names
}

// Requests 15 of the lessons of earlier systems, for CronJobs: each Job is a group.
func TestEachJobOfACronJobIsAGroup(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "3")
	s.apply("cronjob.yaml")
	s.kubectl("create", "job", "--from=cronjob/nightly", "first", "-n", s.ns)
	s.running("first-", 2)
	s.kubectl("create", "job", "--from=cronjob/nightly", "second", "-n", s.ns)
	s.placed("job-first-")
	s.refused("job-second-", "NoRoom", "needs 2 pods", "room for 1")
	s.noneOnNodes("second-")
	if got := s.groupNames(); len(got) != 2 {
		t.Errorf("PodGroups = %v, want one for each Job", got)
	}
	s.kubectl("delete", "job", "first", "-n", s.ns)
	s.running("second-", 2)
	s.without("job-first-")
}

// Requests 15: names of any length make no invalid label, and every group has a PodGroup.
func TestLongNamesMakeNoInvalidLabel(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	long := func(n int) string { return strings.Repeat("long-name.", n/10+1)[:n-1] + "z" }
	jobName, setName := strings.ReplaceAll(long(63), ".", "-"), strings.ReplaceAll(long(52), ".", "-")
	deploymentName, podName := long(200), long(253)
	s.applyText(job(jobName, 2, "1"))
	s.applyText(statefulSet(setName, 2, "1"))
	s.applyText(deployment(deploymentName, 2, "1"))
	s.applyText(lonePod(podName, "fluence"))
	s.running("", 7)
	for _, kind := range []string{"job", "statefulset", "deployment"} {
		s.placed(kind + "-long-name-")
	}
	names := s.groupNames()
	for _, name := range names {
		if len(name) > 63 {
			t.Errorf("PodGroup %s has a name of %d characters, want at most 63", name, len(name))
		}
	}
	if len(names) != 3 {
		t.Errorf("PodGroups = %v, want three", names)
	}
	if events := s.kubectl("get", "events", "-n", s.ns); strings.Contains(events, "Invalid") {
		t.Errorf("something was invalid:\n%s", events)
	}
}

// Requests 15: pods whose names the API server generates.
func TestPodsWithGeneratedNames(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "8")
	create := func(manifest, name string) {
		manifest = strings.ReplaceAll(manifest, "name: "+name, "generateName: "+name+"-")
		// The container has a fixed name.
		manifest = strings.ReplaceAll(manifest, "{generateName: main-", "{name: main")
		if _, _, err := s.KubectlInput(t.Context(), strings.NewReader(manifest), "create", "-n", s.ns, "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		create(lonePod("solo", "fluence"), "solo")
	}
	s.running("solo-", 2)
	create(member("crew", "crew-of-two", "1", sized(2)), "crew")
	s.refused("crew-of-two", "Gathering", "has 1 of minMember 2")
	s.noneOnNodes("crew-")
	create(member("crew", "crew-of-two", "1", sized(2)), "crew")
	s.running("crew-", 2)
}

// Requests 15: the pods of a DaemonSet run on each node, also on a new one.
func TestDaemonSetPodsRunOnEachNode(t *testing.T) {
	s := tell(t)
	s.nodes("n", 3, "8")
	s.apply("daemonset.yaml")
	s.running("agent-", 3)
	s.nodes("late", 1, "8")
	s.running("agent-", 4)
	on := map[string]bool{}
	for _, node := range s.onNodes("agent-") {
		on[node] = true
	}
	if len(on) != 4 {
		t.Errorf("the pods are on %v, want one on each of four nodes", on)
	}
	if got := s.groupNames(); len(got) != 0 {
		t.Errorf("PodGroups = %v, want none", got)
	}
}

// State 5 of the lessons of earlier systems: Jobs, groups
// or pods of the same name in two namespaces never mix.
func TestTheSameNamesInTwoNamespacesNeverMeet(t *testing.T) {
	s := tell(t)
	too := s.neighbour()
	s.nodes("n", 1, "9")
	// Each group has 2 of 3 pods in its own namespace. With the other's pods it would be complete.
	for _, one := range []*story{s, too} {
		one.applyText(member("m-0", "same", "1", sized(3)) + member("m-1", "same", "1", sized(3)))
		one.applyText(lonePod("solo", "fluence"))
		one.refused("same", "Gathering", "has 2 of minMember 3")
		one.running("solo", 1)
	}
	s.noneOnNodes("m-")
	too.noneOnNodes("m-")
	// Of two Jobs with one name only one has room.
	s.applyText(job("twin", 4, "1"))
	s.running("twin-", 4)
	too.applyText(job("twin", 4, "1"))
	too.refused("job-twin-", "NoRoom", "needs 4 pods", "room for 3")
	before := s.pods("twin-")
	too.kubectl("delete", "job", "twin", "-n", too.ns)
	too.none("twin-")
	s.untouched(before)
	too.applyText(member("m-2", "same", "1", sized(3)))
	too.running("m-", 3)
	s.noneOnNodes("m-")
	s.refused("same", "Gathering", "has 2 of minMember 3")
}

// State 5: a Pod and a Job of the same name never mix, and neither do objects of other kinds.
func TestObjectsOfOneNameNeverMeet(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "8")
	s.applyText(lonePod("same", "fluence"))
	s.running("same", 1)
	pod := s.pods("same")
	s.applyText(job("same", 4, "1") + "---\n" + statefulSet("same", 4, "1"))
	s.running("", 5)
	s.eventually("one of the two groups is refused", func(ctx context.Context) (bool, string) {
		refused := 0
		for _, prefix := range []string{"job-same-", "statefulset-same-"} {
			if g := s.group(ctx, prefix); g != nil && meta.IsStatusConditionFalse(g.Status.Conditions, "Scheduled") {
				refused++
			}
		}
		return refused == 1, s.columns("")
	})
	s.kubectl("delete", "job", "same", "-n", s.ns)
	s.running("same-", 4)
	s.placed("statefulset-same-")
	s.kubectl("delete", "statefulset", "same", "-n", s.ns)
	s.none("same-")
	s.untouched(pod)
}

// A Job that is created again under its name is another group,
// even while the pods of the first still hold their nodes.
func TestAJobMadeAgainUnderItsName(t *testing.T) {
	s := tell(t)
	s.nodes("n", 3, "8")
	s.applyText(job("again", 3, "8"))
	s.running("again-", 3)
	first := s.group(t.Context(), "job-again-").Name
	s.kubectl("delete", "job", "again", "-n", s.ns, "--wait=false")
	s.applyText(job("again", 3, "8"))
	s.eventually("three pods of the second Job run", func(ctx context.Context) (bool, string) {
		g := s.group(ctx, "job-again-")
		return g != nil && g.Name != first && len(s.pods("again-")) == 3 && g.Status.Running == 3, s.columns("")
	})
	s.without(first)
	if got := s.matches("job-again-"); !slices.Equal(got, []int{3, 3}) {
		t.Errorf("pods by match: %v, want all at once each time", got)
	}
	s.noneRejected()
}

// Labelled pods that are deleted and created again start all or nothing again.
func TestLabelledPodsMadeAgain(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	pods := []string{member("m-0", "crew", "8", sized(2)), member("m-1", "crew", "8", sized(2))}
	s.applyText(pods[0] + pods[1])
	s.running("m-", 2)
	s.placed("crew")
	for range 2 {
		s.kubectl("delete", "pods", "m-0", "m-1", "-n", s.ns, "--force", "--grace-period=0")
		s.applyText(pods[0])
		s.refused("crew", "Gathering", "has 1 of minMember 2")
		s.applyText(lonePod("guest", "fluence"))
		s.running("guest", 1)
		s.kubectl("cordon", s.onNodes("guest")["guest"])
		s.applyText(pods[1])
		s.refused("crew", "NeverFits", "needs 2 pods", "could hold 1")
		s.noneOnNodes("m-")
		s.kubectl("uncordon", s.onNodes("guest")["guest"])
		s.lose("guest")
		s.running("m-", 2)
		s.placed("crew")
	}
	// A match may be made again, if the scheduler's cache shows the end of the guest later than the matcher does.
	if got := s.matches("crew"); len(got) < 3 || slices.ContainsFunc(got, func(pods int) bool { return pods != 2 }) {
		t.Errorf("pods by match: %v, want both at once each time", got)
	}
}
