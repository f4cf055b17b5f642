package jobspec

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A document has the parts of a jobspec text. Each case changes one of them.
type document struct{ version, resources, tasks, attributes string }

func sound() document {
	return document{
		version:    "1",
		resources:  `[{"type": "slot", "count": 2, "label": "s", "with": [{"type": "core", "count": 1}]}]`,
		tasks:      `[{"command": ["app"], "slot": "s", "count": {"per_slot": 1}}]`,
		attributes: `{"system": {"duration": 60}}`,
	}
}

// text puts each part on one line, so that the line of an error identifies the part.
func (d document) text() string {
	return "version: " + d.version + "\nresources: " + d.resources +
		"\ntasks: " + d.tasks + "\nattributes: " + d.attributes + "\n"
}

func TestParseReadsEveryField(t *testing.T) {
	const text = `
version: 9999
resources:
  - type: node
    count: {min: 2, max: 8, operator: "*", operand: 2}
    exclusive: true
    id: n
    with:
      - type: slot
        label: worker
        count: 1
        exclusive: false
        with:
          - {type: core, count: 250, unit: m}
          - {type: memory, count: 8589934592, unit: B}
          - {type: gpu, count: {min: 1}}
tasks:
  - command: [app, --fast]
    slot: worker
    count: {total: 4}
    distribution: cyclic
    attributes: {a: 0x10}
attributes:
  user: {colour: [red, 010, .5, yes, ~]}
  system:
    duration: 1.5
    queue: batch
    cwd: /tmp
    environment: {A: b, N: 1}
    constraints: {and: [{properties: ["amd", "^slow"]}, {not: [{hostlist: ["a[0-2]"]}, {ranks: ["0-3"]}]}]}
    fluence:
      worker:
        constraints: {}
        constraintsNow: {or: [{hostlist: [b]}]}
        maxPerLevel: {node: 1, rack: 4}
        limits: [{name: spread, hosts: ["a[0-2]", b], most: 2}, {name: ports, level: node, most: 0}]
        topology: {required: block, preferred: [rack, node], balanced: row}
    shell: {verbose: True}
`
	yes, no := true, false
	want := &Jobspec{
		Version: 9999,
		Resources: []Resource{{
			Type: "node", Count: Count{2, 8, '*', 2}, Exclusive: &yes, ID: "n",
			With: []Resource{{
				Type: SlotType, Label: "worker", Count: Exactly(1), Exclusive: &no,
				With: []Resource{
					{Type: "core", Count: Exactly(250), Unit: "m"},
					{Type: "memory", Count: Exactly(8589934592), Unit: "B"},
					{Type: "gpu", Count: Between(1, NoLimit)},
				},
			}},
		}},
		Tasks: []Task{{
			Command: []string{"app", "--fast"}, Slot: "worker", Count: TaskCount{Total: 4},
			Distribution: "cyclic", Attributes: map[string]json.RawMessage{"a": json.RawMessage("16")},
		}},
		Attributes: Attributes{
			User: map[string]json.RawMessage{"colour": json.RawMessage(`["red",8,0.5,"yes",null]`)},
			System: System{
				Duration: 1500 * time.Millisecond, Queue: "batch", Cwd: "/tmp",
				Environment: map[string]string{"A": "b", "N": "1"},
				Constraints: &Constraint{Op: OpAnd, Args: []Constraint{
					{Op: OpProperties, Values: []string{"amd", "^slow"}},
					{Op: OpNot, Args: []Constraint{
						{Op: OpHostlist, Values: []string{"a[0-2]"}},
						{Op: OpRanks, Values: []string{"0-3"}},
					}},
				}},
				Fluence: map[string]SlotAttributes{"worker": {
					Constraints:    &Constraint{},
					ConstraintsNow: &Constraint{Op: OpOr, Args: []Constraint{{Op: OpHostlist, Values: []string{"b"}}}},
					MaxPerLevel:    map[string]int64{"node": 1, "rack": 4},
					Limits:         []Limit{{Name: "spread", Hosts: []string{"a[0-2]", "b"}, Most: 2}, {Name: "ports", Level: "node"}},
					Topology:       &Topology{Required: "block", Preferred: []string{"rack", "node"}, Balanced: "row"},
				}},
				Other: map[string]json.RawMessage{"shell": json.RawMessage(`{"verbose":true}`)},
			},
		},
	}
	got, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
	roundTrip(t, got)
}

