package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/simulate"
	"github.com/flux-k8s/fluence/test/stack"
	"github.com/flux-k8s/fluence/test/trials"
)

// A viewer is a user of kubectl fluence who may only read.
type viewer struct {
	*story
	program, kubeconfig string
	// notes is what a note on standard error has to contain. If it is empty, there may be no note.
	notes string
}

// viewer creates a user with the viewer's role in all namespaces.
func (s *story) viewer() *viewer { return s.viewing(false) }

// viewing creates a user with the viewer's role: in the story's namespace if here is true,
// otherwise in all namespaces.
func (s *story) viewing(here bool) *viewer {
	s.Helper()
	bin, err := stack.Build(s.Context(), s.Output())
	if err != nil {
		s.Fatal(err)
	}
	name := "viewer-" + s.ns
	s.kubectl("apply", "-f", filepath.Join(filepath.Dir(filepath.Dir(s.Example(""))), "manifests", "viewer.yaml"))
	kubeconfig, err := s.KubeconfigFor(name)
	if err != nil {
		s.Fatal(err)
	}
	v := &viewer{story: s, program: filepath.Join(bin, stack.KubectlPlugin), kubeconfig: kubeconfig}
	if here {
		s.kubectl("create", "rolebinding", name, "-n", s.ns, "--clusterrole=fluence-viewer", "--user="+name)
		return v
	}
	s.kubectl("create", "clusterrolebinding", name, "--clusterrole=fluence-viewer", "--user="+name)
	s.Cleanup(func() { s.discard("clusterrolebinding/" + name) })
	return v
}

// ask runs a command and decodes its JSON. It returns the exit code, which must be 0 or 2.
func (v *viewer) ask(into any, stdin string, args ...string) int {
	v.Helper()
	cmd := exec.CommandContext(v.Context(), v.program, append(args,
		"-o", "json", "-n", v.ns, "--kubeconfig", v.kubeconfig, "--config", filepath.Join(v.Dir(), stack.Scheduler+".yaml"))...)
	var out, side bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &side
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 2) {
		v.Fatalf("kubectl fluence %s: %v\n%s", strings.Join(args, " "), err, &side)
	}
	if (side.Len() > 0) != (v.notes != "") || !strings.Contains(side.String(), v.notes) {
		v.Errorf("kubectl fluence %s: %s", strings.Join(args, " "), &side)
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		v.Fatalf("kubectl fluence %s: %v\n%s", strings.Join(args, " "), err, &out)
	}
	return cmd.ProcessState.ExitCode()
}

// A forecast is the answer of simulate and why about a group.
type forecast struct {
	Starts          bool
	Places          []struct{ Pod, Node string }
	Reason, Message string
	Evicts          []simulate.Victim
}

// nodes returns the number of pods on each node.
func (f forecast) nodes() map[string]int {
	on := map[string]int{}
	for _, p := range f.Places {
		on[p.Node]++
	}
	return on
}

// anyEnd matches the part of a message that names whose end would help.
// The scheduler knows more about its own groups than the API shows.
var anyEnd = regexp.MustCompile(`; room for \d+ more if .*? ends`)

func (f forecast) no() string { return f.Reason + ": " + anyEnd.ReplaceAllString(f.Message, "") }

// drawnJob returns a Job of random size, with random further requests.
func drawnJob(rng *rand.Rand, name string) (manifest string, n int) {
	n = 1 + rng.IntN(6)
	return sizedJob(rng, name, n, 1+rng.IntN(9)), n
}

// sizedJob returns a Job of n pods with this much CPU each, with random further requests and with these annotations of its pods.
func sizedJob(rng *rand.Rand, name string, n, cpu int, annotations ...string) string {
	annotations = slices.Concat(annotations, [][]string{
		nil, nil, nil,
		{"fluence.flux-framework.org/topology-required: zone"},
		{"fluence.flux-framework.org/match-policy: lonodex"},
	}[rng.IntN(5)])
	manifest := job(name, n, fmt.Sprint(cpu), "annotations: {"+strings.Join(annotations, ", ")+"}")
	const spec = "schedulerName: fluence\n"
	return strings.Replace(manifest, spec, spec+[]string{
		"", "",
		"      nodeSelector: {topology.kubernetes.io/zone: a}\n",
		"      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {job-name: " + name + "}}}]}}\n",
		"      topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {job-name: " + name + "}}}]\n",
	}[rng.IntN(5)], 1)
}

