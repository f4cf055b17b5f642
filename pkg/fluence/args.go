package fluence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// Args are the plugin's arguments in a KubeSchedulerConfiguration.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// Endpoint is the matcher's address: "unix:///path", or "tcp://host:port" on
	// loopback or with TLS. Defaults to unix:///run/fluence/fluxion.sock.
	Endpoint string `json:"endpoint"`
	// TLS secures a TCP endpoint that is not on loopback.
	TLS *TLS `json:"tls,omitempty"`
	// MatchTimeout is the deadline of one call to the matcher. Defaults to 2s; at most
	// 30s, because a scheduling cycle waits that long for a matcher that does not answer.
	MatchTimeout metav1.Duration `json:"matchTimeout"`
	// MaxAsk limits the time that one scheduling cycle spends on placing one group: running
	// filters, calling the matcher and comparing the group's pods with each other. A group
	// that exceeds MaxAsk is refused with reason TooHard. The time that the matcher works
	// for other callers does not count. The time that filters spend on pods of other
	// namespaces counts separately. Its limit is MaxAsk too, or the longest time that the
	// filters can take for one shape, whichever is longer. Defaults to 250ms; at most 30s.
	MaxAsk metav1.Duration `json:"maxAsk"`
	// MatchPolicy is the order in which nodes are filled for groups
	// that name no policy: one of match.Policies. Defaults to lonode.
	MatchPolicy string `json:"matchPolicy"`
	// ScheduleTimeout limits the time from a group's match until its
	// minimum is reserved, if the PodGroup has no scheduleTimeoutSeconds.
	// Defaults to 60s; at most 15m, which is the framework's own limit.
	ScheduleTimeout metav1.Duration `json:"scheduleTimeout"`
	// MaxBypass limits backfill: it is how long a group that waits for room may
	// be overtaken by groups behind it in the queue, whose priority is the same
	// or lower. After that time nodes are reserved for the waiting group, as many
	// as it needs. Zero means that no group may overtake it. Defaults to 10m.
	MaxBypass metav1.Duration `json:"maxBypass"`
	// MaxReserve is how long nodes stay reserved for a group without progress.
	// Progress means that something ends there that the group waits for. After that
	// time the reservation pauses, first for a quarter of it. If only pods of the group's namespace
	// are left on nodes that others want, it pauses after a sixteenth. Each further
	// pause without progress is twice as long, up to four times MaxReserve. Zero
	// means that reservations never pause. Defaults to 4h; otherwise at least 1m.
	MaxReserve metav1.Duration `json:"maxReserve"`
	// Handover is for how long room that pods leave by their end is offered only to the first group that waits
	// for room, and to others of its priority or a higher one. It begins with the first of several
	// ends. Afterwards lower priorities may take the room too. For one group such a time begins at most
	// every 30s. Zero means that all may take the room at once. Defaults to 2s; at most 10s.
	Handover metav1.Duration `json:"handover"`
	// Preemption says which pods may be evicted to make room for a group of higher priority.
	Preemption Preemption `json:"preemption"`
	// Promises says which groups that wait are promised room at a time.
	Promises Promises `json:"promises"`
	// EnforceDuration reports whether the controller ends pods after the annotation group.DurationAnnotation. If it
	// does not, such an end is a wish: it tells when room may be free, and lets no group run before a promise.
	// Defaults to false.
	EnforceDuration bool `json:"enforceDuration"`
	// ExpectTimeout is how long room is held for pods that the owner of a group makes only after others
	// of the group, while nothing but the owner is missing. It begins anew with each pod that
	// comes. Defaults to 5m; at most ExpectTotal.
	ExpectTimeout metav1.Duration `json:"expectTimeout"`
	// ExpectTotal is how long such room is held from the start of the group. If one of the two is
	// zero, none is held. Defaults to 30m.
	ExpectTotal metav1.Duration `json:"expectTotal"`
	// Expect selects the groups for which such room is held: ExpectAll, ExpectLabelled or ExpectNone. The
	// label group.ExpectLabel of a namespace takes precedence. Defaults to ExpectAll.
	Expect string `json:"expect"`
	// MaxBinds is the maximum number of binds in flight. The API server
	// accepts binds faster in parallel than one after another, and
	// throttles them if there are too many. Defaults to 32; at least 1.
	MaxBinds int `json:"maxBinds"`
	// PodEvents selects when a pod's event Scheduled is sent:
	// PodEventsDeferred or PodEventsAlways. Defaults to PodEventsDeferred.
	PodEvents string `json:"podEvents"`
	// TellNames selects whose groups and pods a message names:
	// TellNamesOwn or TellNamesAll. Defaults to TellNamesOwn.
	TellNames string `json:"tellNames"`
	// WholeNodes selects the namespaces in which annotations may ask for whole nodes:
	// WholeNodesAll, WholeNodesLabelled or WholeNodesNone. If MatchPolicy itself gives whole
	// nodes, every group gets whole nodes, whatever WholeNodes is. Defaults to WholeNodesLabelled.
	WholeNodes string `json:"wholeNodes"`
	// TopologyLevels lists the node labels whose values become the
	// levels of the matcher's graph between the cluster and the nodes
	// (for instance racks), the outermost first. Defaults to none.
	TopologyLevels []string `json:"topologyLevels,omitempty"`
	// StatusNamespace is the namespace of the ConfigMap statusmap.Name, to which
	// the leading scheduler writes its status. It is meant to be the scheduler's
	// own namespace. If it is empty, which is the default, no status is written.
	StatusNamespace string `json:"statusNamespace,omitempty"`

	// Unthrottled switches the throttling of namespaces off. It is not part of the configuration:
	// only package simulate sets it, because no other group waits in a simulation.
	Unthrottled bool `json:"-"`
	// Unqueued lets pods of jobs in queues ask for nodes as all others do. Only package simulate sets it: it answers what happens
	// when they are let go.
	Unqueued bool `json:"-"`
	// Now is the clock by which groups wait and pods end. It is not part of the configuration either. Nil is time.Now.
	Now func() time.Time `json:"-"`
}