// roundTrip fails if Encode and Parse change j.
func roundTrip(t *testing.T, j *Jobspec) {
	t.Helper()
	text, err := j.Encode()
	if err != nil {
		t.Fatalf("Encode: %v", err)
	}
	again, err := Parse(text)
	if err != nil {
		t.Fatalf("Parse(%s): %v", text, err)
	}
	if !reflect.DeepEqual(j, again) { // cmp takes time exponential in the depth
		t.Errorf("after Encode and Parse: %+v\nbefore: %+v", again, j)
	}
	second, err := again.Encode()
	if err != nil || string(second) != string(text) {
		t.Errorf("encoded again: %s, %v, want the same as before: %s", second, err, text)
	}
	lines, err := j.EncodeYAML()
	if err != nil {
		if len(text) < MaxSize/100 {
			t.Errorf("EncodeYAML: %v", err)
		}
		return
	}
	again, err = Parse(lines)
	if err != nil {
		t.Fatalf("Parse(%s): %v", lines, err)
	}
	if !reflect.DeepEqual(j, again) {
		t.Errorf("after EncodeYAML and Parse: %+v\nbefore: %+v\n%s", again, j, lines)
	}
}

func TestParseTakesWhatFluxionTakes(t *testing.T) {
	cases := map[string]func(*document){
		"version 9999":                           func(d *document) { d.version = "9999" },
		"attributes that are null":               func(d *document) { d.attributes = "null" },
		"no attributes at all":                   func(d *document) { d.attributes = "{}" },
		"a system that is null":                  func(d *document) { d.attributes = "{system: }" },
		"no tasks":                               func(d *document) { d.tasks = "[]" },
		"a task for a slot that is not there":    func(d *document) { d.tasks = "[{command: [], slot: x, count: {total: 1}}]" },
		"a duration of 0":                        func(d *document) { d.attributes = "{system: {duration: 0.0}}" },
		"a duration in quotes":                   func(d *document) { d.attributes = `{system: {duration: "1e2"}}` },
		"the longest duration":                   func(d *document) { d.attributes = "{system: {duration: 3153600000}}" },
		"a count of 0":                           func(d *document) { d.resources = "[{type: core, count: 0}]" },
		"exclusive in quotes":                    func(d *document) { d.resources = `[{type: core, count: 1, exclusive: "true"}]` },
		"the largest count without a unit":       func(d *document) { d.resources = "[{type: core, count: 4294967295}]" },
		"a range without a unit beyond 32 bits":  func(d *document) { d.resources = "[{type: bps, count: {min: 4294967296}}]" },
		"a label on what is no slot":             func(d *document) { d.resources = "[{type: node, count: 1, label: n}]" },
		"a second document":                      func(d *document) { d.attributes += "\n---\nfoo: bar" },
		"tabs after the colon":                   func(d *document) { d.version = "\t1" },
		"anchors and aliases":                    func(d *document) { d.resources = "[&r {type: core, count: &c 2}, {type: gpu, count: *c}]" },
		"an empty list of hosts":                 func(d *document) { d.attributes = "{system: {constraints: {hostlist: []}}}" },
		"hosts that are plain words":             func(d *document) { d.attributes = "{system: {constraints: {hostlist: [a, b1]}}}" },
		"ranks that are numbers":                 func(d *document) { d.attributes = "{system: {constraints: {ranks: [0, 3]}}}" },
		"a property that is the caret's absence": func(d *document) { d.attributes = `{system: {constraints: {properties: ["^a"]}}}` },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			d := sound()
			change(&d)
			j, err := Parse([]byte(d.text()))
			if err != nil {
				t.Fatalf("Parse: %v\n%s", err, d.text())
			}
			roundTrip(t, j)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	resources := func(s string) func(*document) { return func(d *document) { d.resources = s } }
	tasks := func(s string) func(*document) { return func(d *document) { d.tasks = s } }
	attributes := func(s string) func(*document) { return func(d *document) { d.attributes = s } }
	cases := map[string]struct {
		change func(*document)
		want   string
	}{
		"version 0":                   {func(d *document) { d.version = "0" }, `line 1: version: 0: not from 1 to 9999`},
		"a version beyond 9999":       {func(d *document) { d.version = "10000" }, `line 1: version: 10000: not from 1 to 9999`},
		"a version in words":          {func(d *document) { d.version = "x" }, `line 1: version: "x": not a whole number`},
		"resources that are no list":  {resources("{}"), `line 2: resources: a mapping: not a list`},
		"no resources":                {resources("[]"), `line 2: resources: asks for nothing`},
		"a resource that is a word":   {resources("[core]"), `line 2: resources[0]: "core": not a mapping`},
		"a resource without type":     {resources("[{count: 1}]"), `line 2: resources[0]: key "type" is missing`},
		"a resource without count":    {resources("[{type: core}]"), `line 2: resources[0]: key "count" is missing`},
		"a type that is a list":       {resources("[{type: [core], count: 1}]"), `line 2: resources[0].type: a list: not a text`},
		"a type that is empty":        {resources(`[{type: "", count: 1}]`), `line 2: resources[0].type: is empty`},
		"an unknown key":              {resources("[{type: core, count: 1, colour: red}]"), `line 2: resources[0]: unknown key "colour"`},
		"a key that appears twice":    {resources("[{type: core, type: gpu, count: 1}]"), `line 2: resources[0]: key "type" appears twice`},
		"exclusive: yes":              {resources("[{type: core, count: 1, exclusive: yes}]"), `line 2: resources[0].exclusive: "yes": must be true or false`},
		"exclusive: True":             {resources("[{type: core, count: 1, exclusive: True}]"), `line 2: resources[0].exclusive: "True": must be true or false`},
		"a slot without label":        {resources("[{type: slot, count: 1}]"), `line 2: resources[0]: a slot needs a label`},
		"with that is a mapping":      {resources("[{type: node, count: 1, with: {}}]"), `line 2: resources[0].with: a mapping: not a list`},
		"a count in words":            {resources("[{type: core, count: x}]"), `line 2: resources[0].count: "x": not a whole number`},
		"a count that is negative":    {resources("[{type: core, count: -1}]"), `line 2: resources[0].count: -1: less than 0`},
		"a count that is null":        {resources("[{type: core, count: }]"), `line 2: resources[0].count: null: must be a whole number or a range`},
		"a plain count of 2^32":       {resources("[{type: core, count: 4294967296}]"), `line 2: resources[0].count: "4294967296": more than 4294967295 without a unit`},
		"an amount beyond 64 bits":    {resources("[{type: memory, unit: B, count: 9223372036854775808}]"), `line 2: resources[0].count: "9223372036854775808": a number beyond 64 bits`},
		"a range from 0":              {resources("[{type: core, count: {min: 0}}]"), `line 2: resources[0].count.min: "0": less than 1`},
		"a range without min":         {resources("[{type: core, count: {max: 2}}]"), `line 2: resources[0].count: key "min" is missing`},
		"a range without operand":     {resources(`[{type: core, count: {min: 1, max: 2, operator: "+"}}]`), `line 2: resources[0].count: max, operator and operand go together`},
		"a range that runs backwards": {resources(`[{type: core, count: {min: 2, max: 1, operator: "+", operand: 1}}]`), `line 2: resources[0].count.max: 1: less than min, which is 2`},
		"an operator of two letters":  {resources(`[{type: core, count: {min: 1, max: 2, operator: "++", operand: 1}}]`), `line 2: resources[0].count.operator: "++": must be +, * or ^`},
		"an unknown operator":         {resources(`[{type: core, count: {min: 1, max: 2, operator: "-", operand: 1}}]`), `line 2: resources[0].count.operator: '-': must be +, * or ^`},
		"times 1":                     {resources(`[{type: core, count: {min: 1, max: 2, operator: "*", operand: 1}}]`), `line 2: resources[0].count.operand: 1: less than 2, the least for *`},
		"powers of 1":                 {resources(`[{type: core, count: {min: 1, max: 2, operator: "^", operand: 2}}]`), `line 2: resources[0].count.min: 1: less than 2`},

		"tasks that are a mapping":   {tasks("{}"), `line 3: tasks: a mapping: not a list`},
		"a task without command":     {tasks("[{slot: s, count: {total: 1}}]"), `line 3: tasks[0]: key "command" is missing`},
		"a command that is a word":   {tasks("[{command: app, slot: s, count: {total: 1}}]"), `line 3: tasks[0].command: "app": not a list`},
		"a command that holds a map": {tasks("[{command: [app, {}], slot: s, count: {total: 1}}]"), `line 3: tasks[0].command[1]: a mapping: not a text`},
		"a task without count":       {tasks("[{command: [app], slot: s, distribution: x}]"), `line 3: tasks[0]: key "count" is missing`},
		"a task of two counts":       {tasks("[{command: [app], slot: s, count: {total: 1, per_slot: 1}}]"), `line 3: tasks[0].count: needs either per_slot or total`},
		"a task of no tasks":         {tasks("[{command: [app], slot: s, count: {total: 0}}]"), `line 3: tasks[0].count.total: "0": less than 1`},

		"an unknown attribute":          {attributes("{other: 1}"), `line 4: attributes: unknown key "other"`},
		"user that is a list":           {attributes("{user: []}"), `line 4: attributes.user: a list: not a mapping`},
		"infinity where JSON has none":  {attributes("{user: {a: [.inf]}}"), `line 4: attributes.user.a[0]: ".inf": not a number of JSON`},
		"a duration that never ends":    {attributes("{system: {duration: .inf}}"), `line 4: attributes.system.duration: ".inf": not a number of seconds`},
		"a duration that is null":       {attributes("{system: {duration: null}}"), `line 4: attributes.system.duration: null: not a number of seconds`},
		"a negative duration":           {attributes("{system: {duration: -1}}"), `line 4: attributes.system.duration: "-1": a negative number of seconds`},
		"a duration too long":           {attributes("{system: {duration: 3153600001}}"), `line 4: attributes.system.duration: "3153600001": more than 3153600000 seconds`},
		"a duration too long by a hair": {attributes("{system: {duration: 3153600000.0000000001}}"), `line 4: attributes.system.duration: 876000h0m0.000000001s: not from 0 to 876000h0m0s`},
		"a duration of many digits":     {attributes("{system: {duration: 1e400}}"), `line 4: attributes.system.duration: "1e400": more than 3153600000 seconds`},
		"an environment of lists":       {attributes("{system: {environment: {A: []}}}"), `line 4: attributes.system.environment.A: a list: not a text`},
		"a constraint of two operators": {attributes("{system: {constraints: {ranks: [], and: []}}}"), `line 4: attributes.system.constraints: a constraint has one operator, not 2`},
		"an unknown operator of none":   {attributes("{system: {constraints: {xor: []}}}"), `line 4: attributes.system.constraints: unknown operator "xor"`},
		"an unknown operator inside":    {attributes("{system: {constraints: {not: [{xor: [1]}]}}}"), `line 4: attributes.system.constraints.not[0]: unknown operator "xor"`},
		"properties that are a word":    {attributes("{system: {constraints: {properties: x}}}"), `line 4: attributes.system.constraints.properties: "x": not a list`},
		"a property without quotes":     {attributes("{system: {constraints: {properties: [x]}}}"), `line 4: attributes.system.constraints.properties[0]: "x": not a quoted text`},
		"a property with an operator":   {attributes(`{system: {constraints: {properties: ["a|b"]}}}`), `line 4: attributes.system.constraints.properties[0]: "a|b": '|' cannot be part of a property`},
		"a malformed hostlist":          {attributes(`{system: {constraints: {hostlist: ["node[0-"]}}}`), `line 4: attributes.system.constraints.hostlist[0]: "node[0-": brackets do not match`},
		"a malformed idset":             {attributes(`{system: {constraints: {or: [{ranks: ["0", "3-1"]}]}}}`), `line 4: attributes.system.constraints.or[0].ranks[1]: "3-1": "3-1" runs backwards`},
		"a label that no slot has":      {attributes("{system: {fluence: {s: {}, x.y: {}}}}"), `line 4: attributes.system.fluence["x.y"]: no slot has this label`},
		"an unknown slot attribute":     {attributes("{system: {fluence: {s: {near: 1}}}}"), `line 4: attributes.system.fluence.s: unknown key "near"`},
		"none a level":                  {attributes("{system: {fluence: {s: {maxPerLevel: {node: 0}}}}}"), `line 4: attributes.system.fluence.s.maxPerLevel.node: 0: less than 1`},
		"a limit that is a list":        {attributes("{system: {fluence: {s: {limits: [[]]}}}}"), `line 4: attributes.system.fluence.s.limits[0]: a list: not a mapping`},
		"a limit without a name":        {attributes("{system: {fluence: {s: {limits: [{level: node, most: 1}]}}}}"), `line 4: attributes.system.fluence.s.limits[0].name: is missing`},
		"a limit of nothing":            {attributes("{system: {fluence: {s: {limits: [{name: x, most: 1}]}}}}"), `line 4: attributes.system.fluence.s.limits[0]: set level or hosts`},
		"a limit of two things":         {attributes("{system: {fluence: {s: {limits: [{name: x, level: node, hosts: [a], most: 1}]}}}}"), `line 4: attributes.system.fluence.s.limits[0]: level and hosts: one of them only`},
		"a limit below nothing":         {attributes("{system: {fluence: {s: {limits: [{name: x, level: node, most: -1}]}}}}"), `line 4: attributes.system.fluence.s.limits[0].most: -1: less than 0`},
		"a limit of malformed hosts":    {attributes("{system: {fluence: {s: {limits: [{name: x, hosts: ['a['], most: 1}]}}}}"), `line 4: attributes.system.fluence.s.limits[0].hosts[0]: "a[": brackets do not match`},
		"an unknown key of a limit":     {attributes("{system: {fluence: {s: {limits: [{least: 1}]}}}}"), `line 4: attributes.system.fluence.s.limits[0]: unknown key "least"`},
		"a topology of nothing":         {attributes("{system: {fluence: {s: {topology: {}}}}}"), `line 4: attributes.system.fluence.s.topology: asks for nothing`},
		"a topology without a level":    {attributes("{system: {fluence: {s: {topology: {preferred: ['']}}}}}"), `line 4: attributes.system.fluence.s.topology.preferred: a level without a name`},
		"an unknown key of a topology":  {attributes("{system: {fluence: {s: {topology: {near: x}}}}}"), `line 4: attributes.system.fluence.s.topology: unknown key "near"`},
		"a key that is a list":          {attributes("{[a]: 1}"), `line 4: attributes: a key of a mapping is a list`},
		"an alias to what it stands in": {attributes("&a {system: {x: *a}}"), `nested deeper than 256`},
		"aliases of aliases":            {attributes("{user: {a: &a [x, x, x, x, x, x, x, x, x, x], b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a], c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b], d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c], e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d], f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]}}"), `jobspec is too large once its aliases are followed`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := sound()
			tc.change(&d)
			_, err := Parse([]byte(d.text()))
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("Parse: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

func TestParseRefusesWhatIsNoJobspec(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"nothing":             {"", "jobspec is empty"},
		"a comment":           {"# nothing\n", "jobspec is empty"},
		"a word":              {"hello", `line 1: "hello": not a mapping`},
		"a list":              {"[]", `line 1: a list: not a mapping`},
		"a key too many":      {"version: 1\nmore: 1", `line 2: unknown key "more"`},
		"a key too few":       {"version: 1\ntasks: []\nattributes: {}", `line 1: key "resources" is missing`},
		"a tab that indents":  {"version: 1\n\tresources: []", "read jobspec: yaml: line 2: found a tab character that violates indentation"},
		"JSON that breaks":    {`{"version": 1, "tasks": [}`, `read jobspec: yaml: did not find expected node content`},
		"JSON with two keys":  {"{\n\"version\": 1,\n\"version\": 1}", `line 3: key "version" appears twice`},
		"JSON that is deep":   {`{"a": ` + strings.Repeat("[", 256) + strings.Repeat("]", 256) + "}", `nested deeper than 256`},
		"bytes that are none": {"version: \xff", "read jobspec: yaml: invalid leading UTF-8 octet"},
		"too long a text":     {strings.Repeat("#", MaxSize+1), "jobspec has 4194305 bytes, at most 4194304 are read"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.text))
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("Parse: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

func TestParsePassesOverAByteOrderMark(t *testing.T) {
	if _, err := Parse([]byte("\ufeff" + sound().text())); err != nil {
		t.Error(err)
	}
}

func TestErrorsInJSONNameTheLine(t *testing.T) {
	const text = "{\"version\": 1,\n\n\"resources\": [\n{\"type\": \"core\",\n\"count\": \"x\"}],\"tasks\":[],\"attributes\":{}}"
	const want = `line 5: resources[0].count: "x": not a whole number`
	if _, err := Parse([]byte(text)); err == nil || err.Error() != want {
		t.Errorf("Parse: %v\nwant: %s", err, want)
	}
}
