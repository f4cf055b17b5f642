package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/simulate"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/stack"
	"github.com/flux-k8s/fluence/test/trials"
)

// A foretold is a scene with groups drawn at random, and what the command says of it before something happens.
type foretold struct {
	scene
	viewer *viewer
	rng    *rand.Rand
}

// A comer is a group that was drawn: a Job, a gang of pods, or pods alone.
type comer struct {
	name     string
	pods     int
	priority int
	kind     preemption.Kind
	// text returns its manifest, with these annotations of its pods.
	text func(annotations ...string) string
	// podGroup begins the name of its PodGroup. It is empty for pods alone.
	podGroup string
}

// drawn returns a group of n pods of a priority with this much CPU each, or pods without a group. before says that it is
// there before the preemptor comes. Then pods without a group are at most two, and a budget may protect them. The
// preemptor itself is at most one such pod.
func (f *foretold) drawn(name string, n, cpu, priority int, before bool) comer {
	c := comer{name: f.name(name), pods: n, priority: priority, kind: preemption.Group}
	if f.rng.IntN(2) == 0 {
		seed := f.rng.Uint64()
		c.podGroup = "job-" + c.name + "-"
		c.text = func(annotations ...string) string {
			return prioritized(sizedJob(rand.New(rand.NewPCG(seed, 1)), c.name, n, cpu, annotations...), f.class(priority)) + "---\n"
		}
		return c
	}
	of := crowd{name: name, pods: n, cpu: fmt.Sprint(cpu), priority: priority, protected: before && f.rng.IntN(6) == 0}
	c.podGroup = c.name
	if f.rng.IntN(3) == 0 && (n == 1 || n == 2 && before) {
		of.alone, c.kind, c.podGroup = true, preemption.Pod, ""
	}
	c.text = func(annotations ...string) string {
		of.metadata = "annotations: {" + strings.Join(annotations, ", ") + "}"
		return f.text(of)
	}
	return c
}

// decided waits until the scheduler has decided on a group. It returns why it waits, or nothing if it runs.
func (f *foretold) decided(c comer) (told string) {
	f.Helper()
	if c.podGroup != "" {
		_, told = f.outcome(c.podGroup, c.name+"-", c.pods)
	} else {
		f.eventually("a decision on the pods "+c.name, func(context.Context) (bool, string) {
			told = ""
			decided, pods := 0, f.pods(c.name+"-")
			for _, pod := range pods {
				for _, is := range pod.Status.Conditions {
					if is.Type == corev1.PodScheduled {
						decided++
						_, message, _ := strings.Cut(is.Message, " nodes are available: ") // kube-scheduler begins it so
						told = cmp.Or(told, strings.TrimSuffix(anyEnd.ReplaceAllString(message, ""), "."))
					}
				}
			}
			return decided == c.pods, fmt.Sprintf("%d of %d", decided, len(pods))
		})
	}
	if told == "" {
		f.running(c.name+"-", c.pods)
	}
	return told
}

// populate creates nodes at random, and groups of low priorities that fill them. Those of a higher priority come first, so
// that nobody is evicted for another. Some do not fit, and wait. All pods stay for a while when they are evicted, so that it
// can be asked for whom. It returns the CPU of all nodes.
func (f *foretold) populate() (size int) {
	f.Helper()
	for i, n := 0, 3+f.rng.IntN(3); i < n; i++ {
		cpu := []int{4, 8, 8}[f.rng.IntN(3)]
		size += cpu
		f.nodes(f.name(fmt.Sprintf("n%d", i)), 1, fmt.Sprint(cpu), label("case", f.pool), zone(string(rune('a'+i%2))))
	}
	left := size
	for i, priority := range []int{100, 20, 10} {
		share := left
		if priority > 10 {
			share = f.rng.IntN(left/2 + 1)
		}
		var text strings.Builder
		var drawn []comer
		for filled := 0; filled < share; {
			n, cpu := 1+f.rng.IntN(4), 1+f.rng.IntN(4)
			filled, left = filled+n*cpu, max(left-n*cpu, 0)
			c := f.drawn(fmt.Sprintf("p%d%c", i, 'a'+len(drawn)), n, cpu, priority, true)
			text.WriteString(c.text(kubelet.Lingers + `: "yes"`))
			drawn = append(drawn, c)
		}
		if len(drawn) == 0 {
			continue
		}
		f.applyText(text.String())
		for _, c := range drawn {
			f.decided(c)
		}
	}
	return size
}

// A toll is for whom each victim is evicted, by the victim's kind and name, and the names of their pods.
type toll struct {
	why  map[string]string
	pods []string
}

