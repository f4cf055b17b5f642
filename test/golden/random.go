package golden

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Random draws a case without answers: a graph, options, jobspecs and
// steps. The same seed gives the same case. Record adds the answers.
func Random(seed uint64) Case {
	r := rand.New(rand.NewPCG(seed, 0))
	g := drawGraph(r)
	c := Case{
		ID: fmt.Sprintf("random-%d", seed), Family: "random", Title: fmt.Sprintf("drawn with seed %d", seed),
		GraphText: g.text(), Jobspecs: map[string]string{}, Seed: int64(seed >> 1),
	}
	options := drawOptions(r)
	c.Options, _ = json.Marshal(options) // of texts alone
	policy := options["matcher_policy"]
	d := &drawer{Rand: r, graph: g, whole: strings.HasSuffix(policy, "nodex") || strings.Contains(policy, "node_exclusive=true")}
	n := 2 + r.IntN(8)
	for i := range n {
		c.Jobspecs[fmt.Sprintf("j%d", i+1)] = d.jobspec()
	}
	matches := 0
	for range 5 + r.IntN(25) {
		s := Step{Op: OpMatch, Jobspec: fmt.Sprintf("j%d", 1+r.IntN(n))}
		switch k := r.IntN(20); {
		case k < 7:
			s.MatchOp = Allocate
		case k < 11:
			s.MatchOp = AllocateOrElseReserve
		case k < 13:
			s.MatchOp = AllocateWithSatisfy
		case k < 14:
			s.MatchOp = WithoutAllocating
		case k < 15:
			s.MatchOp = WithoutAllocatingFuture
		case k < 16:
			s.Op = OpSatisfy
		case k < 19:
			s = Step{Op: OpCancel, JobID: uint64(1 + r.IntN(matches/2+1)), NoentOK: r.IntN(2) == 0}
		default:
			s = Step{Op: OpInfo, JobID: uint64(1 + r.IntN(matches/2+1))}
		}
		if s.Op == OpMatch {
			matches++
		}
		c.Steps = append(c.Steps, s)
	}
	return c
}

// pickOf returns one of several values at random. A
// value that is listed more often is more likely.
func pickOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func drawOptions(r *rand.Rand) map[string]string {
	o := map[string]string{
		"load_format": "jgf", "match_format": pickOf(r, "jgf", "jgf", "jgf", "jgf", "jgf", "jgf", "rv1", "rv1_nosched", "rlite", "simple"),
		"matcher_policy": pickOf(r, "first", "first", "low", "high", "lonode", "hinode", "lonodex", "hinodex", "firstnodex", "locality", "variation",
			"policy=high", "policy=low node_centric=true", "policy=low stop_on_1_matches=true",
			"policy=low node_centric=true node_exclusive=true stop_on_1_matches=true", "policy=high node_centric=false node_exclusive=true"),
	}
	o["prune_filters"] = pickOf(r, "ALL:core", "ALL:core", "ALL:core,ALL:node", "ALL:core,ALL:node", "", "ALL:gpu,ALL:core",
		"ALL:memory,ALL:core", "node:gpu", "cluster:node,rack:core", "ALL:core,node:gpu,cluster:node", "ALL:core,ALL:gpu,ALL:memory")
	return o
}
