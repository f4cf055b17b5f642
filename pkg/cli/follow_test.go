package cli

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// firstWrite calls first when something is written.
type firstWrite struct {
	bytes.Buffer
	first func()
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.first()
	return w.Buffer.Write(p)
}

func TestAWatchPrintsTheListAndEndsWithItsContext(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	out := &firstWrite{first: interrupt}
	var side bytes.Buffer
	code := Run(ctx, Config{IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: &side}, Now: func() time.Time { return noon }},
		[]string{"groups", "--watch", "--kubeconfig", serve(t, cluster()...).kubeconfig()})
	if code != ExitYes || side.Len() > 0 || !strings.Contains(out.String(), "Job/training") {
		t.Errorf("exit code %d, output %q, stderr %q; want the list and 0", code, out, &side)
	}
}

func TestAWatchPrintsOnlyRowsThatChange(t *testing.T) {
	var out bytes.Buffer
	o := &options{IOStreams: genericiooptions.IOStreams{Out: &out}, now: func() time.Time { return noon }, color: "never"}
	g := &groupsOptions{format: &outputFormat{}}
	shown := o.shownGroups(g)
	row := func(name string, bound int32, waited int64) listedGroup {
		l := listedGroup{key: types.NamespacedName{Name: name}}
		l.Name, l.Bound, l.WaitSeconds, l.Status = name, bound, &waited, statusWaiting
		return l
	}
	placed := func(at int, l listedGroup) listedGroup {
		l.Position = at
		return l
	}
	bound := 0
	for _, step := range []struct {
		rows []listedGroup
		want string
	}{
		{nil, ""},
		{[]listedGroup{row("a", 0, 1), row("b", 0, 1)}, "# NAME a b"}, // the header comes with the first rows
		{[]listedGroup{row("a", 0, 3), row("b", 0, 3)}, ""},           // only the times have changed
		{[]listedGroup{row("a", 0, 5), row("b", 2, 5)}, "b"},
		{[]listedGroup{placed(1, row("a", 0, 5)), row("b", 2, 5)}, ""}, // only the place has changed
		{[]listedGroup{row("b", 2, 7)}, "a"},                           // the last row of what is gone
		{[]listedGroup{row("b", 2, 7)}, ""},
		{[]listedGroup{row("a", 0, 0), row("b", 2, 7)}, "a"}, // gone and made again
		{[]listedGroup{row("a", 0, 0), row("b", 2, 7), row("a-fairly-long-name", 0, 0)}, "a-fairly-long-name"},
		{[]listedGroup{row("a", 0, 0), row("b", 2, 7), row("a-fairly-long-name", 0, 0), row("a-name-as-long-as-few-are", 0, 0)}, "# NAME a-name-as-long-as-few-are"},
		{[]listedGroup{row("a", 1, 0), row("b", 2, 7), row("a-fairly-long-name", 0, 0), row("a-name-as-long-as-few-are", 0, 0)}, "a"},
	} {
		out.Reset()
		if err := o.writeChanged(step.rows, g, shown); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			if fields := strings.Fields(line); fields[0] == "#" {
				bound = strings.Index(line, "BOUND")
				got = append(got, fields[:2]...)
			} else {
				got = append(got, fields[1])
				if !strings.HasPrefix(line[bound:], fields[5]) {
					t.Errorf("the columns are not below their heads: %q", line)
				}
			}
		}
		if text := strings.Join(got, " "); text != step.want {
			t.Errorf("printed %q, want %q", text, step.want)
		}
	}
}

func TestAWatchOfANameThatIsGone(t *testing.T) {
	s := serve(t, cluster()...)
	ctx, interrupt := context.WithCancel(t.Context())
	reads := 0
	s.seen = func(resource string) {
		if resource != "pods" {
			return
		}
		switch reads++; reads {
		case 1: // the answer to the first read has all
		case 2:
			for gvr, all := range s.objects {
				s.objects[gvr] = slices.DeleteFunc(all, func(o runtime.Object) bool { return strings.Contains(o.(metav1.Object).GetName(), "training") })
			}
		default:
			interrupt()
		}
	}
	var out, side bytes.Buffer
	code := Run(ctx, Config{IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &side}, Now: func() time.Time { return noon }, After: atOnce},
		[]string{"groups", "pod/training-0", "--watch", "--kubeconfig", s.kubeconfig()})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if code != ExitYes || side.Len() > 0 || len(lines) != 3 || !strings.HasSuffix(lines[2], "gone") {
		t.Errorf("exit code %d, output:\n%s\nstderr %q; want one row that ends in gone, and no error", code, &out, &side)
	}
}

func TestAWatchEndsWhenItsUserMayNotReadAnyMore(t *testing.T) {
	s := serve(t, cluster()...)
	reads := 0
	s.seen = func(resource string) {
		if resource == "pods" {
			reads++
			s.forbidden["pods"] = reads > 1
		}
	}
	var out, side bytes.Buffer
	code := Run(t.Context(), Config{IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &side}, Now: func() time.Time { return noon }, After: atOnce},
		[]string{"groups", "--watch", "--kubeconfig", s.kubeconfig()})
	if code != ExitError || !strings.Contains(side.String(), "you may not list pods") || strings.Contains(side.String(), "read again") {
		t.Errorf("exit code %d, stderr %q; want the error", code, &side)
	}
}

