package jobspec

import (
	"slices"
	"strconv"
)

// A Limit bounds how many slots are below any one
// vertex of a type, or on the nodes of any one list.
type Limit struct {
	// Name is the name of the limit. Slots of all labels that have a limit
	// of this name count together. Limits of the same name must be equal.
	Name string
	// Level is the type of vertex, for instance node or rack. It is empty if Hosts is set.
	Level string
	// Hosts are hostlists (RFC 29). No name may be in two of
	// them. Nodes that are in none of them are not bounded.
	Hosts []string
	// Most is the largest number of slots. Zero means no slots at all.
	Most int64
}

// A Topology is how the slots of one label are distributed. The slots of all labels
// that have the same Topology count as one set. A level is a type of vertices above
// the nodes, or node itself. A domain is the set of nodes below one vertex of a level.
type Topology struct {
	// Required is a level; all slots must be in one domain of it.
	Required string
	// Preferred are levels; the slots are in as few domains as possible
	// of each. An earlier level takes precedence over a later one.
	Preferred []string
	// Balanced is a level; the slots are in as few of its domains as
	// possible. Each domain has equally many slots. If the number of slots is
	// no multiple of the number of domains, some domains have one slot fewer.
	Balanced string
}

// validate checks the limit, and subtracts the number of names in its hostlists from room. said
// has, by limit name, hostlists that are counted already; their names are not counted again.
func (l Limit) validate(room *int, said map[string][]string) error {
	switch {
	case l.Name == "":
		return in("name", fault("is missing"))
	case l.Level == "" && len(l.Hosts) == 0:
		return fault("set level or hosts")
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
