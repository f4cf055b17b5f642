package traverser

// A Part is a graph that was read to be added, or a part of a graph that begins at the root.
type Part struct{ g *graph }

// Read reads JGF. It fails with match.ErrInvalid. The error names what is wrong.
func Read(jgf []byte) (*Part, error) {
	g, err := read(jgf)
	if err != nil {
		return nil, invalid("graph: %w", err)
	}
	return &Part{g}, nil
}

// Add adds a part. The traverser owns the part from then on. If a vertex of the part has the
// path and the rank of an existing vertex, it is the same vertex, and the existing vertex
// does not change. If the traverser already has a graph, Add uses only the containment
// subsystem of the part. Add fails with match.ErrInvalid, and changes nothing then.
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

// rebuild calls change while nothing is booked. Then it books all jobs again.
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
