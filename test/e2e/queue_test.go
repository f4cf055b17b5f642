package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/stack"
	"github.com/flux-k8s/fluence/test/trials"
)

// The scheduler's log has these lines at the verbosity of the stack: one for each pod that it takes from its queue,
// and one for each decision on a group.
var (
	askLine      = regexp.MustCompile(`"Attempting to schedule pod" pod="([^"]*)"`)
	decisionLine = regexp.MustCompile(`"Group (matched|refused)".*? group="([^"]*)"`)
)

// A queuedGroup is a group of a queue as kubectl fluence groups lists it.
type queuedGroup struct {
	Namespace, Name, Of string
	Position            int
	Priority            int32
	Size, Minimum       int32
	// cpu is what each pod requests.
	cpu string
}

// equals reports whether two groups ask for the same.
func (g queuedGroup) equals(o queuedGroup) bool {
	return g.Priority == o.Priority && g.Size == o.Size && g.Minimum == o.Minimum && g.cpu == o.cpu
}

// fitsInstead reports whether g starts wherever o starts.
func (g queuedGroup) fitsInstead(o queuedGroup) bool { return g.Minimum <= o.Minimum && g.cpu <= o.cpu }

// An askLog is what the scheduler logged after some moment.
type askLog struct {
	// asked and started are the names of groups in the order of their first asks and of their starts. A group for
	// which room is kept until pods that are ending have gone counts as started from then on.
	asked, started []string
	// claims are the groups that have such room and have not started.
	claims map[string]bool
	// refused are the groups that were refused.
	refused map[string]bool
	// asksBefore has, by group, the refused groups that asked before it started, also while the cluster was full.
	asksBefore map[string][]string
}

// logSize returns the size of the scheduler's log in bytes.
func (s *story) logSize() int64 {
	s.Helper()
	info, err := os.Stat(s.Process(stack.Scheduler).Log())
	if err != nil {
		s.Fatal(err)
	}
	return info.Size()
}

// asks reads what the scheduler logged after the first bytes of its log, from the moment on when there is room. Refused
// groups ask now and then without an event too. The messages before that moment have the words full. groupOf has the
// names of the groups of pods.
func (s *story) asks(after int64, full string, groupOf map[string]string) (l askLog) {
	s.Helper()
	f, err := os.Open(s.Process(stack.Scheduler).Log())
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, after, 1<<30))
	if err != nil {
		s.Fatal(err)
	}
	l.refused, l.claims, l.asksBefore = map[string]bool{}, map[string]bool{}, map[string][]string{}
	var asked []string
	start := func(name string) {
		if !slices.Contains(l.started, name) {
			l.started, l.asksBefore[name] = append(l.started, name), slices.Clone(asked)
		}
	}
	for line := range strings.Lines(string(text)) {
		if m := askLine.FindStringSubmatch(line); m != nil {
			if g := groupOf[m[1]]; g != "" && !slices.Contains(l.asked, g) {
				l.asked = append(l.asked, g)
			}
		}
		if m := decisionLine.FindStringSubmatch(line); m != nil {
			name := strings.TrimPrefix(m[2], s.ns+"/")
			if m[1] == "refused" {
				asked = append(asked, name)
			}
			switch {
			case m[1] == "matched":
				start(name)
				delete(l.claims, name)
			case strings.Contains(line, "room is kept for it"):
				start(name)
				l.claims[name] = true
			case strings.Contains(line, full):
				l.asked = slices.DeleteFunc(l.asked, func(g string) bool { return g == name })
			default:
				l.refused[name] = true
			}
		}
	}
	return l
}

// enqueue creates Jobs of random priorities and sizes in random order, and waits until each has its refusal. It returns the
// CPUs that each pod of a Job requests.
func (s *story) enqueue(rng *rand.Rand, class func(int) string) map[string]string {
	s.Helper()
	cpus := map[string]string{}
	names := rng.Perm(6 + rng.IntN(7))
	half := len(names) / 2
	// The groups of a batch are mostly created in one second, and those of the second batch later.
	for _, batch := range [][]int{names[:half], names[half:]} {
		var manifests []string
		for _, k := range batch {
			name, size, cpu := fmt.Sprintf("j%02d", k), 1+rng.IntN(3), fmt.Sprint(2+rng.IntN(2))
			var metadata []string
			if rng.IntN(4) == 0 {
				metadata = append(metadata, `labels: {fluence.group-min: "1"}`)
			}
			manifest := job(name, size, cpu, metadata...)
			if priority := []int{0, 0, 10, 1000}[rng.IntN(4)]; priority > 0 {
				manifest = prioritized(manifest, class(priority))
			}
			manifests = append(manifests, manifest)
			cpus["Job/"+name] = cpu
		}
		s.applyText(strings.Join(manifests, "---\n"))
		for _, k := range batch {
			s.refused(fmt.Sprintf("job-j%02d-", k), "NoRoom")
		}
	}
	return cpus
}

