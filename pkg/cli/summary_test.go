package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/test/objects"
)

func TestSizeIsWhatTheGroupWants(t *testing.T) {
	j := job("j")
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = new(ago(time.Second)) }
	for name, tc := range map[string]struct {
		minimum, desired int32
		phase            string
		pods             []*corev1.Pod
		want             int32
	}{
		"the minimum if there are no pods":            {minimum: 2, phase: "Pending", want: 2},
		"what the controller has written":             {minimum: 1, desired: 4, phase: "Pending", want: 4},
		"the pods, of which the status does not know": {minimum: 1, desired: 1, phase: "Pending", pods: []*corev1.Pod{pod("a", "", "1"), pod("b", "", "1")}, want: 2},
		"without a pod that is being deleted":         {minimum: 1, desired: 1, phase: "Running", pods: []*corev1.Pod{pod("a", "node-0", "1"), pod("b", "node-0", "1", deleted)}, want: 1},
		"without a pod that has ended":                {minimum: 1, phase: "Running", pods: []*corev1.Pod{pod("a", "node-0", "1"), pod("b", "node-0", "1", objects.InPhase(corev1.PodSucceeded))}, want: 1},
		"nothing if the owner wants no pods":          {minimum: 1, phase: "Idle", want: 0},
		"a pod that the phase Idle does not know":     {minimum: 1, phase: "Idle", pods: []*corev1.Pod{pod("a", "", "1")}, want: 1},
		"what a group that has ended wanted":          {minimum: 1, desired: 3, phase: "Finished", want: 3},
	} {
		pg := podGroup(j, tc.minimum, 0, tc.phase)
		pg.Status.Desired = tc.desired
		if got := summaryOf(pg, tc.pods, metav1.NewTime(noon)); got.Size != tc.want {
			t.Errorf("%s: size %d, want %d", name, got.Size, tc.want)
		}
	}
}

func TestTimesWhenTheFirstPodsAreGone(t *testing.T) {
	j := job("j")
	placed := scheduled(metav1.ConditionTrue, "Placed", "2 pods on 1 node") // 3 minutes ago, of a group that is 5 minutes old
	held := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/hold"}} }
	over := metav1.Condition{Type: conditionFinished, Status: metav1.ConditionTrue, Reason: "Succeeded", LastTransitionTime: ago(time.Minute)}
	for name, tc := range map[string]struct {
		phase      string
		conditions []metav1.Condition
		pods       []*corev1.Pod
		wait, run  string
	}{
		"a group that runs with a later pod":             {"Running", []metav1.Condition{placed}, []*corev1.Pod{pod("b", "node-0", "1", boundAt(ago(time.Minute)))}, "2m", "3m"},
		"a group that runs with an earlier pod":          {"Running", []metav1.Condition{placed}, []*corev1.Pod{pod("a", "node-0", "1")}, "60s", "4m"},
		"a group that has ended without pods":            {"Finished", []metav1.Condition{placed, over}, nil, "2m", "2m"},
		"a group of which it is not known when it ended": {"Finished", []metav1.Condition{placed}, nil, "2m", "-"},
		"a group that waits again":                       {"Unknown", []metav1.Condition{placed}, []*corev1.Pod{pod("c", "", "1")}, "5m", "-"},
		"a group that runs while a later pod waits":      {"Running", []metav1.Condition{placed}, []*corev1.Pod{pod("a", "node-0", "1"), pod("b", "", "1", objects.Created(noon.Add(-20*time.Second))), pod("c", "", "1", objects.Created(noon.Add(-9*time.Second)))}, "20s", "4m"},
		"a group that runs while a gated pod waits":      {"Running", []metav1.Condition{placed}, []*corev1.Pod{pod("a", "node-0", "1"), pod("b", "", "1", held)}, "60s", "4m"},
		"a group that is younger than its pods":          {"Pending", nil, []*corev1.Pod{pod("a", "", "1", objects.Created(noon.Add(-7*time.Minute)))}, "5m", "-"},
		"a group that wants no pods":                     {"Idle", []metav1.Condition{placed}, nil, "-", "-"},
	} {
		g := summaryOf(podGroup(j, 1, 0, tc.phase, tc.conditions...), tc.pods, metav1.NewTime(noon))
		if wait, run := lasted(g.WaitSeconds), lasted(g.RunSeconds); wait != tc.wait || run != tc.run {
			t.Errorf("%s: waited %s and ran %s, want %s and %s", name, wait, run, tc.wait, tc.run)
		}
	}
}

