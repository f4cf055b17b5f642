package resource

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// ParseSet reads R (RFC 20): the times from execution, the vertices from scheduling
// and the queue from attributes. Scheduling must be there. The rest of execution is
// ignored, because it follows from the vertices. The vertices have the defaults of
// ReadJGF and keep their order. Times are in UTC, to the nanosecond. An expiration
// of 0 means no expiration. ParseR also reads an R that other programs write.
//
// ParseSet returns an error, which names vertex, key and value, for another version,
// a vertex without a type or without paths (which may be empty), a negative size, a
// node whose name no hostlist can hold (RFC 29), an edge to a vertex that is not
// there, an expiration that is not after the start, and a time after the year 9999.
func ParseSet(data []byte) (*Set, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("resource set is not UTF-8")
	}
	r := newReader(data)
	s := &Set{}
	var seen setKeys
	err := r.set(s, &seen)
	switch {
	case err != nil:
		return nil, err
	case seen.versions == 0:
		return nil, fmt.Errorf("no version")
	case seen.schedulings == 0 || seen.unscheduled:
		return nil, fmt.Errorf("no scheduling")
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// A setKeys counts the keys of R. For the keys of execution that
// are read later it has their positions; 0 if the key is not there.
type setKeys struct {
	versions, executions, schedulings, attributes, graphs int

	unscheduled                 bool // scheduling is null
	rlite, nodelist, properties int
}

// set reads R, or a bare graph, to the end of the text.
func (r *reader) set(s *Set, seen *setKeys) error {
	err := r.object(func(key []byte) error {
		switch string(key) {
		case "version":
			return once(&seen.versions, "version", r.version)
		case "execution":
			return once(&seen.executions, "execution", func() error { return r.execution(s, seen) })
		case "scheduling":
			return once(&seen.schedulings, "scheduling", func() error {
				if seen.unscheduled = r.null(); seen.unscheduled {
					return nil
				}
				return r.graph(r.shares(s))
			})
		case "attributes":
			return once(&seen.attributes, "attributes", func() error { return r.attributes(s) })
		case "graph":
			return once(&seen.graphs, "graph", func() error { return r.body(r.shares(s)) })
		}
		return r.skip()
	})
	switch {
	case err != nil:
		return err
	case seen.graphs > 0 && seen.versions+seen.executions+seen.schedulings > 0:
		return fmt.Errorf("graph beside version, execution or scheduling")
	}
	return r.end()
}

// once reads the value of a key. It fails if the key was there before.
func once(times *int, key string, read func() error) error {
	if *times++; *times > 1 {
		return fmt.Errorf("%s appears twice", key)
	}
	return in(key, read())
}

func (r *reader) version() error {
	n, err := r.integer()
	if err == nil && n != 1 {
		err = fmt.Errorf("%d: not 1", n)
	}
	return err
}

func (r *reader) execution(s *Set, seen *setKeys) error {
	var starts, expirations int
	return r.object(func(key []byte) error {
		switch string(key) {
		case "starttime":
			return once(&starts, "starttime", func() error { return r.time(&s.Start) })
		case "expiration":
			return once(&expirations, "expiration", func() error {
				err := r.time(&s.Expiration)
				if err == nil && epoch(s.Expiration) {
					s.Expiration = time.Time{}
				}
				return err
			})
		case "R_lite":
			return r.passOver(&seen.rlite, "R_lite")
		case "nodelist":
			return r.passOver(&seen.nodelist, "nodelist")
		case "properties":
			return r.passOver(&seen.properties, "properties")
		}
		return r.skip()
	})
}

// passOver records the position of a key's value and
// skips the value. It fails if the key was there before.
func (r *reader) passOver(at *int, key string) error {
	if *at > 0 {
		return fmt.Errorf("%s appears twice", key)
	}
	r.peek()
	*at = r.pos
	return r.skip()
}

// attributes reads attributes.system.scheduler.queue.
func (r *reader) attributes(s *Set) error {
	return r.below("system", func() error {
		return r.below("scheduler", func() error {
			return r.below("queue", func() (err error) {
				s.Queue, err = r.word()
				return err
			})
		})
	})
}

// below reads an object. It calls read for the value of one key, and ignores all other keys.
func (r *reader) below(known string, read func() error) error {
	times := 0
	return r.object(func(key []byte) error {
		if string(key) != known {
			return r.skip()
		}
		return once(&times, known, read)
	})
}

func (r *reader) time(t *time.Time) error {
	text, err := r.number()
	if err == nil {
		*t, err = parseTime(string(text))
	}
	return err
}

// shares returns functions for graph that add the vertices to a set and ignore the edges.
func (r *reader) shares(s *Set) (vertex func(*node) error, edge func(Edge) error) {
	vertex = func(n *node) error {
		share := Share{Vertex: n.Vertex, Amount: n.Size, Exclusively: n.Exclusive, Label: n.extra.label}
		share.Exclusive = n.extra.exclusive
		if n.extra.sized {
			share.Size = n.extra.size
		}
		if s.Vertices == nil {
			s.Vertices = make([]Share, 0, 8) // enough for most pods
		}
		s.Vertices = append(s.Vertices, share)
		return nil
	}
	return vertex, func(Edge) error { return nil }
}