func (t toll) equal(o toll) bool { return maps.Equal(t.why, o.why) && slices.Equal(t.pods, o.pods) }

// named returns the toll of victims that the command names for a group.
func (f *foretold) named(c comer, victims []simulate.Victim) toll {
	f.Helper()
	t := toll{why: map[string]string{}}
	of := preemption.Preemptor{Kind: c.kind, Namespace: f.ns, Name: c.name + "-0", Priority: int32(c.priority)} //nolint:gosec // priorities are small
	if c.podGroup != "" {
		of.Name = f.group(f.Context(), c.podGroup).Name
	}
	for _, v := range victims {
		t.why[v.Kind+"/"+v.Name] = eviction.Mark{For: of, Priority: v.Priority, Pods: len(v.Pods)}.Evicted(f.ns)
		for _, p := range v.Pods {
			t.pods = append(t.pods, p.Pod)
		}
	}
	slices.Sort(t.pods)
	return t
}

// taken returns the toll that the conditions of PodGroups and of pods show, with the pods that are ending.
func (f *foretold) taken() toll {
	f.Helper()
	t := toll{why: map[string]string{}}
	groups, err := f.PodGroups(f.Context(), f.ns)
	if err != nil {
		f.Fatal(err)
	}
	add := func(what, message string) { t.why[what], _, _ = strings.Cut(message, "; preemptor ") }
	for _, g := range groups {
		if c := meta.FindStatusCondition(g.Status.Conditions, eviction.ConditionPreempted); c != nil && strings.HasPrefix(strings.TrimPrefix(g.Name, "job-"), f.pool+"-") {
			add("PodGroup/"+g.Name, c.Message)
		}
	}
	for _, p := range f.pods(f.pool + "-") {
		if p.DeletionTimestamp != nil {
			t.pods = append(t.pods, p.Name)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && p.Labels[group.Label] == "" && p.Labels[batchv1.JobNameLabel] == "" {
				add("Pod/"+p.Name, c.Message)
			}
		}
	}
	slices.Sort(t.pods)
	return t
}

// target names a group in a command.
func (c comer) target() string {
	switch c.podGroup {
	case "":
		return "pod/" + c.name + "-0"
	case c.name:
		return "podgroup/" + c.name
	}
	return "job/" + c.name
}

// whyLater creates a group that has to wait before it evicts others, and then lets it do so. The scheduler stands still
// while the command is asked whom it would evict.
func (f *foretold) whyLater(c comer) []simulate.Victim {
	f.Helper()
	const delay = group.PreemptionDelayAnnotation
	f.applyText(c.text(delay + ": 1h"))
	if told := f.decided(c); !strings.Contains(told, "evicts nobody before") {
		f.Errorf("the message of a group that has to wait is %q", told)
	}
	f.signal(stack.Scheduler, syscall.SIGSTOP)
	defer f.signal(stack.Scheduler, syscall.SIGCONT)
	if c.podGroup != "" && f.rng.IntN(2) == 0 {
		f.kubectl("annotate", podGroups, f.group(f.Context(), c.podGroup).Name, "-n", f.ns, delay+"=0s")
	} else {
		args := []string{"annotate", "pods"}
		for _, p := range f.pods(c.name + "-") {
			args = append(args, p.Name)
		}
		f.kubectl(append(args, "-n", f.ns, delay+"-")...)
	}
	var why struct{ Now forecast }
	f.viewer.inProcess(&why, "why", c.target(), "--now")
	return why.Now.Evicts
}

