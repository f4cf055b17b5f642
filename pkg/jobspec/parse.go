package jobspec

import "math"

// Parse reads a jobspec (RFC 14) from YAML or JSON, as Fluxion does. Of several documents it reads
// the first. An unknown key is an error, except under attributes.user and attributes.system, which
// keep it. Whole numbers may be hexadecimal (0x2) or octal (010). The text may have at most
// MaxSize bytes. The result has passed Validate. An error names line, field and value.
func Parse(data []byte) (*Jobspec, error) {
	doc, err := readValue(data)
	if err != nil {
		return nil, err
	}
	j, err := parseTop(doc)
	if err != nil {
		return nil, err
	}
	if err := j.Validate(); err != nil {
		return nil, located(doc, err)
	}
	return j, nil
}

func parseTop(doc value) (*Jobspec, error) {
	if err := doc.mapping(); err != nil {
		return nil, err
	}
	if err := only(doc, "version", "resources", "tasks", "attributes"); err != nil {
		return nil, err
	}
	j := &Jobspec{}
	for _, f := range []struct {
		key  string
		read func(value) error
	}{
		{"version", func(v value) error { return setVersion(&j.Version, v) }},
		{"resources", func(v value) (err error) { j.Resources, err = parseResources(v); return err }},
		{"tasks", func(v value) (err error) { j.Tasks, err = parseTasks(v); return err }},
		{"attributes", func(v value) (err error) { j.Attributes, err = parseAttributes(v); return err }},
	} {
		v, err := doc.require(f.key)
		if err != nil {
			return nil, err
		}
		if err := f.read(v); err != nil {
			return nil, in(f.key, err)
		}
	}
	return j, nil
}

func setVersion(version *int, v value) error {
	n, err := wholeNumber(v)
	if err != nil {
		return err
	}
	*version = int(min(max(n, math.MinInt32), math.MaxInt32))
	return nil
}

// only returns an error if the mapping has a key that is not listed.
func only(v value, keys ...string) error {
next:
	for i, key := range v.keys {
		for _, k := range keys {
			if k == key {
				continue next
			}
		}
		return faultAt(v.items[i], "unknown key %s", shorten(key))
	}
	return nil
}

// setText reads the text of a key. It changes nothing if the key is missing.
func setText(to *string, v value, key string) error {
	item, ok := v.get(key)
	if !ok {
		return nil
	}
	text, err := item.scalar()
	if err != nil {
		return in(key, err)
	}
	*to = text
	return nil
}

// texts reads a list of texts.
func texts(v value) ([]string, error) {
	items, err := v.list()
	if err != nil {
		return nil, err
	}
	var list []string
	for i, item := range items {
		text, err := item.scalar()
		if err != nil {
			return nil, inItem(i, err)
		}
		list = append(list, text)
	}
	return list, nil
}
