package main

import (
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
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
	"github.com/flux-k8s/fluence/test/perf/cluster/trial"
)

// startTimeout bounds the start of the cluster, the programs of this repository compiled.
const startTimeout = 15 * time.Minute

// compare runs a row and prints what it found, also when it was interrupted.
func compare(ctx context.Context, root string, r row, o options) error {
	commit, dirty, err := commitOf(ctx, root)
	if err != nil {
		return err
	}
	out := o.kept(root, r)
	began := time.Now()
	line := report.Result{
		Row: r.Name, Session: began.UTC().Truncate(time.Second), Runs: len(r.turns()),
		Commit: commit, Dirty: dirty, Cores: runtime.NumCPU(),
	}
	fmt.Fprintf(os.Stdout, "%s: %s; %d runs\n", r.Name, r.what, line.Runs)
	session, err := r.run(ctx, line, o.args, out, os.Stdout)
	if len(session.Results) > 0 {
		others, errRead := report.Read(filepath.Join(root, resultsFile))
		err = errors.Join(err, errRead, r.Print(os.Stdout, session, report.Newest(others)))
	}
	fmt.Fprintf(os.Stdout, "\nIt took %s.", time.Since(began).Round(time.Second))
	if out == "" {
		fmt.Fprint(os.Stdout, " Nothing was kept: -out names a file.")
	}
	fmt.Fprintln(os.Stdout)
	return err
}

// run makes all runs of a row on one control plane, and returns those that were made.
// Each is appended to the file out unless that is empty. line has what all results of the
// session have in common.
func (r row) run(ctx context.Context, line report.Result, args map[string]any, out string, log io.Writer) (session *report.Session, err error) {
	session = &report.Session{Row: r.Name}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := cluster.Start(starting, r.cluster(log))
	if err != nil {
		return session, err
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	bench, err := trial.NewBench(starting, c, args, trial.DefaultTiming(r.nodes), log)
	if err != nil {
		return session, err
	}
	for i, t := range r.turns() {
		one := line
		one.Date, one.Contender, one.Repetition, one.Bracket = time.Now().UTC().Truncate(time.Second), t.Name, t.repetition, t.bracket
		one.Parameters = report.Parameters{Nodes: r.nodes, Pods: r.pods, Size: r.size, CPU: r.cpu, Workers: t.Workers(), Args: args}
		if one.Figures, err = bench.Run(ctx, r.plan(t)); err != nil {
			return session, fmt.Errorf("run %d of %d, %s: %w", i+1, line.Runs, t.Name, err)
		}
		fmt.Fprintf(log, "%d/%d  %s: %s\n", i+1, line.Runs, t.Name, inShort(one.Figures))
		session.Results = append(session.Results, one)
		if out == "" {
			continue
		}
		if err := report.Append(out, one); err != nil {
			return session, err
		}
	}
	return session, nil
}

// cluster is the control plane of a row: nobody writes beside the contenders, and nothing
// in it happens by the clock, as far as it can be helped. Native PodGroups are served to
// all.
func (r row) cluster(log io.Writer) cluster.Config {
	return cluster.Config{
		FeatureGates:  map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true},
		RuntimeConfig: map[string]bool{"scheduling.k8s.io/v1beta1": true},
		Nodes:         cluster.Nodes{Count: r.nodes},
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

// inShort says in a line what came of a run.
func inShort(f report.Figures) string {
	text := fmt.Sprintf("%.0f pods/s, first bind %.2fs, last %.1fs", f.PodsPerSecond, f.FirstBind, f.LastBind)
	if f.Gangs != nil {
		text += fmt.Sprintf(", slowest gang %.2fs", f.Gangs.Worst)
	}
	if f.TooMany > 0 {
		text += fmt.Sprintf(", %.0f answers 429", f.TooMany)
	}
	if f.Outcome != report.AllBound {
		text += fmt.Sprintf("; %s with %d bound: %s", f.Outcome, f.Bound, strings.ReplaceAll(f.Why, "\n", "\n    "))
	}
	return text
}
