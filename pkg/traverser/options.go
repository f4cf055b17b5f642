package traverser

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Options are the options with which Fluxion's library is initialised, under
// Fluxion's names. The zero value has no pruning filter; see DefaultOptions.
type Options struct {
	// LoadFormat is the format of graphs. Only "jgf" is allowed.
	LoadFormat string `json:"load_format"`
	// MatcherPolicy is the policy for requests that name none. It
	// is one of match.GraphPolicies or the text of a custom policy.
	MatcherPolicy string `json:"matcher_policy"`
	// MatcherName is the choice of subsystems to walk. Only
	// "CA" (containment) is allowed, in upper or lower case.
	MatcherName string `json:"matcher_name"`
	// MatchFormat is the format in which R is written; see (*resource.Set).Format.
	MatchFormat string `json:"match_format"`
	// PruneFilters are pairs HIGH:low, separated by commas. A vertex of type HIGH counts
	// how much of type low is free below it. With ALL as HIGH, every vertex does.
	PruneFilters string `json:"prune_filters"`
}

// DefaultOptions returns the defaults of flux-sched 0.54.0.
// Only the load format differs: it is jgf instead of grug.
func DefaultOptions() Options {
	return Options{
		LoadFormat: formatJGF, MatcherPolicy: match.PolicyFirst, MatcherName: containmentOnly,
		MatchFormat: formatJGF, PruneFilters: "ALL:core,ALL:node",
	}
}

const (
	formatJGF       = "jgf"
	containmentOnly = "CA"
)

// ParseOptions reads Fluxion's initialisation options from a JSON object. It ignores
// unknown keys. A missing key has the default of flux-sched 0.54.0. For load_format that
// default is grug, which is not allowed, so the text must set load_format. For a value
// that New would not accept, ParseOptions returns an error that names key and value.
func ParseOptions(text []byte) (Options, error) {
	o := DefaultOptions()
	o.LoadFormat = "grug"
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&o); err != nil {
		return o, fmt.Errorf("options: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return o, errors.New("options: text after the end")
	}
	if _, err := o.check(); err != nil {
		return o, err
	}
	if _, err := parseFilters(o.PruneFilters); err != nil {
		return o, fmt.Errorf("prune_filters: %w", err)
	}
	return o, nil
}

// check returns the policy that the options name.
func (o *Options) check() (policy, error) {
	if o.LoadFormat != "" && o.LoadFormat != formatJGF {
		return policy{}, fmt.Errorf("load_format: %q: only %q is read", o.LoadFormat, formatJGF)
	}
	if o.MatcherName != "" && !strings.EqualFold(o.MatcherName, containmentOnly) {
		return policy{}, fmt.Errorf("matcher_name: %q: only %q, containment alone, is walked", o.MatcherName, containmentOnly)
	}
	if o.MatcherPolicy == "" {
		o.MatcherPolicy = match.PolicyFirst
	}
	p, err := parsePolicy(o.MatcherPolicy)
	if err != nil {
		return p, fmt.Errorf("matcher_policy: %w", err)
	}
	return p, nil
}

// filters are the pruning filters: which types are counted at which vertices.
type filters struct {
	everywhere []string            // low types of the high type ALL
	at         map[string][]string // low types by high type
}

// allTypes is the high type that means every type.
const allTypes = "ALL"

// parseFilters reads HIGH:low[,HIGH:low...].
func parseFilters(text string) (filters, error) {
	f := filters{at: make(map[string][]string)}
	if strings.TrimSpace(text) == "" {
		return f, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		high, low, ok := strings.Cut(strings.TrimSpace(pair), ":")
		if !ok || high == "" || low == "" || strings.Contains(low, ":") {
			return f, fmt.Errorf("%q: %q is no pair HIGH:low", text, pair)
		}
		to := f.at[high]
		if high == allTypes {
			to = f.everywhere
		}
		if slices.Contains(to, low) {
			continue
		}
		if to = append(to, low); high == allTypes {
			f.everywhere = to
		} else {
			f.at[high] = to
		}
	}
	return f, nil
}
