package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// options are the values of the flags.
type options struct {
	row string
	changes
	// args are arguments of the plugin Fluence, in place of the shipped ones.
	args map[string]any
	// out is the file that results are appended to. If out is empty, the results of
	// a recorded row that runs unchanged go to resultsFile, and others are not kept.
	out string
	// profiles is a folder for CPU and heap profiles, "" for none.
	profiles string
	// strict makes a row fail if one of its goals was not reached, or is open.
	strict bool
	// table makes the page's tables and runs nothing.
	table bool
}

func parse(arguments []string) (options, error) {
	o := options{args: map[string]any{}}
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	f.StringVar(&o.row, "row", "quick", "which row to run; any other name lists them")
	f.IntVar(&o.nodes, "nodes", 0, "how many nodes; 0: as the row says")
	f.IntVar(&o.pods, "pods", 0, "how many pods are to be bound; 0: as the row says")
	f.IntVar(&o.repetitions, "repetitions", 0, "how often the contenders take turns; 0: as the row says")
	f.IntVar(&o.seconds, "seconds", 0, "how long gangs come in a stream; 0: as the row says")
	f.Func("only", "contenders of the row to run, separated by commas; all if not given", func(names string) error {
		o.only = strings.Split(names, ",")
		return nil
	})
	f.Func("arg", "KEY=VALUE, an argument of the plugin Fluence; may be given several times", o.setArg)
	f.StringVar(&o.out, "out", "", "file that results are appended to, a line of JSON each; if not given "+resultsFile+
		", unless the row is quick or changed by another flag. Goals that look at another row find it there")
	f.StringVar(&o.profiles, "profile", "", "folder for CPU and heap profiles of the API server and of schedulers. "+
		"go tool pprof adds the pieces of a CPU profile up. It changes the row, because profiles cost time")
	f.BoolVar(&o.strict, "strict", false, "fail unless each goal of the row was reached")
	f.BoolVar(&o.table, "table", false, "write the tables of "+pageFile+" from "+resultsFile+", and run nothing")
	if err := f.Parse(arguments); err != nil {
		return options{}, err
	}
	if f.NArg() > 0 {
		return options{}, fmt.Errorf("%q is no flag", f.Arg(0))
	}
	return o, nil
}

// kept returns the file for the results of a row, "" if they are not kept.
func (o options) kept(root string, r row) string {
	if o.out == "" && r.recorded && !o.any() && len(o.args) == 0 && o.profiles == "" {
		return filepath.Join(root, resultsFile)
	}
	return o.out
}

// setArg reads an argument's value as YAML, as in the scheduler's configuration.
func (o *options) setArg(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q is not KEY=VALUE", text)
	}
	var v any
	if err := yaml.Unmarshal([]byte(value), &v); err != nil {
		return fmt.Errorf("the value of %s: %w", key, err)
	}
	o.args[key] = v
	return nil
}