// MaxAskLimit is the longest Args.MaxAsk.
const MaxAskLimit = 30 * time.Second

// The values of Args.PodEvents.
const (
	// PodEventsDeferred sends events after pending binds and PodGroup conditions, but
	// at most 30 seconds late. If more than 10,000 events wait, the oldest are dropped.
	PodEventsDeferred = "deferred"
	// PodEventsAlways sends each event right after its bind, as kube-scheduler does.
	PodEventsAlways = "always"
)

// The values of Args.TellNames.
const (
	// TellNamesOwn: a message names groups and pods of the namespace that
	// it is for. Of other namespaces it gives only numbers and priorities.
	TellNamesOwn = "own"
	// TellNamesAll: a message names groups and pods of every namespace.
	TellNamesAll = "all"
)

// The values of Args.WholeNodes, which are defined in package group.
const (
	WholeNodesAll      = group.WholeNodesAll
	WholeNodesLabelled = group.WholeNodesLabelled
	WholeNodesNone     = group.WholeNodesNone
)

// The values of Args.Expect, which are defined in package group.
const (
	ExpectAll      = group.ExpectAll
	ExpectLabelled = group.ExpectLabelled
	ExpectNone     = group.ExpectNone
)

// The values of Preemption.Mode.
const (
	// PreemptionLowerPriority: pods of a lower priority may be evicted.
	PreemptionLowerPriority = "LowerPriority"
	// PreemptionNever: nobody is evicted.
	PreemptionNever = "Never"
)

// Preemption says which pods may be evicted to make room for a group of higher priority.
type Preemption struct {
	// Mode is PreemptionLowerPriority or PreemptionNever. Defaults to LowerPriority.
	Mode string `json:"mode"`
	// Delay is for how long a group waits for room before others are evicted for it. The annotation
	// group.PreemptionDelayAnnotation of the group takes precedence. Defaults to 0s.
	Delay metav1.Duration `json:"delay"`
	// Foreign selects the pods of other schedulers that may be evicted: preemption.ForeignNever,
	// ForeignBare (those that no object controls) or ForeignAll. Pods of the other profiles of this
	// scheduler are not foreign. Defaults to Never.
	Foreign preemption.Foreign `json:"foreign"`
	// MinRuntime is for how long a pod stays on its node before it may be evicted, and a group on its nodes since the
	// first of its present pods was bound. Defaults to 0s.
	MinRuntime metav1.Duration `json:"minRuntime"`
}

// Promises says which groups that wait are promised room at a time.
type Promises struct {
	// Depth is how many groups are promised room. These are the first in the queue that wait for room. 0 turns promises off.
	// 1 is EASY backfill. Defaults to 0, at most 1000.
	Depth int `json:"depth"`
	// Horizon is how long before its time a promise keeps groups out that have no known end. Earlier it does so only if
	// its group has waited for MaxBypass. Defaults to 1h.
	Horizon metav1.Duration `json:"horizon"`
}