func TestThePauseOfAWatch(t *testing.T) {
	for _, tc := range []struct {
		took     time.Duration
		failures int
		want     time.Duration
	}{
		{0, 0, 2 * time.Second},
		{100 * time.Millisecond, 0, 2 * time.Second},
		{4 * time.Second, 0, 20 * time.Second},
		{0, 1, 4 * time.Second},
		{0, 3, 16 * time.Second},
		{0, 1000, time.Minute},
		{20 * time.Second, 2, 100 * time.Second},
	} {
		if got := pauseAfter(tc.took, tc.failures); got != tc.want {
			t.Errorf("after a read of %s and %d failures: %s, want %s", tc.took, tc.failures, got, tc.want)
		}
	}
}

func TestBuiltInKindsAreReadAsProtobuf(t *testing.T) {
	s := serve(t, cluster()...)
	var side bytes.Buffer
	Run(t.Context(), Config{IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &side}, Now: func() time.Time { return noon }},
		[]string{"cluster", "--kubeconfig", s.kubeconfig()})
	if !strings.HasPrefix(s.accepted["pods"], "application/vnd.kubernetes.protobuf") || !strings.HasSuffix(s.accepted["pods"], "application/json") || side.Len() == 0 {
		t.Errorf("pods were read as %q, want protobuf, or else JSON; stderr %q", s.accepted["pods"], &side)
	}
	if s.reads["pods"] != 1 || s.reads["jobs"] != 1 {
		t.Errorf("the command cluster read pods %d times and Jobs %d times, want once", s.reads["pods"], s.reads["jobs"])
	}
}

func TestWhyWaitsForAReason(t *testing.T) {
	s := serve(t, fresh()...)
	reads := 0
	s.seen = func(resource string) {
		if resource != scheduling.PodGroups.Resource {
			return
		}
		if reads++; reads == 2*2 { // there are two kinds of PodGroups
			pg := s.objects[scheduling.GroupVersion.WithResource(resource)][0].(*scheduling.PodGroup)
			pg.Status.Conditions = []metav1.Condition{scheduled(metav1.ConditionFalse, reason.NoRoom, "room for 0")}
		}
	}
	var out, side bytes.Buffer
	code := Run(t.Context(), Config{IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &side}, Now: func() time.Time { return noon }},
		[]string{"why", "fresh", "--wait", "1m", "--kubeconfig", s.kubeconfig()})
	if code != ExitNo || !strings.Contains(out.String(), "reason "+reason.NoRoom) || reads < 4 {
		t.Errorf("exit code %d after %d reads of PodGroups, output %q, stderr %q; want the reason", code, reads, &out, &side)
	}
}

// The command shows the age of a pod's message, as it does for a group's.
func TestTheMessageOfAPodHasItsAge(t *testing.T) {
	j := job("j")
	told := func(at time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "needs 1 pod with cpu 8; room for 0"}}
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "fluence-scheduler", Subresource: "status", Time: new(ago(at))}}
		}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"a lone pod, long ago":       {pod("p", "", "8", told(4*time.Minute)), "    needs 1 pod with cpu 8; room for 0 (as of 4m ago; --now decides anew)\n"},
		"a lone pod, seconds ago":    {pod("p", "", "8", told(2*time.Second)), "    needs 1 pod with cpu 8; room for 0 (as of 2s ago; --now decides anew)\n"},
		"a lone pod, lately":         {pod("p", "", "8", told(time.Second)), "    needs 1 pod with cpu 8; room for 0\n"},
		"a pod of a group, long ago": {pod("p", "", "8", told(4*time.Minute), ofJob(j)), "  pod p waits: needs 1 pod with cpu 8; room for 0 (as of 4m ago; --now decides anew)\n"},
	} {
		out, _, _ := call{args: "why pod/p", objects: []runtime.Object{node("node-0", "a", "r0"), j, podGroup(j, 1, 0, "Pending"), tc.pod}}.run(t)
		if !strings.Contains(out, tc.want) {
			t.Errorf("%s: %q, want %q", name, out, tc.want)
		}
	}
}

func TestAPodsConditionGetsTheReasonOfGroups(t *testing.T) {
	for message, want := range map[string]string{
		"needs 1 pod with cpu 8; room for 0: cpu is short on 4 of 4 nodes":                                        reason.NoRoom,
		"0/4 nodes are available: needs 1 pod with cpu 8; room for 0":                                             reason.NoRoom,
		"needs 1 pod with cpu 64; room for 0; does not fit even when other pods end":                              reason.NeverFits,
		"no node is large enough for one pod, cpu 64 wanted":                                                      reason.NeverFits,
		"0/4 nodes are available: persistentvolumeclaim \"data\" not found. preemption: 0/4 nodes are available.": corev1.PodReasonUnschedulable,
	} {
		if got := reasonIn(corev1.PodCondition{Reason: corev1.PodReasonUnschedulable, Message: message}); got != want {
			t.Errorf("%q has reason %s, want %s", message, got, want)
		}
	}
	if got := reasonIn(corev1.PodCondition{Reason: corev1.PodReasonSchedulingGated, Message: "; room for 0"}); got != corev1.PodReasonSchedulingGated {
		t.Errorf("reason %s, want the one of the condition", got)
	}
}
