package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/cli"
	"github.com/flux-k8s/fluence/test/stack"
	"github.com/flux-k8s/fluence/test/trials"
)

// A listed is what kubectl fluence says of a group.
type listed struct {
	Of, Status, Phase, WaitingFor string
	Position                      int
	Size, Minimum, Bound, Pending int32
	Succeeded, Failed             int32
	Nodes                         map[string]int
	Started, Ended                time.Time
}

// A counted is what the pods of a Job show.
type counted struct {
	bound, pending, succeeded, failed int32
	nodes                             map[string]int
}

// inProcess runs kubectl fluence in this process, which takes a tenth of the time of a program.
func (v *viewer) inProcess(into any, args ...string) {
	v.Helper()
	var out, side bytes.Buffer
	code := cli.Run(v.Context(), cli.Config{IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &side}, Now: time.Now},
		append(args, "-o", "json", "-n", v.ns, "--kubeconfig", v.kubeconfig, "--config", filepath.Join(v.Dir(), stack.Scheduler+".yaml")))
	if code != cli.ExitYes && code != cli.ExitNo || side.Len() > 0 {
		v.Fatalf("kubectl fluence %s: exit code %d: %s", strings.Join(args, " "), code, &side)
	}
	if err := yaml.Unmarshal(out.Bytes(), into); err != nil {
		v.Fatalf("kubectl fluence %s: %v\n%s", strings.Join(args, " "), err, &out)
	}
}

// countPods counts the pods of each Job.
func countPods(pods []corev1.Pod) map[string]*counted {
	all := map[string]*counted{}
	for _, pod := range pods {
		name := "Job/" + pod.Labels[batchv1.JobNameLabel]
		c := all[name]
		if c == nil {
			c = &counted{nodes: map[string]int{}}
			all[name] = c
		}
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			c.succeeded++
		case pod.Status.Phase == corev1.PodFailed:
			c.failed++
		case pod.Spec.NodeName != "":
			c.bound++
			c.nodes[pod.Spec.NodeName]++
		case pod.DeletionTimestamp == nil:
			c.pending++
		}
	}
	return all
}

// shown returns what the comparison reads of pods.
func shown(pods []corev1.Pod) []string {
	var all []string
	for _, p := range pods {
		all = append(all, fmt.Sprint(p.UID, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp != nil))
	}
	return all
}

// check compares what is said of a group with its pods.
func (g listed) check(c *counted) string {
	switch {
	case g.Bound != c.bound || !maps.Equal(g.Nodes, c.nodes):
		return fmt.Sprintf("%d are bound, on %v", c.bound, c.nodes)
	case g.Pending != c.pending || g.Succeeded != c.succeeded || g.Failed != c.failed:
		return fmt.Sprintf("%d wait, %d have succeeded, %d have failed", c.pending, c.succeeded, c.failed)
	case g.Size < c.bound+c.pending || g.Size < g.Minimum:
		return "the size is too small"
	case g.Status != "terminating" && (g.Status == "running") != (c.bound > 0):
		return fmt.Sprintf("the group is %s with %d pods on nodes", g.Status, c.bound)
	case c.bound > 0 && g.Phase == "Pending", c.bound >= g.Minimum && c.bound > 0 && c.pending == 0 && g.WaitingFor != "":
		return "the group has its pods on nodes"
	case c.bound > 0 && g.Started.IsZero():
		return "pods are on nodes, and no start is shown"
	case g.Position > 0 && c.pending == 0:
		return "the group is in the queue, and no pod of it waits"
	}
	return ""
}

// disturb creates a Job of random size, or deletes one.
func (v *viewer) disturb(rng *rand.Rand, jobs []string) []string {
	v.Helper()
	client := v.Client().BatchV1().Jobs(v.ns)
	if len(jobs) > 6 {
		k := rng.IntN(len(jobs))
		if err := client.Delete(v.Context(), jobs[k], metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
			v.Fatal(err)
		}
		return slices.Delete(jobs, k, k+1)
	}
	name, size := fmt.Sprintf("j%x", rng.Uint32()), 1+rng.IntN(8)
	metadata := []string{"", "annotations: {kwok.fluence.flux-framework.org/run-for: 1s}", `labels: {fluence.group-min: "1"}`}[rng.IntN(3)]
	var j batchv1.Job
	if err := yaml.Unmarshal([]byte(job(name, size, fmt.Sprint(1+rng.IntN(8)), metadata)), &j); err != nil {
		v.Fatal(err)
	}
	if _, err := client.Create(v.Context(), &j, metav1.CreateOptions{}); err != nil {
		v.Fatal(err)
	}
	return append(jobs, name)
}

func TestWhatTheCommandShowsIsWhatThePodsShowAtAnyMoment(t *testing.T) {
	s := tell(t)
	v := s.viewer()
	s.nodes("n", 4, "8")
	rng := rand.New(rand.NewPCG(trials.Seed(t), 1))
	moments, want, compared, torn := 0, trials.Count(100), 0, 0
	var jobs []string
	for moments < want {
		if rng.IntN(3) == 0 {
			jobs = v.disturb(rng, jobs)
		}
		before := s.pods("")
		var list struct{ Items []listed }
		v.inProcess(&list, "groups")
		var why listed
		if k := len(list.Items); k > 0 {
			if of := list.Items[rng.IntN(k)].Of; slices.Contains(jobs, strings.TrimPrefix(of, "Job/")) {
				v.inProcess(&why, "why", strings.ToLower(of))
			}
		}
		if !slices.Equal(shown(before), shown(s.pods(""))) {
			// Pods changed meanwhile, so that there was no one moment.
			if torn++; torn > 20*want {
				t.Fatalf("pods changed %d times while the command read them", torn)
			}
			continue
		}
		moments++
		pods := countPods(before)
		place := 0
		for _, g := range append(list.Items, why) {
			c := pods[g.Of]
			if c == nil {
				continue // the PodGroup of a Job without pods
			}
			compared++
			if wrong := g.check(c); wrong != "" {
				t.Errorf("moment %d: %s: %+v", moments, wrong, g)
			}
			if deleted := !slices.Contains(jobs, strings.TrimPrefix(g.Of, "Job/")); !deleted && g.Status == "terminating" || deleted && g.Status == "running" {
				t.Errorf("moment %d: the Job is deleted: %t: %+v", moments, deleted, g)
			}
		}
		for _, g := range list.Items {
			if g.Position > 0 {
				if place++; g.Position != place {
					t.Errorf("moment %d: place %d comes as number %d of the queue", moments, g.Position, place)
				}
			}
		}
		for name := range pods {
			// The pods of a deleted Job are in no group any more.
			if slices.Contains(jobs, strings.TrimPrefix(name, "Job/")) && !slices.ContainsFunc(list.Items, func(g listed) bool { return g.Of == name }) {
				t.Errorf("moment %d: the list lacks %s, which has pods", moments, name)
			}
		}
	}
	t.Logf("%d groups compared at %d moments; %d times pods changed while the command read them", compared, moments, torn)
	if compared < moments {
		t.Errorf("%d groups compared at %d moments, want more", compared, moments)
	}
	v.onlyRead()
}