func TestTheResultSaysHowAGroupEnded(t *testing.T) {
	o := &options{now: func() time.Time { return noon }}
	for _, tc := range []struct {
		result            string
		succeeded, failed int32
		want              string
	}{
		{"Succeeded", 0, 1, "finished: 1 failed"},
		{"Finished", 0, 1, "finished: 1 failed"},
		{"", 0, 1, "failed: 1 failed"},
		{"", 1, 1, "finished: 1 succeeded, 1 failed"},
		{"Failed", 1, 1, "failed: 1 succeeded, 1 failed"},
		{"DeadlineExceeded", 1, 0, "ended: DeadlineExceeded, 1 succeeded"},
	} {
		g := &groupSummary{Result: tc.result, groupNumbers: groupNumbers{Succeeded: tc.succeeded, Failed: tc.failed}}
		if got := o.ended(g); got != tc.want {
			t.Errorf("result %q with %d succeeded and %d failed: %q, want %q", tc.result, tc.succeeded, tc.failed, got, tc.want)
		}
	}
}

func TestTextsFromTheClusterArePrintable(t *testing.T) {
	long := strings.Repeat("a", 300)
	for text, want := range map[string]string{
		"Job/training":      "Job/training",
		"Job/\x1b[2Jx":      "Job/?[2Jx",
		"a\r\n\tb":          "a???b",
		"a\u009bb":          "a?b",
		"a\u202eb":          "a?b",
		"Grüße":             "Grüße",
		"Job/" + long:       "Job/" + long[:253],
		long[:252] + "ü":    long[:252],
		"Job/" + long[:253]: "Job/" + long[:253],
	} {
		if got := printableName(text); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
	}
	for _, args := range []string{"groups", "groups -A -o wide", "why evil", "why evil --now", "cluster", "graph --others", "nodes", "groups -o custom-columns=OF:.of,WHY:.message"} {
		out, _, _ := call{args: args, objects: malicious()}.run(t)
		if at := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); at >= 0 || out == "" {
			t.Errorf("%s writes a control character at %d of %q", args, at, out)
		}
	}
	if out, _, _ := (call{args: "groups -o json", objects: malicious()}).run(t); !bytes.Contains([]byte(out), []byte(`room\u001b[2J\nfor`)) {
		t.Errorf("JSON does not have the message as it is: %s", out)
	}
}

func TestWhyOfAGroupThatNeverRan(t *testing.T) {
	j := job("big")
	ended := metav1.Condition{Type: conditionFinished, Status: metav1.ConditionTrue, Reason: "DeadlineExceeded", LastTransitionTime: ago(time.Minute)}
	const had = "the group had no nodes when it ended; its reason was NeverFits: needs 2 pods with cpu 64"
	cases := map[string]struct {
		condition metav1.Condition
		failed    int32
		want      string // "": nothing
	}{
		"the scheduler has written it":     {condition: scheduled(metav1.ConditionFalse, "Failed", had), want: "  it never ran: " + had + "\n"},
		"the scheduler has not written it": {condition: scheduled(metav1.ConditionFalse, "NeverFits", "needs 2 pods with cpu 64"), want: "  it never ran: " + had + "\n"},
		"it had run before":                {condition: scheduled(metav1.ConditionFalse, "Failed", had), failed: 1, want: "  " + had + "\n"},
		"it ran":                           {condition: scheduled(metav1.ConditionTrue, "Placed", "2 pods on 1 node")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pg := podGroup(j, 2, 0, "Failed", ended, tc.condition)
			pg.Status.Failed = tc.failed
			out, errOut, code := call{args: "why job/big", objects: []runtime.Object{j, pg}}.run(t)
			_, rest, _ := strings.Cut(out, "age 5m\n")
			if code != ExitYes || rest != tc.want {
				t.Errorf("exit code %d, %q, %q; want %q", code, out, errOut, tc.want)
			}
		})
	}
}
