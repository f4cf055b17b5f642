package traverser

// A Part is a graph, or a part of one that begins at the root, that was read to be
// added.
type Part struct{ g *graph }

// Read reads JGF. It fails with match.ErrInvalid, naming what is wrong.
func Read(jgf []byte) (*Part, error) {
	g, err := read(jgf)
	if err != nil {
		return nil, invalid("graph: %w", err)
	}
	return &Part{g}, nil
}

// Add adds a part, which is the traverser's from then on. A vertex with path and
// rank of one that is there is that one, and stays as it is; of a part that is added
// to others, only containment counts. It fails with match.ErrInvalid, changing
// nothing.
func (t *Traverser) Add(p *Part) error {
	part := p.g
	if t.Empty() {
		part.prime(&t.filters)
		t.g = *part
		t.attempt, t.space, t.byName = attempt{}, workspace{}, nil
		return nil
	}
	m := merger{g: &t.g, part: part, to: make([]vid, len(part.typ))}
	for i := range m.to {
		m.to[i] = none
	}
	if err := m.match(part.root, t.g.root); err != nil {
		return invalid("graph: %w", err)
	}
	if err := m.checkTotal(); err != nil {
		return invalid("graph: %w", err)
	}
	t.rebuild(m.apply)
	return nil
}

// rebuild changes the graph while nothing is booked, and books all anew.
func (t *Traverser) rebuild(change func()) {
	for _, j := range t.jobs {
		t.book(j, false)
	}
	booked := make(map[*inner]bool)
	for _, in := range t.g.inner {
		booked[in] = in.free != nil && in.free.booked
	}
	change()
	t.g.prime(&t.filters)
	for _, in := range t.g.inner {
		if in.free != nil {
			in.free.booked = booked[in]
		}
	}
	t.attempt, t.space, t.byName = attempt{}, workspace{}, nil
	for _, j := range t.jobs {
		t.book(j, true)
	}
}
