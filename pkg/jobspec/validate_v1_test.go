package jobspec

import (
	"strings"
	"testing"
)

// v1 has the parts of a jobspec text of version 1. Each case changes one of them.
type v1 struct{ version, resources, tasks, attributes string }

func (d v1) text() string { return document(d).text() }

// RFC 25 allows these four shapes of resources.
const (
	slotOfCores     = `[{"type": "slot", "count": 10, "label": "s", "with": [{"type": "core", "count": 2}]}]`
	slotWithGPUs    = `[{"type": "slot", "count": 10, "label": "s", "with": [{"type": "gpu", "count": 1}, {"type": "core", "count": 2, "unit": ""}]}]`
	nodesOfSlots    = `[{"type": "node", "count": 4, "exclusive": true, "with": [{"type": "slot", "count": 2, "label": "s", "with": [{"type": "core", "count": 2}]}]}]`
	nodesWithGPUs   = `[{"type": "node", "count": 4, "with": [{"type": "slot", "count": 4, "label": "s", "with": [{"type": "core", "count": 1}, {"type": "gpu", "count": 1}]}]}]`
	oncePerSlot     = `[{"command": ["app"], "slot": "s", "count": {"per_slot": 1}}]`
	fiveInAll       = `[{"command": ["hostname"], "slot": "s", "count": {"total": 5}}]`
	withoutEnd      = `{"system": {"duration": 0}}`
	anHour          = `{"system": {"duration": 3600, "cwd": "/home/flux", "environment": {"HOME": "/home/flux"}}}`
	coresAndMemory  = `[{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}, {"type": "memory", "count": 1}]}]`
	socketsInASlot  = `[{"type": "slot", "count": 1, "label": "s", "with": [{"type": "socket", "count": 1, "with": [{"type": "core", "count": 1}]}]}]`
	slotsInRacks    = `[{"type": "rack", "count": 1, "with": [{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}]}]}]`
	nodesInASlot    = `[{"type": "slot", "count": 1, "label": "s", "with": [{"type": "node", "count": 1}]}]`
	nodesAlone      = `[{"type": "node", "count": 1}]`
	coresInNodes    = `[{"type": "node", "count": 1, "with": [{"type": "core", "count": 1}]}]`
	gpusAlone       = `[{"type": "slot", "count": 1, "label": "s", "with": [{"type": "gpu", "count": 1}]}]`
	anEmptySlot     = `[{"type": "slot", "count": 1, "label": "s"}]`
	coresTwice      = `[{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}, {"type": "core", "count": 1}]}]`
	coresOfThreads  = `[{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1, "with": [{"type": "thread", "count": 1}]}]}]`
	aRangeOfSlots   = `[{"type": "slot", "count": {"min": 1, "max": 2, "operator": "+", "operand": 1}, "label": "s", "with": [{"type": "core", "count": 1}]}]`
	noSlots         = `[{"type": "slot", "count": 0, "label": "s", "with": [{"type": "core", "count": 1}]}]`
	anID            = `[{"type": "slot", "count": 1, "label": "s", "id": "x", "with": [{"type": "core", "count": 1}]}]`
	exclusiveCores  = `[{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1, "exclusive": false}]}]`
	twoSlots        = `[{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}]}, {"type": "slot", "count": 1, "label": "t", "with": [{"type": "core", "count": 1}]}]`
	twoSlotsInANode = `[{"type": "node", "count": 1, "with": [{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}]}, {"type": "slot", "count": 1, "label": "t", "with": [{"type": "core", "count": 1}]}]}]`
)

