package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

type object = map[string]any

// write writes a result in the format of the options.
func (m *model) write(out []share, start, end int64) (string, error) {
	var value any
	switch m.format {
	case "jgf":
		value = graphOf(out)
	case "rlite":
		lite, _, err := liteOf(out)
		if err != nil {
			return "", err
		}
		if len(lite) == 0 {
			return "", errors.New("no core and no gpu on a node: rlite cannot say it")
		}
		value = lite
	case "rv1", "rv1_nosched":
		lite, holds, err := liteOf(out)
		if err != nil {
			return "", err
		}
		if len(lite) == 0 {
			return "", nil // as the library writes nothing then
		}
		nodes := slices.DeleteFunc(slices.Clone(out), func(s share) bool { return s.typ != "node" || !holds[s.rank] })
		execution := object{"R_lite": lite, "nodelist": nodelist(nodes), "starttime": start, "expiration": end}
		if p := propertiesOf(nodes); len(p) > 0 {
			execution["properties"] = p
		}
		r := object{"version": 1, "execution": execution}
		if m.format == "rv1" {
			r["scheduling"] = graphOf(out)
			if m.queue != "" {
				r["attributes"] = object{"system": object{"scheduler": object{"queue": m.queue}}}
			}
		}
		value = r
	case "pretty_simple":
		return pretty(out), nil
	default:
		return simple(out), nil
	}
	text, err := json.Marshal(value)
	return string(text) + "\n", err
}

func simple(out []share) string {
	var b strings.Builder
	for _, s := range out {
		x := "s"
		if s.x {
			x = "x"
		}
		fmt.Fprintf(&b, "      %s%s[%d:%s]\n", strings.Repeat("---", s.depth+1), s.name, s.needs, x)
	}
	return b.String()
}

func pretty(out []share) string {
	var b strings.Builder
	for _, s := range slices.Backward(out) {
		x := "shared"
		if s.x {
			x = "exclusive"
		}
		fmt.Fprintf(&b, "      %s%s[%d:%s]\n", strings.Repeat("---", s.depth+1), s.name, s.needs, x)
	}
	return b.String()
}

func graphOf(out []share) object {
	nodes, edges := []any{}, []any{}
	for _, s := range out {
		m := object{"type": s.typ, "id": s.id, "rank": s.rank, "paths": s.paths}
		if s.basename != s.typ {
			m["basename"] = s.basename
		}
		if s.name != s.basename+strconv.FormatInt(s.id, 10) {
			m["name"] = s.name
		}
		if len(s.properties) > 0 {
			m["properties"] = s.properties
		}
		if s.x {
			m["exclusive"] = true
		}
		if s.needs != 1 {
			m["size"] = s.needs
		}
		if s.label != "" {
			m["ephemeral"] = object{"label": s.label}
		}
		nodes = append(nodes, object{"id": strconv.FormatInt(s.uniq, 10), "metadata": m})
		if s.up != nil {
			edges = append(edges, object{"source": strconv.FormatInt(s.up.from.uniq, 10), "target": strconv.FormatInt(s.uniq, 10)})
		}
	}
	return object{"graph": object{"nodes": nodes, "edges": edges}}
}

// liteOf groups ranks by the cores and gpus that are held there, and lists these
// ranks.
func liteOf(out []share) (lite []any, holds map[int64]bool, err error) {
	held := map[int64]map[string][]int64{}
	for _, s := range out {
		if s.typ != "core" && s.typ != "gpu" {
			continue
		}
		if s.rank < 0 {
			return nil, nil, fmt.Errorf("%s has no rank", s.name)
		}
		if held[s.rank] == nil {
			held[s.rank] = map[string][]int64{}
		}
		held[s.rank][s.typ] = append(held[s.rank][s.typ], s.id)
	}
	holds = map[int64]bool{}
	ranks := map[string][]int64{}
	children := map[string]object{}
	for rank, types := range held {
		holds[rank] = true
		c := object{}
		for t, ids := range types {
			c[t] = idset(ids)
		}
		text, _ := json.Marshal(c) // of texts alone
		children[string(text)] = c
		ranks[string(text)] = append(ranks[string(text)], rank)
	}
	for _, text := range slices.Sorted(maps.Keys(ranks)) {
		lite = append(lite, object{"rank": idset(ranks[text]), "children": children[text]})
	}
	return lite, holds, nil
}

func idset(ids []int64) string {
	slices.Sort(ids)
	return ranges(slices.Compact(ids))
}

// ranges writes ids as they come, those that follow one another as first-last.
func ranges(ids []int64) string {
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		part := strconv.FormatInt(ids[i], 10)
		if j > i {
			part += "-" + strconv.FormatInt(ids[j], 10)
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// nodelist writes the names of the nodes as one hostlist, by rank.
func nodelist(nodes []share) []string {
	slices.SortStableFunc(nodes, func(a, b share) int { return cmp.Compare(a.rank, b.rank) })
	var parts []string
	for i := 0; i < len(nodes); {
		prefix := strings.TrimRight(nodes[i].name, "0123456789")
		var ids []int64
		for ; i < len(nodes); i++ {
			digits, same := strings.CutPrefix(nodes[i].name, prefix)
			id, err := strconv.ParseInt(digits, 10, 64)
			if !same || err != nil || strconv.FormatInt(id, 10) != digits {
				break
			}
			ids = append(ids, id)
		}
		switch {
		case len(ids) == 0:
			parts = append(parts, nodes[i].name)
			i++
		case len(ids) == 1:
			parts = append(parts, prefix+strconv.FormatInt(ids[0], 10))
		default:
			parts = append(parts, prefix+"["+ranges(ids)+"]")
		}
	}
	return []string{strings.Join(parts, ",")}
}

// propertiesOf lists the ranks that have a property.
func propertiesOf(nodes []share) object {
	ranks := map[string][]int64{}
	for _, s := range nodes {
		for name, value := range s.properties {
			if value != "" {
				name += "=" + value
			}
			ranks[name] = append(ranks[name], s.rank)
		}
	}
	properties := object{}
	for name, r := range ranks {
		properties[name] = idset(r)
	}
	return properties
}
