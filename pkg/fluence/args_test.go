package fluence

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func raw(text string) *runtime.Unknown { return &runtime.Unknown{Raw: []byte(text)} }

func TestDecodeArgs(t *testing.T) {
	defaults := Args{
		Endpoint:        "unix:///run/fluence/fluxion.sock",
		MatchTimeout:    metav1.Duration{Duration: 2 * time.Second},
		MaxAsk:          metav1.Duration{Duration: 250 * time.Millisecond},
		MatchPolicy:     "lonode",
		ScheduleTimeout: metav1.Duration{Duration: time.Minute},
		MaxBypass:       metav1.Duration{Duration: 10 * time.Minute},
		MaxReserve:      metav1.Duration{Duration: 4 * time.Hour},
		Handover:        metav1.Duration{Duration: 2 * time.Second},
		Preemption:      Preemption{Mode: "LowerPriority", Foreign: "Never"},
		Promises:        Promises{Horizon: metav1.Duration{Duration: time.Hour}},
		ExpectTimeout:   metav1.Duration{Duration: 5 * time.Minute},
		ExpectTotal:     metav1.Duration{Duration: 30 * time.Minute},
		Expect:          "all",
		MaxBinds:        32,
		PodEvents:       "deferred",
		TellNames:       "own",
		WholeNodes:      "labelled",
	}
	all := Args{
		Endpoint:        "tcp://matcher:4242",
		TLS:             &TLS{CertFile: "c", KeyFile: "k", CAFile: "ca"},
		MatchTimeout:    metav1.Duration{Duration: 30 * time.Second},
		MaxAsk:          metav1.Duration{Duration: 30 * time.Second},
		MatchPolicy:     "lonode",
		ScheduleTimeout: metav1.Duration{Duration: 15 * time.Minute},
		Preemption:      Preemption{Mode: "Never", Delay: metav1.Duration{Duration: time.Minute}, Foreign: "All", MinRuntime: metav1.Duration{Duration: time.Hour}},
		Promises:        Promises{Horizon: metav1.Duration{Duration: time.Hour}},
		Expect:          "labelled",
		MaxBinds:        1,
		PodEvents:       "always",
		TellNames:       "all",
		WholeNodes:      "none",
		TopologyLevels:  []string{"topology.kubernetes.io/zone", "rack"},
		StatusNamespace: "fluence-system",
	}
	typed := defaults
	typed.TypeMeta = metav1.TypeMeta{Kind: "FluenceArgs", APIVersion: "kubescheduler.config.k8s.io/v1"}
	cases := map[string]struct {
		obj  runtime.Object
		want Args
	}{
		"no arguments are the defaults":     {want: defaults},
		"empty arguments are the defaults":  {obj: raw(" \n"), want: defaults},
		"null arguments are the defaults":   {obj: raw("null"), want: defaults},
		"a kind and a version may be given": {obj: raw("kind: FluenceArgs\napiVersion: kubescheduler.config.k8s.io/v1"), want: typed},
		"YAML with every field at its limit": {
			obj: raw(`
endpoint: tcp://matcher:4242
tls: {certFile: c, keyFile: k, caFile: ca}
matchTimeout: 30s
maxAsk: 30s
matchPolicy: lonode
scheduleTimeout: 15m
maxBypass: 0s
maxBinds: 1
podEvents: always
tellNames: all
wholeNodes: none
maxReserve: 0s
handover: 0s
preemption: {mode: Never, delay: 1m, foreign: All, minRuntime: 1h}
expectTimeout: 0s
expectTotal: 0s
expect: labelled
topologyLevels: [topology.kubernetes.io/zone, rack]
statusNamespace: fluence-system
`), want: all,
		},
		"JSON with every field at its limit": {
			obj: raw(`{"endpoint":"tcp://matcher:4242","tls":{"certFile":"c","keyFile":"k","caFile":"ca"},"matchTimeout":"30s","maxAsk":"30s",` +
				`"matchPolicy":"lonode","scheduleTimeout":"15m","maxBypass":"0s","maxBinds":1,"podEvents":"always","tellNames":"all","wholeNodes":"none","maxReserve":"0s","handover":"0s","preemption":{"mode":"Never","delay":"1m","foreign":"All","minRuntime":"1h"},"expectTimeout":"0s","expectTotal":"0s","expect":"labelled","topologyLevels":["topology.kubernetes.io/zone","rack"],"statusNamespace":"fluence-system"}`),
			want: all,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := decodeArgs(tc.obj)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeArgsRefuses(t *testing.T) {
	cases := map[string]struct {
		obj  runtime.Object
		want string // in the error
	}{
		"a field that does not exist":            {obj: raw("matchTimeoutt: 2s"), want: `unknown field "matchTimeoutt"`},
		"a field that does not exist, in JSON":   {obj: raw(`{"matchTimeoutt":"2s"}`), want: `unknown field "matchTimeoutt"`},
		"a field of TLS that does not exist":     {obj: raw("tls: {cert: c}"), want: `unknown field "tls.cert"`},
		"a field in other letters":               {obj: raw("matchtimeout: 3s"), want: `unknown field "matchtimeout"`},
		"a field given twice":                    {obj: raw("matchTimeout: 1s\nmatchTimeout: 2s"), want: `"matchTimeout" already set`},
		"a field given twice, in JSON":           {obj: raw(`{"matchTimeout":"1s","matchTimeout":"2s"}`), want: `"matchTimeout" already set`},
		"a number for a duration":                {obj: raw("matchTimeout: 2"), want: "args.matchTimeout: Invalid value: 2: must be of type string"},
		"a word for a number":                    {obj: raw("maxBinds: x"), want: `args.maxBinds: Invalid value: "x": must be of type int`},
		"a fraction for a number":                {obj: raw("maxBinds: 1.5"), want: `args.maxBinds: Invalid value: 1.5: must be of type int`},
		"a list for a word":                      {obj: raw("podEvents: [always]"), want: `args.podEvents: Invalid value: ["always"]: must be of type string`},
		"a number for a file":                    {obj: raw("tls: {certFile: 7}"), want: `args.tls.certFile: Invalid value: 7: must be of type string`},
		"a duration without a unit":              {obj: raw(`matchTimeout: "2"`), want: `missing unit in duration "2"`},
		"a depth below 0":                        {obj: raw("promises: {depth: -1}"), want: `args.promises.depth: Invalid value: -1: must be from 0 to 1000`},
		"a horizon below 0":                      {obj: raw("promises: {horizon: -1s}"), want: `args.promises.horizon: Invalid value: "-1s": must be 0 or above`},
		"a list":                                 {obj: raw("[]"), want: "cannot unmarshal array"},
		"what is no YAML":                        {obj: raw("{"), want: "yaml"},
		"an object that was decoded by somebody": {obj: &corev1.Pod{}, want: "arguments of type *v1.Pod"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := decodeArgs(tc.obj)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "plugin Fluence: ") {
				t.Errorf("decodeArgs = %+v, %v; want an error of plugin Fluence with %q", got, err, tc.want)
			}
		})
	}
}

func TestArgsAreInvalid(t *testing.T) {
	cases := map[string]struct {
		text string
		want []string
	}{
		"without an address":               {`endpoint: ""`, []string{`args.endpoint: Required value: the matcher's address, for instance unix:///run/fluence/fluxion.sock`}},
		"with a namespace that is none":    {"statusNamespace: Fluence", []string{`args.statusNamespace: Invalid value: "Fluence": a lowercase RFC 1123 label`}},
		"with a timeout of nothing":        {"matchTimeout: 0s", []string{`args.matchTimeout: Invalid value: "0s": must be above 0 and at most 30s`}},
		"with a timeout below nothing":     {"matchTimeout: -1s", []string{`args.matchTimeout: Invalid value: "-1s": must be above 0 and at most 30s`}},
		"with a timeout too long":          {"matchTimeout: 30001ms", []string{`args.matchTimeout: Invalid value: "30.001s": must be above 0 and at most 30s`}},
		"with no time to schedule":         {"scheduleTimeout: 0s", []string{`args.scheduleTimeout: Invalid value: "0s": must be above 0 and at most 15m`}},
		"with too long to schedule":        {"scheduleTimeout: 15m1s", []string{`args.scheduleTimeout: Invalid value: "15m1s": must be above 0 and at most 15m`}},
		"with less than no bypass":         {"maxBypass: -1s", []string{`args.maxBypass: Invalid value: "-1s": must be 0 or above`}},
		"with no bind at a time":           {"maxBinds: 0", []string{`args.maxBinds: Invalid value: 0: must be at least 1`}},
		"with less than no bind":           {"maxBinds: -1", []string{`args.maxBinds: Invalid value: -1: must be at least 1`}},
		"with no time to ask":              {"maxAsk: 0s", []string{`args.maxAsk: Invalid value: "0s": must be above 0 and at most 30s`}},
		"with too much time to ask":        {"maxAsk: 31s", []string{`args.maxAsk: Invalid value: "31s": must be above 0 and at most 30s`}},
		"with a time below none":           {"maxReserve: -1s", []string{`args.maxReserve: Invalid value: "-1s": must be 0 or at least 1m`}},
		"with a handover that is too long": {"handover: 11s", []string{`args.handover: Invalid value: "11s": must be from 0 to 10s`}},
		"with a preemption of some":        {"preemption: {mode: Some}", []string{`args.preemption.mode: Unsupported value: "Some": supported values: "LowerPriority", "Never"`}},
		"with a delay below none":          {"preemption: {delay: -1s, minRuntime: -2s}", []string{`args.preemption.delay: Invalid value: "-1s": must be 0 or above`, `args.preemption.minRuntime: Invalid value: "-2s": must be 0 or above`}},
		"with some of others":              {"preemption: {foreign: Some}", []string{`args.preemption.foreign: Unsupported value: "Some": supported values: "Never", "Bare", "All"`}},
		"with no time for seats":           {"expectTotal: -1s\nexpectTimeout: -1s", []string{`args.expectTotal: Invalid value: "-1s": must be 0 or above`, `args.expectTimeout: Invalid value: "-1s": must be from 0 to expectTotal, -1s`}},
		"with seats beyond their time":     {"expectTimeout: 31m", []string{`args.expectTimeout: Invalid value: "31m0s": must be from 0 to expectTotal, 30m0s`}},
		"with seats for some":              {"expect: some", []string{`args.expect: Unsupported value: "some": supported values: "all", "labelled", "none"`}},
		"with whole nodes for some":        {"wholeNodes: some", []string{`args.wholeNodes: Unsupported value: "some": supported values: "all", "labelled", "none"`}},
		"with nobody's names":              {"tellNames: none", []string{`args.tellNames: Unsupported value: "none": supported values: "own", "all"`}},
		"with some events":                 {"podEvents: some", []string{`args.podEvents: Unsupported value: "some": supported values: "deferred", "always"`}},
		"with a policy nobody knows":       {"matchPolicy: fifo", []string{`args.matchPolicy: Unsupported value: "fifo": supported values: "first", "low", "high", "lonode", "hinode", "firstnodex", "lonodex", "hinodex"`}},
		"with a level that is no key":      {"topologyLevels: [zone, no key]", []string{`args.topologyLevels[1]: Invalid value: "no key"`}},
		"with a level named twice":         {"topologyLevels: [zone, rack, zone]", []string{`args.topologyLevels[2]: Invalid value: "zone"`}},
		"with TLS that names no file":      {"tls: {}", []string{"args.tls.certFile: Required value", "args.tls.keyFile: Required value", "args.tls.caFile: Required value"}},
		"with TLS that lacks one":          {"tls: {certFile: c, caFile: ca}", []string{"args.tls.keyFile: Required value: a PEM file"}},
		"in two ways, and both are told":   {"matchPolicy: fifo\nendpoint: ''", []string{"args.endpoint", "args.matchPolicy"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := decodeArgs(raw(tc.text))
			if err == nil {
				t.Fatal("no error")
			}
			rest := err.Error()
			for _, want := range tc.want {
				i := strings.Index(rest, want)
				if i < 0 {
					t.Fatalf("error %q, want %q in this order", err, tc.want)
				}
				rest = rest[i+len(want):]
			}
			if errors, want := strings.Count(err.Error(), "args."), len(tc.want); errors != want {
				t.Errorf("error %q is about %d fields, want %d", err, errors, want)
			}
		})
	}
}

func FuzzDecodeArgs(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{", "matchTimeout: 2s", `{"tls":{"certFile":"c","keyFile":"k","caFile":"a"}}`,
		"topologyLevels: [a/b, c]", "matchTimeout: 2s\nmatchTimeout: 3s", "? a\n: b", "scheduleTimeout: 9223372036s",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		args, err := decodeArgs(&runtime.Unknown{Raw: text})
		if err != nil {
			return
		}
		if errs := args.validate(field.NewPath("args")); len(errs) > 0 {
			t.Errorf("decoded and invalid: %v", errs.ToAggregate())
		}
	})
}
