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

// Options are what Fluxion's library is initialised with, by its names. The zero
// value has no pruning filter; see DefaultOptions.
type Options struct {
	// LoadFormat is the format of graphs: only "jgf" is read here.
	LoadFormat string `json:"load_format"`
	// MatcherPolicy is one of match.GraphPolicies or a custom text, for requests
	// that name none.
	MatcherPolicy string `json:"matcher_policy"`
	// MatcherName picks the subsystems that are walked: only "CA", containment,
	// in any case.
	MatcherName string `json:"matcher_name"`
	// MatchFormat is the format of R for those who write it; see
	// (*resource.Set).Format.
	MatchFormat string `json:"match_format"`
	// PruneFilters are pairs HIGH:low, apart by commas: vertices of type HIGH, or
	// with ALL every one, keep count of what is free of type low below them.
	PruneFilters string `json:"prune_filters"`
}

// DefaultOptions returns the defaults of flux-sched 0.54.0, but for the load
// format, which there is grug and here is jgf.
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

// ParseOptions reads Fluxion's initialisation options: a JSON object, where other
// keys are passed over and what is left out has the default of flux-sched 0.54.0,
// load_format grug included, so that it has to be there. It fails, naming key and
// value, for a value that New would refuse.
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

// filters say which types are counted at which.
type filters struct {
	everywhere []string            // low types of ALL
	at         map[string][]string // low types by high type
}

// allTypes is the high type that stands for every one.
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
