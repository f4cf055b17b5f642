package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// liteOf groups the ranks by the cores and gpus that are held
// there. It returns the groups, and the set of the ranks.
func liteOf(out []share) (lite []any, holds map[int64]bool, err error) {
	held := map[int64]map[string][]int64{}
	for _, s := range out {
		if s.typ != "core" && s.typ != "gpu" {
			continue
		}
		if s.rank < 0 || s.id < 0 {
			return nil, nil, fmt.Errorf("%s: no set holds rank %d, id %d", s.name, s.rank, s.id)
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
		text, _ := json.Marshal(c) // only texts, so there is no error
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

// ranges returns ids in their order, with consecutive ids as first-last.
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

// nodelist returns the names of the nodes as one hostlist, by rank.
func nodelist(nodes []share) []string {
	slices.SortStableFunc(nodes, func(a, b share) int { return cmp.Compare(a.rank, b.rank) })
	var parts []string
	for i := 0; i < len(nodes); {
		prefix := strings.TrimRight(nodes[i].name, "0123456789")
		var ids []int64
		for ; i < len(nodes); i++ {
			digits, same := strings.CutPrefix(nodes[i].name, prefix)
			id, err := strconv.ParseUint(digits, 10, 63)
			if !same || err != nil || strconv.FormatUint(id, 10) != digits {
				break
			}
			ids = append(ids, int64(id))
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

// propertiesOf returns the ranks that have each property.
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