// outcome waits until the scheduler has decided on a group with a prefix of its name. It returns
// the number of its pods on each node, or the reason of the refusal.
func (s *story) outcome(prefix, pods string, n int) (on map[string]int, told string) {
	s.Helper()
	s.eventually("a decision on "+prefix, func(ctx context.Context) (bool, string) {
		g := s.group(ctx, prefix)
		if g == nil {
			return false, "no PodGroup"
		}
		c := meta.FindStatusCondition(g.Status.Conditions, "Scheduled")
		if c == nil || c.Reason == "Gathering" {
			return false, "no condition"
		}
		on, told = map[string]int{}, ""
		for _, node := range s.onNodes(pods) {
			on[node]++
		}
		if c.Status == metav1.ConditionFalse {
			told = forecast{Reason: c.Reason, Message: c.Message}.no()
			return true, ""
		}
		return len(on) > 0 && len(s.pods(pods)) == n, fmt.Sprintf("on %v", on)
	})
	return on, told
}

func TestSimulateAndWhyAgreeWithWhatTheSchedulerThenDoes(t *testing.T) {
	s := tell(t)
	v := s.viewer()
	// The nodes are added one after the other. Of equal nodes the scheduler takes
	// the first added. The plugin has not seen the order, and takes them by name.
	for i := range 6 {
		s.nodes(fmt.Sprintf("n%d", i), 1, "8", label(corev1.LabelTopologyZone, string(rune('a'+i%2))))
	}
	var there []string
	started, refused, cases := 0, 0, trials.Count(20)
	for seed := range trials.Seeds(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		name := fmt.Sprintf("c%d", seed)
		manifest, n := drawnJob(rng, name)
		var before []forecast
		code := v.ask(&before, manifest, "simulate", "-f", "-")
		if len(before) != 1 || (code == 0) != before[0].Starts {
			t.Fatalf("simulate: exit code %d with %+v", code, before)
		}
		s.applyText(manifest)
		on, told := s.outcome("job-"+name+"-", name+"-", n)
		switch f := before[0]; {
		case f.Starts:
			started++
			if told != "" || !maps.Equal(on, f.nodes()) {
				t.Errorf("simulated on %v, placed on %v (told %q):\n%s", f.nodes(), on, told, manifest)
			}
			there = append(there, name)
		default:
			refused++
			if told != f.no() {
				t.Errorf("simulated %q, told %q (on %v):\n%s", f.no(), told, on, manifest)
			}
			var why struct{ Now forecast }
			if code := v.ask(&why, "", "why", "job/"+name, "--now"); code != 2 || why.Now.no() != told {
				t.Errorf("why: exit code %d, %q; told %q", code, why.Now.no(), told)
			}
			s.dropJob(name)
		}
		for len(there) > 3 {
			k := rng.IntN(len(there))
			s.dropJob(there[k])
			there = slices.Delete(there, k, k+1)
		}
	}
	if started < cases/6 || refused < cases/6 {
		t.Errorf("%d groups started and %d were refused, want some of both", started, refused)
	}
	v.onlyRead()
}

