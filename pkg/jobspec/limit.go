package jobspec

import (
	"slices"
	"strconv"
)

// A Limit bounds how many slots stand on some nodes: below any one vertex of a type, or
// on the nodes of any one list.
type Limit struct {
	// Name is that of the limit: slots of all labels with a limit of this name count
	// together, and all of them say the same of it.
	Name string
	// Level is the type of vertex, for instance node or rack; empty where Hosts are
	// given.
	Level string
	// Hosts are hostlists (RFC 29) without a name in common. Nodes that are in none of
	// them are not bounded.
	Hosts []string
	// Most is how many slots there may be at the most; 0 is none.
	Most int64
}

// A Topology says how the slots of one label stand together. Those of all labels with
// the same Topology count as one set. Levels are types of vertices that stand above
// the nodes, or node itself; what of a level a set stands on are domains.
type Topology struct {
	// Required: all in one domain of this level.
	Required string
	// Preferred: in as few domains as there can be of each of these levels, the first
	// before the next.
	Preferred []string
	// Balanced: in as few domains of this level as there can be, each with as many
	// slots as the others, or one fewer where their number is no multiple.
	Balanced string
}

// validate takes the names that the lists stand for off room. Lists that another label said
// under the same name stand for no more.
func (l Limit) validate(room *int, said map[string][]string) error {
	switch {
	case l.Name == "":
		return in("name", fault("is missing"))
	case l.Level == "" && len(l.Hosts) == 0:
		return fault("neither level nor hosts")
	case l.Level != "" && len(l.Hosts) > 0:
		return fault("level and hosts: one of them only")
	case l.Most < 0:
		return in("most", fault("%d: less than 0", l.Most))
	}
	if before, again := said[l.Name]; again && slices.Equal(before, l.Hosts) {
		return validateTexts(l.Name, l.Level)
	}
	said[l.Name] = l.Hosts
	for i, h := range l.Hosts {
		if err := validateTexts(h); err != nil {
			return in("hosts", inItem(i, err))
		}
		if err := checkHostlist(h, room); err != nil {
			return in("hosts", inItem(i, fault("%s: %v", shorten(h), err)))
		}
	}
	return validateTexts(l.Name, l.Level)
}

func (t *Topology) validate() error {
	if t == nil {
		return nil
	}
	if t.Required == "" && t.Balanced == "" && len(t.Preferred) == 0 {
		return fault("asks for nothing")
	}
	if slices.Contains(t.Preferred, "") {
		return in("preferred", fault("a level without a name"))
	}
	return validateTexts(append(slices.Clone(t.Preferred), t.Required, t.Balanced)...)
}

func parseLimits(v value) ([]Limit, error) {
	items, err := v.list()
	if err != nil {
		return nil, err
	}
	var limits []Limit
	for i, item := range items {
		l, err := parseLimit(item)
		if err != nil {
			return nil, inItem(i, err)
		}
		limits = append(limits, l)
	}
	return limits, nil
}

func parseLimit(v value) (Limit, error) {
	var l Limit
	if err := v.mapping(); err != nil {
		return l, err
	}
	for i, key := range v.keys {
		var err error
		switch item := v.items[i]; key {
		case "name":
			l.Name, err = item.scalar()
		case "level":
			l.Level, err = item.scalar()
		case "hosts":
			l.Hosts, err = texts(item)
		case "most":
			l.Most, err = wholeNumber(item)
		default:
			return l, faultAt(item, "unknown key %s", shorten(key))
		}
		if err != nil {
			return l, in(key, err)
		}
	}
	return l, nil
}

func parseTopology(v value) (*Topology, error) {
	if err := v.mapping(); err != nil {
		return nil, err
	}
	t := &Topology{}
	for i, key := range v.keys {
		var err error
		switch item := v.items[i]; key {
		case "required":
			t.Required, err = item.scalar()
		case "preferred":
			t.Preferred, err = texts(item)
		case "balanced":
			t.Balanced, err = item.scalar()
		default:
			return nil, faultAt(item, "unknown key %s", shorten(key))
		}
		if err != nil {
			return nil, in(key, err)
		}
	}
	return t, nil
}

func appendLimit(b []byte, l Limit) []byte {
	b = appendText(appendKey(append(b, '{'), "name"), l.Name)
	if l.Level != "" {
		b = appendText(appendKey(b, "level"), l.Level)
	}
	if len(l.Hosts) > 0 {
		b = appendList(appendKey(b, "hosts"), l.Hosts, appendText)
	}
	return append(strconv.AppendInt(appendKey(b, "most"), l.Most, 10), '}')
}

func appendTopology(b []byte, t *Topology) []byte {
	b = append(b, '{')
	if t.Required != "" {
		b = appendText(appendKey(b, "required"), t.Required)
	}
	if len(t.Preferred) > 0 {
		b = appendList(appendKey(b, "preferred"), t.Preferred, appendText)
	}
	if t.Balanced != "" {
		b = appendText(appendKey(b, "balanced"), t.Balanced)
	}
	return append(b, '}')
}