// play draws a state and a group that comes. It returns who is evicted for the group.
func (f *foretold) play() (victims []simulate.Victim) {
	size := f.populate()
	cpu := 2 + f.rng.IntN(3)
	n := max(1, size*(30+f.rng.IntN(41))/100/cpu)
	if f.rng.IntN(4) == 0 {
		n = 1
	}
	c := f.drawn("new", min(n, 4), cpu, []int{20, 100, 1000, 1000, 1000, 1000}[f.rng.IntN(6)], false)
	var before []forecast
	f.viewer.ask(&before, c.text(), "simulate", "-f", "-")
	if len(before) != 1 {
		f.Fatalf("simulate: %+v, want one answer", before)
	}
	said := before[0]
	f.Logf("simulated %+v:\n%s", said, c.text())
	if len(said.Evicts) == 0 {
		f.applyText(c.text())
		if told := f.decided(c); said.Starts != (told == "") || !strings.HasSuffix(said.no(), told) {
			f.Errorf("simulated %q, told %q", said.no(), told)
		}
		if t := f.taken(); len(t.why)+len(t.pods) > 0 {
			f.Errorf("evicted: %q, want nobody", t)
		}
		return nil
	}
	later := said.Evicts
	if f.rng.IntN(2) == 0 {
		later = f.whyLater(c)
	} else {
		f.applyText(c.text())
		f.eventually("the group is known", func(ctx context.Context) (bool, string) {
			return c.podGroup == "" || f.group(ctx, c.podGroup) != nil, "no PodGroup"
		})
	}
	want := f.named(c, said.Evicts)
	if now := f.named(c, later); !now.equal(want) {
		f.Errorf("why --now says that it evicts %q, want %q", now, want)
	}
	f.eventually("as many pods as named are ending", func(context.Context) (bool, string) {
		t := f.taken()
		return len(t.pods) >= len(want.pods), fmt.Sprintf("%q, want %q", t, want)
	})
	if t := f.taken(); !t.equal(want) {
		f.Errorf("evicted: %q, want %q", t, want)
	}
	f.ends(said.Evicts)
	for what, sentence := range want.why {
		var why struct{ Evicted string }
		if f.viewer.inProcess(&why, "why", strings.ToLower(what)); !strings.HasPrefix(why.Evicted, sentence+"; ") {
			f.Errorf("why of the victim %s says %q, want %q", what, why.Evicted, sentence)
		}
	}
	f.letLeave(slices.DeleteFunc(f.pods(f.pool+"-"), func(p corev1.Pod) bool { return !slices.Contains(want.pods, p.Name) }))
	f.running(c.name+"-", c.pods)
	for what, sentence := range f.taken().why {
		if strings.Contains(sentence, "/"+c.name) && want.why[what] == "" {
			f.Errorf("evicted later: %s: %s", what, sentence)
		}
	}
	return said.Evicts
}

// ends fails unless victims end as the command says: by the suspension of their owner, or by the deletion of each pod.
func (f *foretold) ends(victims []simulate.Victim) {
	f.Helper()
	var deleted []string
	for _, v := range victims {
		if v.How == simulate.Suspended {
			if is := f.kubectl("get", v.Owner, "-n", f.ns, "-o", "jsonpath={.spec.suspend}"); is != "true" {
				f.Errorf("suspended: %q of %s, want it suspended", is, v.Owner)
			}
			continue
		}
		for _, p := range v.Pods {
			deleted = append(deleted, strings.TrimPrefix(p.Pod, f.pool+"-"))
		}
	}
	f.deletedOnce(deleted...)
}

// tidy ends a scene: its pods and nodes are gone.
func (f *foretold) tidy() {
	ctx := context.WithoutCancel(f.Context())
	if f.Failed() {
		f.dump(ctx)
	}
	f.clear(ctx)
	nodes, err := f.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "case=" + f.pool})
	if err != nil {
		f.Fatal(err)
	}
	var names []string
	for _, n := range nodes.Items {
		names = append(names, n.Name)
	}
	if err := f.RemoveNodes(ctx, names...); err != nil {
		f.Fatal(err)
	}
}

// Whom simulate and why --now name is evicted, and nobody else, for a Job, a gang or a pod that comes to other such groups
// of several priorities. While they end, why says of each of them for whom.
func TestTheVictimsThatAreNamedBeforehandAreThoseThatAreEvicted(t *testing.T) {
	s := tell(t)
	v := s.viewer()
	class := s.priorities(10, 20, 100, 1000)
	evicting, kinds, cases := 0, map[string]int{}, trials.Count(5)
	for seed := range trials.Seeds(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			here := &story{T: t, Stack: s.Stack, ns: s.ns}
			f := &foretold{
				scene:  scene{story: here, kept: here, pool: fmt.Sprintf("v%d", seed), class: class},
				viewer: &viewer{story: here, program: v.program, kubeconfig: v.kubeconfig},
				rng:    rand.New(rand.NewPCG(seed, 2)),
			}
			t.Cleanup(f.tidy)
			victims := f.play()
			if len(victims) > 0 {
				evicting++
			}
			for _, victim := range victims {
				kinds[victim.Kind+" "+string(victim.How)]++
			}
		})
	}
	t.Logf("others were evicted in %d of %d cases: %v", evicting, cases, kinds)
	if evicting < cases/3 || evicting >= 10 && len(kinds) < 3 {
		t.Errorf("others were evicted in %d of %d cases: %v; want many, and all kinds", evicting, cases, kinds)
	}
	v.onlyRead()
}