// A user who may not have whole nodes learns it before the request, in the scheduler's words.
func TestSimulateTellsWhoMayNotHaveWholeNodes(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	poor := s.neighbour()
	v := poor.viewer()
	manifest := job("whole", 2, "1", "annotations: {"+group.ExclusiveAnnotation+`: "true"}`)
	var before []forecast
	code := v.ask(&before, manifest, "simulate", "-f", "-")
	if code != 2 || len(before) != 1 || before[0].Starts || before[0].Reason != "NotAllowed" ||
		!strings.Contains(before[0].Message, group.WholeNodesLabel) || !strings.Contains(before[0].Message, `"allowed"`) {
		t.Fatalf("simulate: exit code %d with %+v, want NotAllowed", code, before)
	}
	poor.applyText(manifest)
	poor.condition("job-whole-", "Scheduled", metav1.ConditionFalse, "NotAllowed", before[0].Message)
	poor.kubectl("delete", "job", "-n", poor.ns, "whole", "--cascade=foreground")
	poor.kubectl("label", "namespace", poor.ns, group.WholeNodesLabel+"="+group.WholeNodesAllowed)
	var after []forecast
	if code := v.ask(&after, manifest, "simulate", "-f", "-"); code != 0 || len(after) != 1 || !after[0].Starts {
		t.Errorf("simulate with the label: exit code %d with %+v, want that it starts", code, after)
	}
	v.onlyRead()
}

// A user with the viewer's role in a namespace sees
// its groups and why they wait, but no other groups.
func TestAViewerOfANamespaceSeesItsGroups(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "2")
	other := s.neighbour()
	other.applyText(job("secret", 1, "1"))
	other.running("secret-", 1)
	s.applyText(job("large", 3, "1"))
	s.refused("job-large-", "NeverFits")
	v := s.viewing(true)
	var groups struct {
		Items []struct{ Namespace, Of, WaitingFor string }
	}
	v.eventually("the right to see them", func(ctx context.Context) (bool, string) {
		may, _, err := v.Kubectl(ctx, "auth", "can-i", "list", "podgroups.scheduling.x-k8s.io", "-n", v.ns, "--as=viewer-"+v.ns)
		return err == nil, fmt.Sprint(may, err)
	})
	v.notes = "you may not list the pods, PodGroups and Jobs of all namespaces"
	if v.ask(&groups, "", "groups"); len(groups.Items) != 1 || groups.Items[0].Namespace != s.ns || groups.Items[0].Of != "Job/large" || groups.Items[0].WaitingFor != "NeverFits" {
		t.Errorf("groups %+v, want the one of Job large, which never fits", groups)
	}
	v.notes = ""
	var why struct{ WaitingFor string }
	if code := v.ask(&why, "", "why", "job/large"); code != 2 || why.WaitingFor != "NeverFits" {
		t.Errorf("why: exit code %d with %+v, want NeverFits", code, why)
	}
	for _, args := range [][]string{{"groups", "-A"}, {"graph"}, {"nodes"}, {"why", "job/large", "--now"}} {
		out, err := exec.CommandContext(t.Context(), v.program, append(args, "-n", v.ns, "--kubeconfig", v.kubeconfig)...).CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "you may not list") || strings.Contains(string(out), "secret") {
			t.Errorf("kubectl fluence %q: %v, want it refused:\n%s", args, err, out)
		}
	}
}

// dropJob deletes a Job, and waits until its pods are gone.
func (s *story) dropJob(name string) {
	s.Helper()
	s.kubectl("delete", "job", name, "-n", s.ns, "--cascade=foreground", "--timeout=60s")
	s.eventually("the pods of "+name+" gone", func(context.Context) (bool, string) {
		left := len(s.pods(name + "-"))
		return left == 0, fmt.Sprintf("%d left", left)
	})
}

// onlyRead fails if the viewer did anything but read, or was
// refused something. The role must cover all that the plugin reads.
func (v *viewer) onlyRead() {
	v.Helper()
	verbs := map[string]int{}
	for e, err := range v.AuditEvents() {
		if err != nil {
			v.Fatal(err)
		}
		if e.User.Username != "viewer-"+v.ns {
			continue
		}
		verbs[e.Verb]++
		if e.Verb != "get" && e.Verb != "list" || e.ResponseStatus.Code == 403 {
			v.Errorf("%s %s: %d", e.Verb, e.RequestURI, e.ResponseStatus.Code)
		}
	}
	if verbs["list"] == 0 {
		v.Errorf("verbs %v, want lists", verbs)
	}
}
