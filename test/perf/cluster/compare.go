package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
	"github.com/flux-k8s/fluence/test/perf/cluster/trial"
)

// startTimeout bounds the start of the cluster and the build of this repository's programs.
const startTimeout = 15 * time.Minute

// compare runs a row and prints the results, even after an interruption.
func compare(ctx context.Context, root string, r row, o options) error {
	commit, dirty, err := commitOf(ctx, root)
	if err != nil {
		return err
	}
	out := o.kept(root, r)
	began := time.Now()
	line := report.Result{
		Row: r.Name, Session: began.UTC().Truncate(time.Second),
		Commit: commit, Dirty: dirty, Cores: runtime.NumCPU(),
		Parameters: r.parameters(o.args),
	}
	fmt.Fprintf(os.Stdout, "%s: %s; %d runs\n", r.Name, r.what, len(r.turns()))
	session, err := r.run(ctx, line, out, o.profiles, os.Stdout)
	if len(session.Results) > 0 {
		err = errors.Join(err, r.judge(os.Stdout, session, cmp.Or(out, filepath.Join(root, resultsFile)), o.strict))
	}
	fmt.Fprintf(os.Stdout, "\nIt took %s.", time.Since(began).Round(time.Second))
	if out == "" {
		fmt.Fprint(os.Stdout, " Nothing was kept: -out names a file.")
	}
	fmt.Fprintln(os.Stdout)
	return err
}

// judge prints the results and the verdicts on the goals. Goals that need results of other
// rows find them in the file others. If strict, it fails unless all goals were reached.
func (r row) judge(w io.Writer, s *report.Session, others string, strict bool) error {
	results, err := report.Read(others)
	if err != nil {
		return err
	}
	newest := report.Newest(results)
	if err := r.Print(w, s, newest); err != nil || !strict {
		return err
	}
	missed := 0
	for _, v := range report.Judge(r.Goals, s, newest) {
		if v.Word != report.Pass {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("-strict: %d of %d goals were not reached, or are open", missed, len(r.Goals))
	}
	return nil
}

// run makes all runs of a row on one control plane, and returns the
// runs that it made. It appends each to the file out, unless out is
// empty. profiles is the folder for profiles, if any. line has the fields that all results of the session share.
func (r row) run(ctx context.Context, line report.Result, out, profiles string, log io.Writer) (session *report.Session, err error) {
	session = &report.Session{Row: r.Name}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := cluster.Start(starting, r.cluster(log))
	if err != nil {
		return session, err
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	bench, err := trial.NewBench(starting, c, trial.Config{
		Args: line.Parameters.Args, Timing: r.timing(), Profiles: profiles, Log: log,
	})
	if err != nil {
		return session, err
	}
	return session, r.take(session, line, log, func(t turn) (report.Figures, error) {
		return bench.Run(ctx, r.plan(t))
	}, func(one report.Result) error {
		if out == "" {
			return nil
		}
		return report.Append(out, one)
	})
}

// longest is how long a row may take if another repetition is to be made after the first one.
const longest = 25 * time.Minute

// take makes the turns of a row, and adds the results to the session. It leaves out the last repetitions
// if there is no time for them. It keeps each result before it begins the next turn.
func (r row) take(session *report.Session, line report.Result, log io.Writer, run func(turn) (report.Figures, error), keep func(report.Result) error) error {
	turns := r.turns()
	for i := 0; i < len(turns); i++ {
		t := turns[i]
		one := line
		one.Date = time.Now().UTC().Truncate(time.Second)
		one.Contender, one.Repetition, one.Bracket, one.Parameters.Workers = t.Name, t.repetition, t.bracket, t.Workers()
		var err error
		if one.Figures, err = run(t); err != nil {
			return fmt.Errorf("run %d of %d, %s: %w", i+1, len(turns), t.Name, err)
		}
		if t.bracket && t.repetition > 0 && i+1 < len(turns) {
			// Each run to come takes as long as the average of those made, the start included.
			runs := i + len(r.repetition(t.repetition+1))
			if time.Since(line.Session)*time.Duration(runs)/time.Duration(i+1) > longest {
				fmt.Fprintf(log, "There is no time for more than %d of %d repetitions.\n", t.repetition, r.repetitions)
				turns = turns[:i+1]
			}
		}
		one.Runs = len(turns)
		fmt.Fprintf(log, "%d/%d  %s: %s\n", i+1, len(turns), t.Name, inShort(one.Figures))
		session.Results = append(session.Results, one)
		if err := keep(one); err != nil {
			return err
		}
	}
	return nil
}

// timing returns how long the row's runs wait for rest.
func (r row) timing() trial.Timing {
	t := trial.DefaultTiming(r.nodes)
	t.Patience = max(t.Patience, r.patience)
	return t
}

// cluster returns the control plane of a row. Nothing writes to it except the contenders, and
// almost nothing in it depends on the clock. Native PodGroups are served to all contenders.
func (r row) cluster(log io.Writer) cluster.Config {
	return cluster.Config{
		FeatureGates:  map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true},
		RuntimeConfig: map[string]bool{"scheduling.k8s.io/v1beta1": true},
		Nodes:         cluster.Nodes{Count: r.nodes, Labels: r.labels},
		NoAudit:       true,
		NoKubelet:     true,
		NoPodStages:   true,
		NoHeartbeat:   true,
		NodeLease:     600 * time.Second,
		ExtraArgs: map[string][]string{
			// Compaction is made between runs.
			cluster.Etcd:          {"--auto-compaction-retention=0"},
			cluster.KubeAPIServer: {"--etcd-compaction-interval=0"},
		},
		Log: log,
	}
}

// labels returns the labels of the i-th node: its rack, if the row has racks.
func (r row) labels(i int) map[string]string {
	if !r.rack {
		return nil
	}
	return map[string]string{backlog.RackLabel: fmt.Sprintf("r%03d", i/rackNodes)}
}

// inShort returns the result of a run in a line.
func inShort(f report.Figures) string {
	text := fmt.Sprintf("%.0f pods/s, first bind %.2fs, last %.1fs", f.PodsPerSecond, f.FirstBind, f.LastBind)
	if f.Gangs != nil {
		text += fmt.Sprintf(", slowest gang %.2fs", f.Gangs.Worst)
	}
	if s := f.Stream; s != nil {
		text += fmt.Sprintf(", %.1f gangs/s, last pod to last bind p50 %.3fs, p99 %.3fs", s.Rate, s.P50, s.P99)
	}
	if p := f.Preemption; p != nil {
		text += fmt.Sprintf(", %d evicted, first after %.3fs, last %.3fs, all bound %.3fs", p.Victims, p.First, p.Last, p.Bound)
	}
	if f.TooMany > 0 {
		text += fmt.Sprintf(", %.0f answers 429", f.TooMany)
	}
	if f.Outcome != report.AllBound {
		text += fmt.Sprintf("; %s with %d bound: %s", f.Outcome, f.Bound, strings.ReplaceAll(f.Why, "\n", "\n    "))
	}
	return text
}
