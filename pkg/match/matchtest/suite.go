// Package matchtest is the suite of rules that every match.Engine keeps. It also has the builders
// that the suite uses, and a scripted engine for the tests of callers.
package matchtest

import (
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Capabilities lists what an engine offers beyond the minimum. The minimum is to give out and
// release whole pools, to answer exact repeats, and to keep epochs. A rule about something that is
// not offered is skipped.
type Capabilities struct {
	// Divisible: pools are given out in amounts of any size. Without it, only whole cores and whole
	// GiB are given out.
	Divisible bool
	// Shapes: a request may hold several slot requests.
	Shapes bool
	// Ranges: the count of a slot request may be a range.
	Ranges bool
	// PartialRelease: Release accepts keys.
	PartialRelease bool
	// Update: slots that the cluster already holds can be booked.
	Update bool
	// Constraints: slots can be restricted to nodes by name and property.
	Constraints bool
	// MaxPerLevel: the number of slots below one vertex can be bounded.
	MaxPerLevel bool
	// Limits: slots of several labels can be bounded together. Without it, a limit is
	// match.ErrInvalid.
	Limits bool
	// Topology: slots can be kept together, or balanced, by level. Without it, a topology is
	// match.ErrInvalid.
	Topology bool
	// Near: nodes can be ordered by their distance.
	Near bool
	// Ignore: the resources of some jobs can count as free.
	Ignore bool
	// Ending: some slots of a job can count as free. Without it, ending slots are match.ErrInvalid.
	Ending bool
	// Displace: the engine finds the units that have to go for a request. Without it, units to displace are
	// match.ErrInvalid.
	Displace bool
	// Replaces: a request can take over slots of another job. Without it, a job to replace is match.ErrInvalid.
	Replaces bool
	// Expected: slots that no job holds can count as held for one request.
	Expected bool
	// Reserve: AllocateOrElseReserve reserves a later time. Without it, the operation is
	// match.ErrInvalid.
	Reserve bool
	// Policies are the policies that a request may name, except match.PolicyLonode, which every engine
	// has. A policy that is not listed is match.ErrInvalid. An engine with match.PolicyLonodex gives
	// out whole nodes.
	Policies []string
	// Reasons: a refusal has all numbers, and they are exact. Without it, only the verdict is checked.
	Reasons bool
}

// A rule is one rule of the contract.
type rule struct {
	// needs reports whether an engine with these capabilities must keep the rule. Nil means that every
	// engine must.
	needs func(Capabilities) bool
	test  func(t *testing.T, s *subject)
}

// Test checks that an engine keeps the rules of match.Engine, one subtest for each rule. newEngine
// returns an engine that was never reset.
func Test(t *testing.T, c Capabilities, newEngine func(t *testing.T) match.Engine) {
	t.Helper()
	chapters := map[string]map[string]rule{
		"epochs":      epochRules,
		"match":       matchRules,
		"order":       orderRules,
		"policies":    policyRules,
		"whole nodes": wholeRules,
		"held whole":  heldWholeRules,
		"shapes":      shapeRules,
		"ranges":      rangeRules,
		"narrowing":   narrowRules,
		"limits":      limitRules,
		"topology":    topologyRules,
		"operations":  operationRules,
		"reserving":   reserveRules,
		"refusals":    refusalRules,
		"arguments":   argumentRules,
		"repeats":     repeatRules,
		"releases":    releaseRules,
		"updates":     updateRules,
		"nodes":       nodeRules,
		"ending":      endingRules,
		"expected":    expectedRules,
		"displacing":  displaceRules,
		"replacing":   replaceRules,
		"amounts":     amountRules,
		"lists":       listRules,
		"concurrency": concurrencyRules,
	}
	for _, chapter := range sortedKeys(chapters) {
		t.Run(chapter, func(t *testing.T) {
			rules := chapters[chapter]
			for _, name := range sortedKeys(rules) {
				t.Run(name, func(t *testing.T) {
					r := rules[name]
					if r.needs != nil && !r.needs(c) {
						t.Skip("not offered by this engine")
					}
					r.test(t, &subject{Engine: newEngine(t), can: c})
				})
			}
		})
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// The conditions of rules.
func divisible(c Capabilities) bool   { return c.Divisible }
func shapes(c Capabilities) bool      { return c.Shapes }
func ranges(c Capabilities) bool      { return c.Ranges }
func partial(c Capabilities) bool     { return c.PartialRelease }
func updates(c Capabilities) bool     { return c.Update }
func constraints(c Capabilities) bool { return c.Constraints }
func maxPerLevel(c Capabilities) bool { return c.MaxPerLevel }
func limits(c Capabilities) bool      { return c.Limits }
func topology(c Capabilities) bool    { return c.Topology }
func near(c Capabilities) bool        { return c.Near }
func ignores(c Capabilities) bool     { return c.Ignore }
func endings(c Capabilities) bool     { return c.Ending }
func replaces(c Capabilities) bool    { return c.Replaces }
func expects(c Capabilities) bool     { return c.Expected }
func reasons(c Capabilities) bool     { return c.Reasons }
func wholeNodes(c Capabilities) bool  { return slices.Contains(c.Policies, match.PolicyLonodex) }

func wholeAndUpdates(c Capabilities) bool { return c.Update && wholeNodes(c) }

func policy(p string) func(Capabilities) bool {
	return func(c Capabilities) bool { return slices.Contains(c.Policies, p) }
}

func both(x, y func(Capabilities) bool) func(Capabilities) bool {
	return func(c Capabilities) bool { return x(c) && y(c) }
}