// MaxPromises is the largest Promises.Depth.
const MaxPromises = 1000

func (p *Promises) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Depth < 0 || p.Depth > MaxPromises {
		errs = append(errs, field.Invalid(path.Child("depth"), p.Depth, fmt.Sprintf("must be from 0 to %d", MaxPromises)))
	}
	if d := p.Horizon.Duration; d < 0 {
		errs = append(errs, field.Invalid(path.Child("horizon"), d.String(), "must be 0 or above"))
	}
	return errs
}

// TLS names PEM files for mutual TLS.
type TLS struct {
	// CertFile is the scheduler's own certificate.
	CertFile string `json:"certFile"`
	// KeyFile is the key of CertFile.
	KeyFile string `json:"keyFile"`
	// CAFile holds the certificate authorities against which the matcher's certificate is checked.
	CAFile string `json:"caFile"`
}

// defaultArgs returns the arguments that apply if a configuration sets none.
func defaultArgs() *Args {
	return &Args{
		Endpoint:        "unix:///run/fluence/fluxion.sock",
		MatchTimeout:    metav1.Duration{Duration: 2 * time.Second},
		MaxAsk:          metav1.Duration{Duration: 250 * time.Millisecond},
		MatchPolicy:     match.PolicyLonode,
		ScheduleTimeout: metav1.Duration{Duration: time.Minute},
		MaxBypass:       metav1.Duration{Duration: 10 * time.Minute},
		MaxReserve:      metav1.Duration{Duration: 4 * time.Hour},
		Handover:        metav1.Duration{Duration: 2 * time.Second},
		Preemption:      Preemption{Mode: PreemptionLowerPriority, Foreign: preemption.ForeignNever},
		Promises:        Promises{Horizon: metav1.Duration{Duration: time.Hour}},
		ExpectTimeout:   metav1.Duration{Duration: 5 * time.Minute},
		ExpectTotal:     metav1.Duration{Duration: 30 * time.Minute},
		Expect:          ExpectAll,
		MaxBinds:        32,
		PodEvents:       PodEventsDeferred,
		TellNames:       TellNamesOwn,
		WholeNodes:      WholeNodesLabelled,
	}
}

// decodeArgs decodes obj on top of the defaults and
// validates the result. An unknown field is an error.
func decodeArgs(obj runtime.Object) (*Args, error) {
	args := defaultArgs()
	if obj == nil {
		return args, nil
	}
	unknown, ok := obj.(*runtime.Unknown)
	if !ok {
		return nil, fmt.Errorf("plugin %s: arguments of type %T, want raw JSON or YAML", Name, obj)
	}
	if len(bytes.TrimSpace(unknown.Raw)) > 0 {
		raw, err := yaml.YAMLToJSONStrict(unknown.Raw)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: arguments: %w", Name, err)
		}
		// Unlike encoding/json, this decoder is case-sensitive: matchtimeout is an unknown field.
		strict, err := kjson.UnmarshalStrict(raw, args)
		if err := cmp.Or(wrongType(raw, err), errors.Join(strict...)); err != nil {
			return nil, fmt.Errorf("plugin %s: arguments: %w", Name, err)
		}
	}
	if err := args.validate(field.NewPath("args")).ToAggregate(); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	return args, nil
}

// wrongType adds the offending value to a decoder's error about a wrong type, because the
// decoder itself reports only the field and the type. It returns any other error unchanged.
func wrongType(raw []byte, err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || wrong.Field == "" {
		return err
	}
	var given any
	if json.Unmarshal(raw, &given) != nil {
		return err
	}
	path := field.NewPath("args")
	for name := range strings.SplitSeq(wrong.Field, ".") {
		fields, ok := given.(map[string]any)
		if !ok {
			return err
		}
		given, path = fields[name], path.Child(name)
	}
	text, _ := json.Marshal(given)
	return field.Invalid(path, json.RawMessage(text), "must be of type "+wrong.Type.String())
}

func (p *Preemption) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if modes := []string{PreemptionLowerPriority, PreemptionNever}; !slices.Contains(modes, p.Mode) {
		errs = append(errs, field.NotSupported(path.Child("mode"), p.Mode, modes))
	}
	if d := p.Delay.Duration; d < 0 {
		errs = append(errs, field.Invalid(path.Child("delay"), d.String(), "must be 0 or above"))
	}
	if foreign := []preemption.Foreign{preemption.ForeignNever, preemption.ForeignBare, preemption.ForeignAll}; !slices.Contains(foreign, p.Foreign) {
		errs = append(errs, field.NotSupported(path.Child("foreign"), p.Foreign, foreign))
	}
	if d := p.MinRuntime.Duration; d < 0 {
		errs = append(errs, field.Invalid(path.Child("minRuntime"), d.String(), "must be 0 or above"))
	}
	return errs
}

