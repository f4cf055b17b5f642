package model

import (
	"encoding/json"
	"errors"
	"fmt"
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
			return "", nil // the library writes nothing then, too
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
