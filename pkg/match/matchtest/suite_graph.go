package matchtest

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A graphRule is one rule of the contract about graphs that were added.
type graphRule func(t *testing.T, s *graphSubject)

// TestGraph checks that an engine keeps the rules of match.GraphEngine, one subtest for each rule.
// newEngine returns an engine that was never reset and whose pruning filters are Fluxion's own,
// ALL:core,ALL:node. TestGraph complements Test, which puts nodes.
func TestGraph(t *testing.T, newEngine func(t *testing.T) match.GraphEngine) {
	t.Helper()
	chapters := map[string]map[string]graphRule{
		"beginnings":   graphBeginRules,
		"mistakes":     graphMistakeRules,
		"matches":      graphMatchRules,
		"shapes":       graphShapeRules,
		"repeats":      graphRepeatRules,
		"releases":     graphReleaseRules,
		"replacing":    graphReplaceRules,
		"updates":      graphUpdateRules,
		"reservations": graphReserveRules,
		"statuses":     graphStatusRules,
		"changes":      graphChangeRules,
		"searches":     graphFindRules,
	}
	for _, chapter := range sortedKeys(chapters) {
		t.Run(chapter, func(t *testing.T) {
			rules := chapters[chapter]
			for _, name := range sortedKeys(rules) {
				t.Run(name, func(t *testing.T) {
					e := newEngine(t)
					rules[name](t, &graphSubject{subject: &subject{Engine: e}, graphs: e})
				})
			}
		})
	}
}
