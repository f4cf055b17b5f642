package engine_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// TestScripts runs the scripts in testdata. Their commands:
//
//	load                        resets the engine, puts nodes, one on each line, and calls Ready
//	put                         puts nodes: name level:name... pool=amount...
//	match job=N                 slot requests, one on each line: label count pool=amount...
//	    on=hosts now=hosts per=level:n keys=(..) near=(..) ignore=(..) op=satisfy|try policy=.. holder=..
//	update job=N                slots, one on each line: key node pool=amount... of=holder shared
//	release job=N keys=(..)
//	remove node=NAME
//	status node=NAME is=up|down
//	held
//
// An amount has its unit, as in core=500m. A count is a number or a range, as in 1..4 or 1..9+2.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{driver{e: newEngine(t)}}
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct{ driver }

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	ctx := t.Context()
	switch d.Cmd {
	case "load":
		s.load(t, putNodes(t, d)...)
		return "ok"
	case "put":
		return errorText(s.e.PutNode(ctx, s.epoch, putNodes(t, d)...))
	case "match":
		a, err := s.e.Match(ctx, s.ask(t, d))
		if err != nil {
			return err.Error()
		}
		return written(a.Slots)
	case "update":
		return errorText(s.e.Update(ctx, s.epoch, match.Job{ID: jobOf(t, d), Slots: heldSlots(t, d)}))
	case "release":
		return errorText(s.e.Release(ctx, s.epoch, jobOf(t, d), words(d, "keys")...))
	case "remove":
		return errorText(s.e.RemoveNode(ctx, s.epoch, words(d, "node")[0]))
	case "status":
		status := map[string]resource.Status{"up": resource.Up, "down": resource.Down}[words(d, "is")[0]]
		return errorText(s.e.SetStatus(ctx, s.epoch, words(d, "node")[0], status))
	case "held":
		jobs, err := s.e.Jobs(ctx, s.epoch)
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for _, j := range jobs {
			fmt.Fprintf(&b, "job %d: %s\n", j.ID, written(j.Slots))
		}
		if b.Len() == 0 {
			return "nothing"
		}
		return b.String()
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

// ask parses a match.
func (s *script) ask(t *testing.T, d *datadriven.TestData) match.Request {
	js := matchtest.Jobspec()
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		js.Resources = append(js.Resources, matchtest.Slot(f[0], countOf(t, f[1]), poolsOf(t, f[2:])...))
		var narrow jobspec.SlotAttributes
		for _, w := range f[2:] {
			switch name, value, _ := strings.Cut(w, "="); name {
			case "on":
				narrow.Constraints = matchtest.Hosts(value)
			case "now":
				narrow.ConstraintsNow = matchtest.Hosts(value)
			case "per":
				kind, n, _ := strings.Cut(value, ":")
				narrow.MaxPerLevel = map[string]int64{kind: number(t, n)}
			}
		}
		matchtest.Constrain(js, f[0], narrow)
	}
	r := s.request(jobOf(t, d), js)
	r.Keys, r.Near = words(d, "keys"), words(d, "near")
	r.Policy, r.Holder = strings.Join(words(d, "policy"), ""), strings.Join(words(d, "holder"), "")
	for _, w := range words(d, "ignore") {
		r.Ignore = append(r.Ignore, match.JobID(number(t, w)))
	}
	for _, w := range words(d, "op") {
		r.Op = map[string]match.Op{"satisfy": match.Satisfiability, "try": match.WithoutAllocating}[w]
	}
	return r
}

func putNodes(t *testing.T, d *datadriven.TestData) []*resource.Graph {
	var nodes []*resource.Graph
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		var levels [][2]string
		for _, w := range f[1:] {
			if kind, name, ok := strings.Cut(w, ":"); ok {
				levels = append(levels, [2]string{kind, name})
			}
		}
		nodes = append(nodes, matchtest.Node(f[0], levels, poolsOf(t, f[1:])...))
	}
	return nodes
}

func heldSlots(t *testing.T, d *datadriven.TestData) []match.Slot {
	var slots []match.Slot
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		slot := matchtest.Held(f[0], f[1], poolsOf(t, f[2:])...)
		for _, w := range f[2:] {
			if holder, ok := strings.CutPrefix(w, "of="); ok {
				slot.Holder = holder
			}
			slot.Shared = slot.Shared || w == "shared"
		}
		slots = append(slots, slot)
	}
	return slots
}

// poolsOf parses the pools among words, and skips the other words.
func poolsOf(t *testing.T, from []string) []matchtest.Pool {
	var pools []matchtest.Pool
	for _, w := range from {
		kind, amount, ok := strings.Cut(w, "=")
		if !ok || kind == "on" || kind == "now" || kind == "per" || kind == "of" {
			continue
		}
		digits := strings.TrimRight(amount, "mB")
		pools = append(pools, matchtest.Pool{Type: kind, Amount: number(t, digits), Unit: amount[len(digits):]})
	}
	return pools
}

func countOf(t *testing.T, word string) jobspec.Count {
	low, high, ok := strings.Cut(word, "..")
	if !ok {
		return jobspec.Exactly(number(t, word))
	}
	c := jobspec.Between(number(t, low), 0)
	if at := strings.IndexAny(high, "+*^"); at >= 0 {
		c.Operator, c.Operand = high[at], number(t, high[at+1:])
		high = high[:at]
	}
	c.Max = number(t, high)
	return c
}

func number(t *testing.T, word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func jobOf(t *testing.T, d *datadriven.TestData) match.JobID {
	return match.JobID(number(t, words(d, "job")[0]))
}

func words(d *datadriven.TestData, key string) []string {
	a, _ := d.Arg(key)
	return a.Vals
}

// written renders the node of each slot.
func written(slots []match.Slot) string {
	out := make([]string, len(slots))
	for i, s := range slots {
		out[i] = s.Key + "@" + s.Node
	}
	return strings.Join(out, " ")
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}
