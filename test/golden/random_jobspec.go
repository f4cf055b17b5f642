package golden

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A drawer draws jobspecs for a graph.
type drawer struct {
	*rand.Rand
	graph *drawnGraph
	label int
	// exclusive reports whether the current request is below something exclusive.
	exclusive bool
	// whole reports whether the policy allocates whole nodes.
	whole bool
}

// chain returns the types from the root down to a random vertex.
func (d *drawer) chain() []string {
	var types []string
	for i := d.IntN(len(d.graph.vertices)); i >= 0; i = d.graph.vertices[i].parent {
		types = append([]string{d.graph.vertices[i].typ}, types...)
	}
	return types
}

// siblings returns the types of the children of vertices of a type.
func (d *drawer) siblings(typ string) []string {
	seen := map[string]bool{}
	var list []string
	for _, v := range d.graph.vertices {
		if v.parent >= 0 && d.graph.vertices[v.parent].typ == typ && !seen[v.typ] {
			seen[v.typ] = true
			list = append(list, v.typ)
		}
	}
	return list
}

type mapping = map[string]any

func (d *drawer) jobspec() string {
	var resources []any
	n := pickOf(d.Rand, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3)
	asked := map[any]bool{}
	for range n {
		one := d.resource()
		if n > 1 && (one["type"] == "slot" || asked[one["type"]]) {
			continue // a contradiction if the two meet
		}
		asked[one["type"]] = true
		resources = append(resources, one)
	}
	if len(resources) == 0 {
		resources = append(resources, d.resource())
	}
	system := mapping{}
	switch d.IntN(8) {
	case 0:
	case 1:
		system["duration"] = 0
	case 2:
		system["duration"] = pickOf(d.Rand, 0.5, 1.5, 3600.25)
	case 3:
		system["duration"] = pickOf[any](d.Rand, 3153600000, 1000000)
	default:
		system["duration"] = pickOf(d.Rand, 5, 10, 20, 30, 100, 3600)
	}
	if d.IntN(7) == 0 {
		system["constraints"] = d.constraint(2)
	}
	if d.IntN(12) == 0 {
		system["queue"] = pickOf(d.Rand, "batch", "debug")
	}
	text, err := json.Marshal(mapping{
		"version": 1, "resources": resources, "attributes": mapping{"system": system},
		"tasks": []any{mapping{"command": []string{"app"}, "slot": "s0", "count": mapping{"per_slot": 1}}},
	})
	if err != nil {
		panic(err) // all values can be encoded in JSON
	}
	return string(text)
}

// resource draws a request: a way down in the graph with a
// slot somewhere on it. It may leave out the first levels.
func (d *drawer) resource() mapping {
	d.exclusive = false
	types := d.chain()
	if d.IntN(4) > 0 {
		types = types[1:] // the root is rarely requested
	}
	if len(types) == 0 {
		types = []string{"node"}
	}
	types = types[d.IntN(len(types)):]
	if len(types) > 2 && d.IntN(20) == 0 {
		types = append(types[:1:1], types[2:]...) // a level in between is left out
	}
	if d.IntN(40) == 0 {
		types[len(types)-1] = pickOf(d.Rand, "gpu", "rack", "fpga", "socket")
	}
	slot := d.IntN(len(types))
	if d.IntN(25) == 0 {
		slot = len(types) // none
	}
	return d.build(types, slot)
}

func (d *drawer) build(types []string, slot int) mapping {
	if slot == 0 {
		content := []any{d.build(types, -1)}
		up := d.parentOf(types[0])
		for _, t := range d.siblings(up) {
			if t != types[0] && d.IntN(3) == 0 {
				content = append(content, d.build([]string{t}, -1))
			}
		}
		label := fmt.Sprintf("s%d", d.label)
		d.label++
		return mapping{"type": "slot", "label": label, "count": d.count(4), "with": content}
	}
	m := mapping{"type": types[0], "count": d.count(3)}
	switch d.IntN(20) {
	case 0:
		m["exclusive"], d.exclusive = true, true
	case 1:
		if slot > 0 && len(types) > slot && !d.exclusive {
			m["exclusive"] = false // an error below something exclusive, whether found or not
		}
	}
	if d.IntN(25) == 0 && !d.exclusive && !d.whole {
		m["label"] = pickOf(d.Rand, "foo", "bar")
	}
	if len(types) > 1 {
		with := []any{d.build(types[1:], slot-1)}
		if slot != 1 && d.IntN(6) == 0 {
			for _, t := range d.siblings(types[0]) {
				if t != types[1] && d.IntN(2) == 0 {
					with = append(with, d.build([]string{t}, -1))
				}
			}
		}
		m["with"] = with
	}
	return m
}

func (d *drawer) parentOf(typ string) string {
	for _, v := range d.graph.vertices {
		if v.typ == typ && v.parent >= 0 {
			return d.graph.vertices[v.parent].typ
		}
	}
	return ""
}

func (d *drawer) count(most int) any {
	switch d.IntN(30) {
	case 0:
		if d.IntN(4) == 0 {
			return 0
		}
	case 1, 2, 3:
		low := 1 + d.IntN(most)
		return mapping{"min": low, "max": low + d.IntN(2*most), "operator": "+", "operand": 1 + d.IntN(3)}
	case 4:
		low := 1 + d.IntN(2)
		return mapping{"min": low, "max": low * 8, "operator": "*", "operand": 2 + d.IntN(2)}
	case 5:
		return mapping{"min": 2, "max": 2 + d.IntN(20), "operator": "^", "operand": 2}
	case 6:
		return 4 + d.IntN(12)
	case 7, 8, 9, 10, 11, 12:
		return 1 + d.IntN(most)
	}
	return 1
}

func (d *drawer) constraint(depth int) any {
	if d.IntN(3) > 0 {
		depth = 0
	}
	if depth > 0 {
		args := []any{d.constraint(depth - 1)}
		if d.IntN(2) == 0 {
			args = append(args, d.constraint(depth-1))
		}
		return mapping{pickOf(d.Rand, "and", "or", "not"): args}
	}
	switch d.IntN(6) {
	case 0:
		return mapping{"hostlist": []string{fmt.Sprintf("node[%d-%d],a-1", d.IntN(3), 3+d.IntN(5))}}
	case 1:
		return mapping{"ranks": []string{fmt.Sprintf("%d-%d", d.IntN(3), 3+d.IntN(4))}}
	case 2:
		return mapping{}
	}
	p := pickOf(d.Rand, "amd", "big", "zone", "perf_class")
	return mapping{"properties": []string{strings.Repeat("^", d.IntN(2)) + p}}
}
