package resource

// An extra is the metadata key fluence. In the JGF of a Set the usual keys have what is held
// of a pool, so this key has the pool's own size and exclusive. Other readers ignore the key.
type extra struct {
	size      int64
	sized     bool
	exclusive bool
	// label is from the key ephemeral, which Fluxion writes too.
	label string
}

func (r *reader) extra(x *extra) error {
	var sizes, exclusives int
	return r.object(func(key []byte) error {
		switch string(key) {
		case "size":
			x.sized = true
			return once(&sizes, "size", func() (err error) { x.size, err = r.integer(); return err })
		case "exclusive":
			return once(&exclusives, "exclusive", func() (err error) { x.exclusive, err = r.boolean(); return err })
		}
		return r.skip()
	})
}

// label reads the label from the key ephemeral, if there is one. It ignores all other content.
func (r *reader) label(x *extra) error {
	if r.peek() != '{' {
		return r.skip()
	}
	return r.object(func(key []byte) (err error) {
		if string(key) != "label" || r.peek() != '"' {
			return r.skip()
		}
		x.label, err = r.word()
		return in("label", err)
	})
}