func TestValidateV1(t *testing.T) {
	tasks := func(keys string) v1 {
		return v1{"1", nodesOfSlots, `[{"command": ["app"], "slot": "s", ` + keys + `}]`, anHour}
	}
	cases := map[string]struct {
		text v1
		want string // the error; empty for none
	}{
		"a slot of cores":                       {v1{"1", slotOfCores, oncePerSlot, anHour}, ""},
		"a slot of cores and gpus":              {v1{"1", slotWithGPUs, oncePerSlot, anHour}, ""},
		"nodes of slots":                        {v1{"1", nodesOfSlots, fiveInAll, anHour}, ""},
		"nodes of slots with gpus":              {v1{"1", nodesWithGPUs, oncePerSlot, anHour}, ""},
		"no known end, said in so many":         {v1{"1", slotOfCores, oncePerSlot, withoutEnd}, ""},
		"as many tasks as nodes":                {tasks(`"count": {"total": 4}`), ""},
		"a task a slot of no end of them":       {v1{"1", strings.NewReplacer(": 4", ": 4294967295", ": 2,", ": 4294967295,").Replace(nodesOfSlots), `[{"command": ["app"], "slot": "s", "count": {"total": 9223372036854775807}}]`, anHour}, ""},
		"as many tasks as slots":                {tasks(`"count": {"total": 8}`), ""},
		"another version":                       {v1{"9999", slotOfCores, oncePerSlot, anHour}, "version: 9999: not 1"},
		"what is no jobspec at all":             {v1{"1", `[]`, oncePerSlot, anHour}, "asks for nothing"},
		"two resources":                         {v1{"1", twoSlots, oncePerSlot, anHour}, "resources: has 2 items, version 1 has one"},
		"racks":                                 {v1{"1", slotsInRacks, oncePerSlot, anHour}, `resources[0].type: "rack": version 1 has only [node slot] here`},
		"a node without a slot":                 {v1{"1", nodesAlone, oncePerSlot, anHour}, "resources[0].with: has 0 items, a node of version 1 has one slot"},
		"a node with two":                       {v1{"1", twoSlotsInANode, oncePerSlot, anHour}, "resources[0].with: has 2 items, a node of version 1 has one slot"},
		"cores outside a slot":                  {v1{"1", coresInNodes, oncePerSlot, anHour}, `resources[0].with[0].type: "core": version 1 has only [slot] here`},
		"memory":                                {v1{"1", coresAndMemory, oncePerSlot, anHour}, `resources[0].with[1].type: "memory": version 1 has only [core gpu] here`},
		"sockets":                               {v1{"1", socketsInASlot, oncePerSlot, anHour}, `resources[0].with[0].type: "socket": version 1 has only [core gpu] here`},
		"nodes in a slot":                       {v1{"1", nodesInASlot, oncePerSlot, anHour}, `resources[0].with[0].type: "node": version 1 has only [core gpu] here`},
		"a slot without cores":                  {v1{"1", gpusAlone, oncePerSlot, anHour}, "resources[0].with: no core, which a slot of version 1 has"},
		"a slot of nothing":                     {v1{"1", anEmptySlot, oncePerSlot, anHour}, "resources[0].with: no core, which a slot of version 1 has"},
		"cores twice":                           {v1{"1", coresTwice, oncePerSlot, anHour}, `resources[0].with[1].type: "core": appears twice`},
		"what is inside a core":                 {v1{"1", coresOfThreads, oncePerSlot, anHour}, "resources[0].with[0].with: nothing is inside a core in version 1"},
		"a range":                               {v1{"1", aRangeOfSlots, oncePerSlot, anHour}, "resources[0].count: a range, version 1 has only plain numbers"},
		"none":                                  {v1{"1", noSlots, oncePerSlot, anHour}, "resources[0].count: 0: less than 1"},
		"an id":                                 {v1{"1", anID, oncePerSlot, anHour}, `resources[0].id: "x": version 1 has no ids`},
		"exclusive cores":                       {v1{"1", exclusiveCores, oncePerSlot, anHour}, "resources[0].with[0].exclusive: false: version 1 has it only on a node"},
		"no task":                               {v1{"1", slotOfCores, `[]`, anHour}, "tasks: has 0 items, version 1 has one"},
		"two tasks":                             {v1{"1", slotOfCores, oncePerSlot[:len(oncePerSlot)-1] + "," + fiveInAll[1:], anHour}, "tasks: has 2 items, version 1 has one"},
		"a task without a command":              {v1{"1", slotOfCores, `[{"command": [], "slot": "s", "count": {"per_slot": 1}}]`, anHour}, "tasks[0].command: is empty"},
		"a task of another slot":                {v1{"1", slotOfCores, `[{"command": ["app"], "slot": "t", "count": {"per_slot": 1}}]`, anHour}, `tasks[0].slot: "t": the slot's label is "s"`},
		"a distribution":                        {tasks(`"count": {"per_slot": 1}, "distribution": "cyclic"`), `tasks[0].distribution: "cyclic": version 1 has none`},
		"attributes of a task":                  {tasks(`"count": {"per_slot": 1}, "attributes": {"a": 1}`), "tasks[0].attributes: a task of version 1 has none"},
		"two tasks a slot":                      {tasks(`"count": {"per_slot": 2}`), "tasks[0].count.per_slot: 2: not 1"},
		"more tasks than slots":                 {tasks(`"count": {"total": 9}`), "tasks[0].count.total: 9: more than there are slots"},
		"fewer tasks than nodes":                {tasks(`"count": {"total": 3}`), "tasks[0].count.total: 3: fewer than the 4 nodes"},
		"a system without duration":             {v1{"1", slotOfCores, oncePerSlot, `{"system": {"cwd": "/"}}`}, "attributes.system: no duration, which version 1 demands"},
		"attributes that are there and no more": {v1{"1", slotOfCores, oncePerSlot, `{}`}, "attributes.system: no duration, which version 1 demands"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j, err := Parse([]byte(tc.text.text()))
			if err == nil {
				roundTrip(t, j)
				err = j.ValidateV1()
			}
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("ValidateV1: %v", err)
			case tc.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tc.want)):
				t.Errorf("ValidateV1: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

func TestValidateV1WantsAValidJobspec(t *testing.T) {
	j := small()
	j.Resources[0].Label = ""
	if err := j.ValidateV1(); err == nil || err.Error() != "resources[0]: a slot needs a label" {
		t.Errorf("ValidateV1: %v", err)
	}
}
