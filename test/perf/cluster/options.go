package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// options are what the flags say.
type options struct {
	row string
	changes
	// args are arguments of the plugin Fluence, in place of those that are shipped.
	args map[string]any
	// out is the file that results are appended to; empty is that of the page for a row
	// that is kept there and run as it is, and none otherwise.
	out string
	// strict fails a row of which a goal was not reached, or is open.
	strict bool
	// table makes the page's tables and nothing else.
	table bool
}

func parse(arguments []string) (options, error) {
	o := options{args: map[string]any{}}
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	f.StringVar(&o.row, "row", "quick", "which row to run; any other name lists them")
	f.IntVar(&o.nodes, "nodes", 0, "how many nodes; 0: as the row says")
	f.IntVar(&o.pods, "pods", 0, "how many pods are to be bound; 0: as the row says")
	f.IntVar(&o.repetitions, "repetitions", 0, "how often the contenders take turns; 0: as the row says")
	f.Func("only", "contenders of the row to run, separated by commas; all if not given", func(names string) error {
		o.only = strings.Split(names, ",")
		return nil
	})
	f.Func("arg", "KEY=VALUE, an argument of the plugin Fluence; may be given several times", o.setArg)
	f.StringVar(&o.out, "out", "", "file that results are appended to, a line of JSON each; if not given "+resultsFile+
		", unless the row is quick or changed by another flag. Goals that look at another row find it there")
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

// kept is the file that the results of a row go to; empty for none.
func (o options) kept(root string, r row) string {
	if o.out == "" && r.recorded && !o.any() && len(o.args) == 0 {
		return filepath.Join(root, resultsFile)
	}
	return o.out
}

// setArg reads the value as YAML, as the scheduler's configuration has it.
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
