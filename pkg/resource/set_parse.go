package resource

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// ParseSet reads R (RFC 20): the times from execution and the vertices from
// scheduling, which therefore has to be there; what else execution says follows
// from those. Vertices take the defaults of ReadJGF, and keep their order. Times
// come back in UTC, to the nanosecond; an expiration of 0 is none. The queue is
// that of attributes. ParseR reads what others write too.
//
// It fails, naming vertex, key and value, for another version, a vertex without
// type or paths (which may be empty) or with a negative size, a node whose name
// no hostlist can hold (RFC 29), an edge to a vertex that is not there, an
// expiration not after the start, or a time beyond the year 9999.
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

// A setKeys says which keys of R were there, and where those of execution stand
// that were passed over: 0 is nowhere.
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

// once reads the value of a key that may be there only once.
func once(times *int, key string, read func() error) error {
	if *times++; *times > 1 {
		return fmt.Errorf("%s is there twice", key)
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

// passOver notes where the value of a key stands that may be there only once.
func (r *reader) passOver(at *int, key string) error {
	if *at > 0 {
		return fmt.Errorf("%s is there twice", key)
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

// below reads an object, of which it knows one key.
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

// shares returns what adds the vertices of a graph to a set.
func (r *reader) shares(s *Set) (vertex func(*node) error, edge func(Edge) error) {
	vertex = func(n *node) error {
		share := Share{Vertex: n.Vertex, Amount: n.Size, Exclusively: n.Exclusive, Label: n.extra.label}
		share.Exclusive = n.extra.exclusive
		if n.extra.sized {
			share.Size = n.extra.size
		}
		if s.Vertices == nil {
			s.Vertices = make([]Share, 0, 8) // a pod's, mostly
		}
		s.Vertices = append(s.Vertices, share)
		return nil
	}
	return vertex, func(Edge) error { return nil }
}