func (a *Args) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if a.Endpoint == "" {
		errs = append(errs, field.Required(path.Child("endpoint"), "the matcher's address, for instance unix:///run/fluence/fluxion.sock"))
	}
	if t := a.TLS; t != nil {
		for _, f := range []struct{ name, file string }{{"certFile", t.CertFile}, {"keyFile", t.KeyFile}, {"caFile", t.CAFile}} {
			if f.file == "" {
				errs = append(errs, field.Required(path.Child("tls", f.name), "a PEM file"))
			}
		}
	}
	if d := a.MatchTimeout.Duration; d <= 0 || d > 30*time.Second {
		errs = append(errs, field.Invalid(path.Child("matchTimeout"), d.String(), "must be above 0 and at most 30s"))
	}
	if d := a.MaxAsk.Duration; d <= 0 || d > MaxAskLimit {
		errs = append(errs, field.Invalid(path.Child("maxAsk"), d.String(), "must be above 0 and at most 30s"))
	}
	if d := a.ScheduleTimeout.Duration; d <= 0 || d > 15*time.Minute {
		errs = append(errs, field.Invalid(path.Child("scheduleTimeout"), d.String(), "must be above 0 and at most 15m"))
	}
	if d := a.MaxReserve.Duration; d != 0 && d < time.Minute {
		errs = append(errs, field.Invalid(path.Child("maxReserve"), d.String(), "must be 0 or at least 1m"))
	}
	if d := a.MaxBypass.Duration; d < 0 {
		errs = append(errs, field.Invalid(path.Child("maxBypass"), d.String(), "must be 0 or above"))
	}
	if d := a.Handover.Duration; d < 0 || d > 10*time.Second {
		errs = append(errs, field.Invalid(path.Child("handover"), d.String(), "must be from 0 to 10s"))
	}
	errs = append(errs, a.Preemption.validate(path.Child("preemption"))...)
	errs = append(errs, a.Promises.validate(path.Child("promises"))...)
	if d := a.ExpectTotal.Duration; d < 0 {
		errs = append(errs, field.Invalid(path.Child("expectTotal"), d.String(), "must be 0 or above"))
	}
	if d, most := a.ExpectTimeout.Duration, a.ExpectTotal.Duration; d < 0 || d > most {
		errs = append(errs, field.Invalid(path.Child("expectTimeout"), d.String(), "must be from 0 to expectTotal, "+most.String()))
	}
	if expect := group.ExpectModes(); !slices.Contains(expect, a.Expect) {
		errs = append(errs, field.NotSupported(path.Child("expect"), a.Expect, expect))
	}
	if n := a.MaxBinds; n < 1 {
		errs = append(errs, field.Invalid(path.Child("maxBinds"), n, "must be at least 1"))
	}
	if podEvents := []string{PodEventsDeferred, PodEventsAlways}; !slices.Contains(podEvents, a.PodEvents) {
		errs = append(errs, field.NotSupported(path.Child("podEvents"), a.PodEvents, podEvents))
	}
	if wholeNodes := group.WholeNodesModes(); !slices.Contains(wholeNodes, a.WholeNodes) {
		errs = append(errs, field.NotSupported(path.Child("wholeNodes"), a.WholeNodes, wholeNodes))
	}
	if tellNames := []string{TellNamesOwn, TellNamesAll}; !slices.Contains(tellNames, a.TellNames) {
		errs = append(errs, field.NotSupported(path.Child("tellNames"), a.TellNames, tellNames))
	}
	if !slices.Contains(match.Policies(), a.MatchPolicy) {
		errs = append(errs, field.NotSupported(path.Child("matchPolicy"), a.MatchPolicy, match.Policies()))
	}
	for i, key := range a.TopologyLevels {
		// One more key is parsed each time, so that the error names
		// the first key that is wrong or clashes with an earlier key.
		if _, err := translate.ParseLevels(a.TopologyLevels[:i+1]); err != nil {
			errs = append(errs, field.Invalid(path.Child("topologyLevels").Index(i), key, err.Error()))
			break
		}
	}
	if ns := a.StatusNamespace; ns != "" {
		for _, wrong := range validation.IsDNS1123Label(ns) {
			errs = append(errs, field.Invalid(path.Child("statusNamespace"), ns, wrong))
		}
	}
	return errs
}
