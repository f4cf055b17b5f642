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
	// MatchTimeout bounds one call of the matcher, for one that does not answer. Defaults to
	// 2s; at most 30s, for a scheduling cycle waits that long.
	MatchTimeout metav1.Duration `json:"matchTimeout"`
	// MaxAsk is how long a scheduling cycle may look for nodes of one group before it goes on
	// to the next: filters, matches and comparing the pods with each other, beyond what one
	// kind of pods takes. Past it the group is TooHard. Defaults to 250ms; at most 30s.
	MaxAsk metav1.Duration `json:"maxAsk"`
	// MatchPolicy is the order in which nodes are filled for groups that name none:
	// one of match.Policies. Defaults to lonode.
	MatchPolicy string `json:"matchPolicy"`
	// ScheduleTimeout bounds the time from a group's match until its minimum is
	// reserved, where the PodGroup has no scheduleTimeoutSeconds. Defaults to
	// 60s; at most 15m, which is the framework's own limit.
	ScheduleTimeout metav1.Duration `json:"scheduleTimeout"`
	// MaxBypass is how long a group may wait for room while groups after it in the
	// queue, of its priority or a lower one, take what it could use. From then on as many
	// nodes as it needs are reserved for it. 0 is that nobody may ever pass.
	// Defaults to 10m.
	MaxBypass metav1.Duration `json:"maxBypass"`
	// MaxReserve is for how long nodes stay reserved for a group while nothing ends there. Then
	// the reservation pauses for a quarter of that. 0 is without end. Defaults to 4h.
	MaxReserve metav1.Duration `json:"maxReserve"`
	// MaxBinds is how many binds may be in flight at most. The API server takes them
	// faster than one after another, and refuses them where they are too many. Defaults
	// to 32; at least 1.
	MaxBinds int `json:"maxBinds"`
	// PodEvents says when a pod's event Scheduled is sent: PodEventsDeferred or
	// PodEventsAlways. Defaults to PodEventsDeferred.
	PodEvents string `json:"podEvents"`
	// TellNames says whose groups and pods a message names: TellNamesOwn or TellNamesAll.
	// Defaults to TellNamesOwn.
	TellNames string `json:"tellNames"`
	// WholeNodes says in which namespaces annotations may ask for whole nodes: WholeNodesAll,
	// WholeNodesLabelled or WholeNodesNone. Where MatchPolicy gives whole nodes they are every
	// group's. Defaults to WholeNodesLabelled.
	WholeNodes string `json:"wholeNodes"`
	// TopologyLevels lists the node labels that make levels of the graph between
	// the cluster and its nodes, the outermost first. Defaults to none.
	TopologyLevels []string `json:"topologyLevels,omitempty"`
	// StatusNamespace is where the leading scheduler keeps its figures for others, in
	// the ConfigMap health.Name: its own namespace. Defaults to none, which is that it
	// keeps none.
	StatusNamespace string `json:"statusNamespace,omitempty"`

	// Unthrottled has no namespace pay for the time that its groups take. It is no argument:
	// where it is set, nobody else waits.
	Unthrottled bool `json:"-"`
}

// MaxAskLimit is the longest Args.MaxAsk.
const MaxAskLimit = 30 * time.Second

// The values of Args.PodEvents.
const (
	// PodEventsDeferred has the events wait for binds and for the conditions of PodGroups,
	// at most 30 seconds. Of more than 10,000 that wait the oldest are lost.
	PodEventsDeferred = "deferred"
	// PodEventsAlways has each be sent right after its bind, as kube-scheduler does.
	PodEventsAlways = "always"
)

// The values of Args.TellNames.
const (
	// TellNamesOwn has a message name groups and pods of its own namespace, and count those
	// of others.
	TellNamesOwn = "own"
	// TellNamesAll has it name all.
	TellNamesAll = "all"
)

// The values of Args.WholeNodes: those of package group.
const (
	WholeNodesAll      = group.WholeNodesAll
	WholeNodesLabelled = group.WholeNodesLabelled
	WholeNodesNone     = group.WholeNodesNone
)

// TLS names PEM files for mutual TLS.
type TLS struct {
	// CertFile and KeyFile are the scheduler's own certificate and key.
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
	// CAFile holds the authorities that the matcher's certificate is checked
	// against.
	CAFile string `json:"caFile"`
}

func defaultArgs() *Args {
	return &Args{
		Endpoint:        "unix:///run/fluence/fluxion.sock",
		MatchTimeout:    metav1.Duration{Duration: 2 * time.Second},
		MaxAsk:          metav1.Duration{Duration: 250 * time.Millisecond},
		MatchPolicy:     match.PolicyLonode,
		ScheduleTimeout: metav1.Duration{Duration: time.Minute},
		MaxBypass:       metav1.Duration{Duration: 10 * time.Minute},
		MaxReserve:      metav1.Duration{Duration: 4 * time.Hour},
		MaxBinds:        32,
		PodEvents:       PodEventsDeferred,
		TellNames:       TellNamesOwn,
		WholeNodes:      WholeNodesLabelled,
	}
}

// decodeArgs reads obj over the defaults and validates the result. A field that
// does not exist is an error.
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
		// Unlike encoding/json this tells matchTimeout from matchtimeout.
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

// wrongType says of a value that is of another type than its field what it is: the error
// of the decoder has the type alone.
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
		// Key by key for the path, the first keys with it for what clashes.
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
