package resource

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// ParseSet reads R (RFC 20): the times from execution and the vertices from
// scheduling, which therefore has to be there; what else execution says follows
// from those. Vertices take the defaults of ReadJGF, and keep their order. Times
// come back in UTC, to the nanosecond; an expiration of 0 is none.
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
	var versions, executions, schedulings int
	err := r.object(func(key []byte) error {
		switch string(key) {
		case "version":
			return once(&versions, "version", r.version)
		case "execution":
			return once(&executions, "execution", func() error { return r.execution(s) })
		case "scheduling":
			return once(&schedulings, "scheduling", func() error { return r.scheduling(s) })
		}
		return r.skip()
	})
	switch {
	case err != nil:
		return nil, err
	case versions == 0:
		return nil, fmt.Errorf("no version")
	case schedulings == 0:
		return nil, fmt.Errorf("no scheduling")
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
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

func (r *reader) execution(s *Set) error {
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
		}
		return r.skip()
	})
}

func (r *reader) time(t *time.Time) error {
	text, err := r.number()
	if err == nil {
		*t, err = parseTime(string(text))
	}
	return err
}

func (r *reader) scheduling(s *Set) error {
	return r.graph(func(n *node) error {
		share := Share{Vertex: n.Vertex, Amount: n.Size, Exclusively: n.Exclusive}
		share.Exclusive = n.extra.exclusive
		if n.extra.sized {
			share.Size = n.extra.size
		}
		if s.Vertices == nil {
			s.Vertices = make([]Share, 0, 8) // a pod's, mostly
		}
		s.Vertices = append(s.Vertices, share)
		return nil
	}, func(Edge) error { return nil })
}
