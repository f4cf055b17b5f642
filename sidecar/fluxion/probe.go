package fluxion

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// probeGraph is the smallest graph with which to find out how a release books R: one node with one
// core. It is the first graph of the process.
const probeGraph = `{"graph":{"nodes":[` +
	`{"id":"0","metadata":{"type":"cluster","id":0,"rank":-1,"paths":{"containment":"/cluster0"}}},` +
	`{"id":"1","metadata":{"type":"node","basename":"n","name":"n0","id":0,"rank":0,"paths":{"containment":"/cluster0/n0"}}},` +
	`{"id":"2","metadata":{"type":"core","id":0,"rank":0,"paths":{"containment":"/cluster0/n0/core0"}}}],` +
	`"edges":[{"source":"0","target":"1"},{"source":"1","target":"2"}]}}`

// probeOptions returns the options of the probe's graph. Its filters teach the library all names
// that later graphs may use, although the probe's graph has none of these types.
func probeOptions() string {
	return `{"load_format":"jgf","match_format":"jgf","matcher_policy":"low","prune_filters":"ALL:` +
		strings.Join(suppliedNames(), ",ALL:") + `"}`
}

// plainR returns the R for UpdateAllocate as JGF alone.
func plainR(jgf string) string { return jgf }

// wrappedR returns the R for UpdateAllocate as RFC 20 defines it, with the JGF under the key
// "scheduling".
func wrappedR(jgf string) string {
	return `{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"starttime":0,"expiration":3153600000},"scheduling":` + jgf + `}`
}

// probe finds out, on a separate graph, in which form UpdateAllocate accepts R. It returns nil if
// no form works. Success of UpdateAllocate is not enough: afterwards the core must be held, and be
// free once its job is cancelled. It fails if the library does not load the graph.
func probe(open func() Library) (wrap func(jgf string) string, err error) {
	for _, wrap := range []func(string) string{plainR, wrappedR} {
		if ok, err := books(open, wrap); ok || err != nil {
			return wrap, err
		}
	}
	return nil, nil
}

// books reports whether UpdateAllocate books R in this form.
func books(open func() Library, wrap func(string) string) (bool, error) {
	s, err := openSession(open(), probeGraph, probeOptions())
	if err != nil {
		return false, fmt.Errorf("probe the library: %w", err)
	}
	defer s.close()
	ctx := context.Background()
	core := request{count: exactly(1), need: []unitCount{{"core", 1}}}.encode()
	r, job, err := s.match(ctx, core)
	if err != nil || s.cancel(job) != nil {
		return false, nil
	}
	s.wrap = wrap
	job, ok, err := s.update(ctx, r)
	if err != nil || !ok {
		return false, nil
	}
	if _, _, err := s.match(ctx, core); !errors.Is(err, errNoRoom) {
		return false, nil
	}
	if s.cancel(job) != nil {
		return false, nil
	}
	_, _, err = s.match(ctx, core)
	return err == nil, nil
}
