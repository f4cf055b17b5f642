package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

func TestBadGroupSizesAreConditions(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "8")
	for name, value := range map[string]string{"zero": "0", "word": "x", "fraction": "1.5", "vast": "100001"} {
		s.applyText(job(name, 1, "1", fmt.Sprintf("labels: {fluence.group-size: %q}", value)))
		s.refused("job-"+name+"-", "InvalidGroupSize", "fluence.group-size", fmt.Sprintf("%q", value))
	}
	// The API server refuses a label that begins with a minus.
	_, _, err := s.KubectlInput(t.Context(), strings.NewReader(job("minus", 1, "1", `labels: {fluence.group-size: "-1"}`)), "apply", "-n", s.ns, "-f", "-")
	if err == nil || !strings.Contains(err.Error(), `"-1"`) {
		t.Errorf("apply with size -1: %v, want an error that names it", err)
	}
	s.applyText(lonePod("other", "fluence"))
	s.running("other", 1)
	for _, name := range []string{"zero", "word", "fraction", "vast"} {
		s.noneOnNodes(name + "-")
	}
}

func TestRequestLargerThanAnyNodeNeverFits(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.applyText(job("giant", 2, "100"))
	s.refused("job-giant-", "NeverFits", "no node is large enough", "cpu 100 wanted", "largest node has 8")
	s.applyText(job("small", 2, "1"))
	s.running("small-", 2)
}

func TestBadArgumentsEndTheSchedulerWithTheFieldAndTheValue(t *testing.T) {
	cases := map[string]struct {
		args map[string]any
		want []string
	}{
		"a field that does not exist":  {args: map[string]any{"matchTimeoutt": "2s"}, want: []string{`unknown field "matchTimeoutt"`}},
		"a policy that does not exist": {args: map[string]any{"matchPolicy": "fifo"}, want: []string{"args.matchPolicy", `"fifo"`, `"lonode"`}},
		"a timeout of nothing":         {args: map[string]any{"matchTimeout": "0s"}, want: []string{"args.matchTimeout", `"0s"`}},
		"a level that is no label key": {args: map[string]any{"topologyLevels": []string{"zone", "no key"}}, want: []string{"args.topologyLevels[1]", `"no key"`}},
		"a remote host without TLS":    {args: map[string]any{"endpoint": "tcp://192.0.2.1:4242"}, want: []string{"tcp://192.0.2.1:4242", "not a loopback address"}},
		"no address":                   {args: map[string]any{"endpoint": ""}, want: []string{"args.endpoint"}},
	}
	bin, err := stack.Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := schedulerConfigWith(t, tc.args)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			said, err := exec.CommandContext(ctx, filepath.Join(bin, stack.Scheduler), "--config="+path, "--secure-port=0").CombinedOutput()
			if err == nil || ctx.Err() != nil {
				t.Fatalf("the scheduler ran: %v\n%s", err, said)
			}
			for _, w := range tc.want {
				if !strings.Contains(string(said), w) && !strings.Contains(strings.ReplaceAll(string(said), `\"`, `"`), w) {
					t.Errorf("the scheduler said:\n%s\nwant %q in it", said, w)
				}
			}
		})
	}
}

func TestMissingCRDKeepsGangsWaitingAndNobodyElse(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{StockScheduler: true, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	st, err := stack.Start(ctx, c, stack.Config{WithoutCRD: true, SidecarBinary: *sidecar, SidecarArgs: strings.Fields(*sidecarArgs), Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, Stack: st, ns: "default"}
	s.nodes("n", 2, "8")
	s.applyText(job("gang", 2, "1"))
	s.applyText(lonePod("alone", "fluence"))
	s.applyText(lonePod("other", "default-scheduler"))
	s.running("alone", 1)
	s.running("other", 1)
	s.eventually("an event on a pod of the gang", func(context.Context) (bool, string) {
		out := s.kubectl("get", "events", "-n", s.ns)
		return strings.Contains(out, "NoPodGroup") && strings.Contains(out, "which does not exist"), out
	})
	for _, name := range []string{stack.Scheduler, stack.Controller} {
		if err := s.Process(name).WaitLog(ctx, "podgroups.scheduling.x-k8s.io"); err != nil {
			t.Errorf("%s does not say what is missing: %v", name, err)
		}
	}
	s.noneOnNodes("gang-")
	if err := s.InstallCRD(ctx); err != nil {
		t.Fatal(err)
	}
	s.running("gang-", 2)
}
