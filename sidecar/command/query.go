// Package command has the subcommands of fluence-sidecar. They use a
// matcher themselves, without Kubernetes. The caller chooses the matcher.
//
// Its files, each of which uses those before it:
//
//	exit.go     the exit codes
//	options.go  the options of Fluxion
//	input.go    reads files and standard input
//	query.go    the flags, the graph and the jobspecs of a command
//	match.go    the command match
//	satisfy.go  the command satisfy
//	stats.go    counts the vertices of a graph
//	info.go     the command info
package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// An Engine is the part of a match.GraphEngine that the commands use.
type Engine interface {
	Reset(ctx context.Context) (match.Epoch, error)
	AddSubgraph(ctx context.Context, e match.Epoch, jgf []byte) error
	Ready(ctx context.Context, e match.Epoch) error
	Match(ctx context.Context, r match.Request) (*match.Allocation, error)
}

// Embedded is the engine that the commands use by default.
const Embedded = "embedded"

// An Opener returns the engine with this name, Embedded or another, for match, satisfy and info, with
// Fluxion's initialisation options as JSON. It fails for unknown names and for invalid options.
type Opener func(engine string, options []byte) (Engine, error)

// A query has the flags that match, satisfy and info have in common: for a graph, and for an engine
// that loads it.
type query struct {
	open   Opener
	engine string
	// graph is the file of the graph. "-" is standard input.
	graph string
	// jobspecs are the files of the jobspecs. "-" is
	// standard input, which only one of all files may be.
	jobspecs []string
	// options are Fluxion's options, as JSON. The fields
	// below override them if their flags are given.
	options      string
	policy       string
	pruneFilters string
	matcherName  string
	// now is the time of every request: seconds since 1970, or RFC 3339.
	now   string
	flags *pflag.FlagSet
}

// The flags that override --options.
const (
	flagPolicy  = "policy"
	flagFilters = "prune-filters"
	flagMatcher = "matcher-name"
)

func (a *query) addFlags(f *pflag.FlagSet) {
	a.flags = f
	f.StringVar(&a.engine, "engine", Embedded, `what matches: "embedded", or "fluxion" where its library is part of the program`)
	f.StringVarP(&a.graph, "graph", "g", "", `file of the resource graph as JGF; "-" is standard input`)
	f.StringVar(&a.options, "options", "{}", "initialisation options as Fluxion takes them, a JSON object")
	f.StringVar(&a.policy, flagPolicy, "", "the option matcher_policy, for instance low")
	f.StringVar(&a.pruneFilters, flagFilters, "", "the option prune_filters, for instance ALL:core,ALL:node; empty for none")
	f.StringVar(&a.matcherName, flagMatcher, "", "the option matcher_name; only CA (containment) is supported")
}

func (a *query) addJobspecFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&a.jobspecs, "jobspec", "j", nil,
		`file of a jobspec of RFC 14, as YAML or JSON; "-" is standard input. Repeat it to match several, one after the other`)
	f.StringVar(&a.now, "now", "0", "the time of all matches, in seconds since 1970 or as RFC 3339")
}

// check fails for flags that do not belong together.
func (a *query) check(wantJobspec bool) error {
	if a.graph == "" {
		return usage("--graph is required")
	}
	if wantJobspec && len(a.jobspecs) == 0 {
		return usage("--jobspec is required")
	}
	piped := 0
	for _, name := range append(slices.Clone(a.jobspecs), a.graph) {
		if name == stdin {
			piped++
		}
	}
	if piped > 1 {
		return usage("%q: standard input is named %d times, but can be read only once", stdin, piped)
	}
	return nil
}

// initOptions returns the options as one JSON object. The flags override
// --options. Graphs are JGF unless --options has another format.
func (a *query) initOptions() (map[string]json.RawMessage, error) {
	overrides := map[string]string{}
	for _, f := range []struct{ flag, option, value string }{
		{flagPolicy, OptionPolicy, a.policy},
		{flagFilters, "prune_filters", a.pruneFilters},
		{flagMatcher, "matcher_name", a.matcherName},
	} {
		if a.flags.Changed(f.flag) { // An empty flag counts, too.
			overrides[f.option] = f.value
		}
	}
	o, err := ReadOptions(a.options, nil, overrides)
	if err != nil {
		return nil, usage("--options %q: %w", a.options, err)
	}
	return o, nil
}

// clock reads --now.
func (a *query) clock() (time.Time, error) {
	if seconds, err := strconv.ParseInt(a.now, 10, 64); err == nil && seconds >= 0 {
		return time.Unix(seconds, 0).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, a.now)
	if err != nil {
		return t, usage("--now %q: must be seconds since 1970 or a time of RFC 3339", a.now)
	}
	return t.UTC(), nil
}

// A loadedEngine is an engine with a graph, ready for matches.
type loadedEngine struct {
	Engine
	epoch match.Epoch
	// text is the JGF of the graph.
	text []byte
	// took is the time that the engine needed to load the graph.
	took time.Duration
}

// load reads the graph and loads it into an engine.
func (a *query) load(ctx context.Context, in io.Reader) (*loadedEngine, error) {
	options, err := a.initOptions()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(options)
	if err != nil {
		return nil, usage("--options %q: %w", a.options, err)
	}
	e, err := a.open(a.engine, text)
	if err != nil {
		return nil, &usageError{err}
	}
	l := &loadedEngine{Engine: e}
	if l.text, err = readInput(a.graph, in, fluxionpb.MaxGraph); err != nil {
		return nil, err
	}
	if l.epoch, err = e.Reset(ctx); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := e.AddSubgraph(ctx, l.epoch, l.text); err != nil {
		return nil, fmt.Errorf("graph %s: %w", a.graph, err)
	}
	if err := e.Ready(ctx, l.epoch); err != nil {
		return nil, fmt.Errorf("graph %s: %w", a.graph, err)
	}
	l.took = time.Since(begin)
	return l, nil
}

// readJobspecs reads all jobspecs, so that an invalid one is found before anything is matched.
func (a *query) readJobspecs(in io.Reader) ([]*jobspec.Jobspec, error) {
	specs := make([]*jobspec.Jobspec, len(a.jobspecs))
	for i, name := range a.jobspecs {
		text, err := readInput(name, in, jobspec.MaxSize)
		if err != nil {
			return nil, err
		}
		if specs[i], err = jobspec.Parse(text); err != nil {
			return nil, fmt.Errorf("jobspec %s: %w", name, err)
		}
	}
	return specs, nil
}

// requests returns a request for each jobspec. The job ids count up from 1.
func (a *query) requests(in io.Reader, op match.Op) ([]match.Request, error) {
	now, err := a.clock()
	if err != nil {
		return nil, err
	}
	specs, err := a.readJobspecs(in)
	if err != nil {
		return nil, err
	}
	requests := make([]match.Request, len(specs))
	for i, js := range specs {
		requests[i] = match.Request{
			Op: op, ID: match.JobID(i + 1), Jobspec: js, Now: now, Duration: js.Attributes.System.Duration,
		}
	}
	return requests, nil
}
