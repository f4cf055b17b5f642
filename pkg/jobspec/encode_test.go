package jobspec

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func small() *Jobspec {
	return &Jobspec{
		Version: 1,
		Resources: []Resource{{
			Type: SlotType, Count: Between(2, 4), Label: "s",
			With: []Resource{{Type: "core", Count: Exactly(250), Unit: "m"}},
		}},
		Tasks: []Task{{Command: []string{"app"}, Slot: "s", Count: TaskCount{PerSlot: 1}}},
	}
}

func TestEncodeIsCanonical(t *testing.T) {
	j := small()
	j.Attributes.System = System{
		Duration:    90*time.Second + 250*time.Millisecond,
		Environment: map[string]string{"B": "2", "A": "1"},
		Other:       map[string]json.RawMessage{"x": json.RawMessage(" { \"b\" : 1e2 } ")},
	}
	const want = `{"version":1,"resources":[{"type":"slot","count":{"min":2,"max":4,"operator":"+","operand":1},"label":"s",` +
		`"with":[{"type":"core","count":250,"unit":"m"}]}],"tasks":[{"command":["app"],"slot":"s","count":{"per_slot":1}}],` +
		`"attributes":{"system":{"duration":90.25,"environment":{"A":"1","B":"2"},"x":{"b":1e2}}}}`
	got, err := j.Encode()
	if err != nil || string(got) != want {
		t.Errorf("Encode: %s, %v\nwant: %s", got, err, want)
	}
}

func TestEncodeRoundTrips(t *testing.T) {
	cases := map[string]func(*Jobspec){
		"as it is":                    func(*Jobspec) {},
		"no limit":                    func(j *Jobspec) { j.Resources[0].Count = Between(2, NoLimit) },
		"no limit, doubling":          func(j *Jobspec) { j.Resources[0].Count = Count{2, NoLimit, '*', 2} },
		"a huge number without unit":  func(j *Jobspec) { j.Resources[0].With[0] = Resource{Type: "bps", Count: Exactly(1e10)} },
		"the largest amount":          func(j *Jobspec) { j.Resources[0].With[0].Count = Exactly(NoLimit) },
		"the largest, without unit":   func(j *Jobspec) { j.Resources[0].With[0] = Resource{Type: "bps", Count: Exactly(NoLimit)} },
		"a nanosecond":                func(j *Jobspec) { j.Attributes.System.Duration = 1 },
		"a century less a nanosecond": func(j *Jobspec) { j.Attributes.System.Duration = MaxDuration - 1 },
		"texts that YAML would bend": func(j *Jobspec) {
			j.Tasks[0].Command = []string{"", " yes ", "~", "a: b", "# no", "\x00\t\n\r\x1b\x7f\u0085\u2028\ufeff\uffff", `"\`, "ä😀", "<&>"}
		},
		"keys that are odd": func(j *Jobspec) {
			j.Attributes.User = map[string]json.RawMessage{"": json.RawMessage("null"), "a.b[0] \u2029": json.RawMessage(`{"":[]}`)}
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			j := small()
			change(j)
			roundTrip(t, j)
		})
	}
}

// TestEncodedTextsReadTheSameAsYAML checks that the text of
// Encode is YAML too, because some readers know nothing else.
func TestEncodedTextsReadTheSameAsYAML(t *testing.T) {
	j := small()
	j.Tasks[0].Command = []string{"\x00\t\n\r\x1b\x7f\u0085\u2028\ufeff\uffff", `"\`, "ä😀", "/"}
	text, err := j.Encode()
	if err != nil {
		t.Fatal(err)
	}
	v, err := readYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseTop(v)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range j.Tasks[0].Command {
		if got.Tasks[0].Command[i] != want {
			t.Errorf("command[%d] = %q, want %q", i, got.Tasks[0].Command[i], want)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(*Jobspec)
		want   string
	}{
		"a count of nothing":         {func(j *Jobspec) { j.Resources[0].Count = Count{} }, "resources[0].count.operator: '\\x00': must be +, * or ^"},
		"a task without count":       {func(j *Jobspec) { j.Tasks[0].Count = TaskCount{} }, "tasks[0].count: per_slot 0, total 0: one of the two is to be set"},
		"a negative duration":        {func(j *Jobspec) { j.Attributes.System.Duration = -1 }, "attributes.system.duration: -1ns: not from 0 to 876000h0m0s"},
		"a text that is not UTF-8":   {func(j *Jobspec) { j.Resources[0].Label = "\xff" }, `resources[0]: "\xff": not UTF-8`},
		"what is not JSON":           {func(j *Jobspec) { j.Attributes.User = map[string]json.RawMessage{"a": json.RawMessage("{")} }, "attributes.user.a: is not JSON"},
		"a field among the others":   {func(j *Jobspec) { j.Attributes.System.Other = map[string]json.RawMessage{"queue": nil} }, "attributes.system.queue: is a field of its own, not one of the others"},
		"a text that nobody reads":   {func(j *Jobspec) { j.Tasks[0].Command = []string{strings.Repeat("x", MaxSize)} }, "bytes, at most 4194304 are read"},
		"resources nested too deep":  {func(j *Jobspec) { j.Resources = nested(maxResourceDepth + 1) }, "resources[0].with[0].with[0].with[0]...[0].with[0].with[0].with[0].with: nested deeper than 64"},
		"others nested too deep":     {func(j *Jobspec) { j.Attributes.User = map[string]json.RawMessage{"a": nestedJSON(249)} }, "attributes.user.a: nested deeper than 248"},
		"slot attributes of no slot": {func(j *Jobspec) { j.Attributes.System.Fluence = map[string]SlotAttributes{"x": {}} }, "attributes.system.fluence.x: no slot has this label"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := small()
			tc.change(j)
			_, err := j.Encode()
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("Encode: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

func TestDeepestJobspecRoundTrips(t *testing.T) {
	j := small()
	j.Resources = nested(maxResourceDepth)
	j.Attributes.User = map[string]json.RawMessage{"a": nestedJSON(248)}
	roundTrip(t, j)
}

func nested(depth int) []Resource {
	var rs []Resource
	for range depth {
		rs = []Resource{{Type: "node", Count: Exactly(1), With: rs}}
	}
	return rs
}

func nestedJSON(depth int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
}