// checkAsks compares the queue with what the scheduler logged.
func checkAsks(queue []queuedGroup, l askLog) (wrong []string) {
	// Room that a pod leaves is offered to the first group of each priority before others ask. Of
	// groups that ask for the same only the first asks, until it starts.
	for i, name := range l.asked {
		at := slices.IndexFunc(queue, func(g queuedGroup) bool { return g.Name == name })
		if slices.ContainsFunc(queue[:at], queue[at].equals) {
			continue
		}
		for _, before := range l.asked[:i] {
			if j := slices.IndexFunc(queue, func(g queuedGroup) bool { return g.Name == before }); j > at && queue[j].Priority == queue[at].Priority {
				wrong = append(wrong, fmt.Sprintf("the scheduler asked for %v: %s before %s", l.asked, before, name))
			}
		}
	}
	for i, g := range queue {
		for _, later := range queue[i+1:] {
			k := slices.Index(l.started, later.Name)
			if k < 0 || !g.fitsInstead(later) || slices.Contains(l.started[:k], g.Name) {
				continue
			}
			// The pod may have ended just after the one had asked, or one that asks for the same, and before the other did.
			asked := slices.ContainsFunc(queue, func(o queuedGroup) bool {
				return o.equals(g) && slices.Contains(l.asksBefore[later.Name], o.Name)
			})
			if g.equals(later) || !asked {
				wrong = append(wrong, fmt.Sprintf("%s started before %s, which needs no more and comes first in the queue", later.Name, g.Name))
			}
		}
	}
	return wrong
}

// decided reports whether the scheduler has decided on each group of a queue. It does not ask for a group if a group that
// asks for the same was just refused.
func (l askLog) decided(queue []queuedGroup) bool {
	for _, g := range queue {
		if l.claims[g.Name] {
			return false
		}
		if !slices.Contains(l.started, g.Name) && !slices.ContainsFunc(queue, func(o queuedGroup) bool { return o.equals(g) && l.refused[o.Name] }) {
			return false
		}
	}
	return true
}

func TestGroupsAreListedInTheOrderInWhichTheSchedulerAsks(t *testing.T) {
	s := tell(t)
	v := s.viewer()
	class := s.patient(10, 1000)
	s.nodes("full", 1, "64")
	s.nodes("more", 1, "24", func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "fluence.test/closed", Effect: corev1.TaintEffectNoSchedule})
	})
	frees := []struct {
		free func()
		// full are words of the message of a group that was refused before.
		full string
	}{
		{func() { s.kubectl("delete", "pod", "base", "-n", s.ns, "--force", "--grace-period=0") }, s.ns + "/base ends"},
		{func() { s.kubectl("taint", "node", "more-0", "fluence.test/closed:NoSchedule-") }, "1 is excluded"},
	}
	queues, agree, compared, waiting := 0, 0, 0, 0
	for seed := range trials.Seeds(2) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s.applyText(ofSize(lonePod("base", "fluence"), "64"))
		s.running("base", 1)
		cpus := s.enqueue(rng, class)
		groupOf := map[string]string{}
		var list struct{ Items []queuedGroup }
		v.inProcess(&list, "groups")
		list.Items = slices.DeleteFunc(list.Items, func(g queuedGroup) bool { return g.Position == 0 })
		for _, pod := range s.pods("j") {
			i := slices.IndexFunc(list.Items, func(g queuedGroup) bool { return g.Of == "Job/"+pod.Labels[batchv1.JobNameLabel] })
			if i < 0 {
				t.Fatalf("the list lacks the group of pod %s", pod.Name)
			}
			groupOf[s.ns+"/"+pod.Name] = list.Items[i].Name
		}
		for i := range list.Items {
			g := &list.Items[i]
			if g.cpu = cpus[g.Of]; g.Position != i+1 {
				t.Fatalf("%s has place %d and comes as number %d", g.Name, g.Position, i+1)
			}
		}
		if len(list.Items) != len(cpus) {
			t.Fatalf("%d groups are listed, want %d", len(list.Items), len(cpus))
		}
		after, way := s.logSize(), seed%2
		frees[way].free()
		var l askLog
		s.eventually("the scheduler has decided on each group", func(context.Context) (bool, string) {
			l = s.asks(after, frees[way].full, groupOf)
			return l.decided(list.Items), fmt.Sprintf("%+v", l)
		})
		queues++
		compared, waiting = compared+len(l.asked), waiting+len(list.Items)-len(l.started)
		if wrong := checkAsks(list.Items, l); len(wrong) > 0 {
			t.Errorf("seed %d, freed in way %d: %s\nthe list is %+v\nthe log has %+v", seed, way, strings.Join(wrong, "; "), list.Items, l)
		} else {
			agree++
		}
		s.clear(t.Context())
		if way == 1 {
			s.kubectl("taint", "node", "more-0", "fluence.test/closed:NoSchedule")
		}
	}
	t.Logf("%d of %d queues agree; %d groups asked, and %d did not start", agree, queues, compared, waiting)
	if compared < 3*queues || waiting == 0 {
		t.Errorf("%d groups asked in %d queues, and %d did not start: too few to compare", compared, queues, waiting)
	}
	v.onlyRead()
}
