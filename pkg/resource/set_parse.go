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
	r := reader{cursor: cursor{data: data}, words: map[string]string{}}
	s := &Set{}
	there := map[string]bool{}
	err := r.object(func(key []byte) error {
		k := string(key)
		if there[k] {
			return fmt.Errorf("%s is there twice", k)
		}
		there[k] = true
		switch k {
		case "version":
			return in(k, r.version())
		case "execution":
			return in(k, r.execution(s))
		case "scheduling":
			return in(k, r.scheduling(s))
		}
		return r.skip()
	})
	switch {
	case err != nil:
		return nil, err
	case !there["version"]:
		return nil, fmt.Errorf("no version")
	case !there["scheduling"]:
		return nil, fmt.Errorf("no scheduling")
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	return s, nil
}

func (r *reader) version() error {
	n, err := r.integer()
	if err == nil && n != 1 {
		err = fmt.Errorf("%d: not 1", n)
	}
	return err
}

func (r *reader) execution(s *Set) error {
	started, expires := false, false
	return r.object(func(key []byte) error {
		switch string(key) {
		case "starttime":
			if started {
				return fmt.Errorf("starttime is there twice")
			}
			started = true
			return in("starttime", r.time(&s.Start))
		case "expiration":
			if expires {
				return fmt.Errorf("expiration is there twice")
			}
			expires = true
			err := r.time(&s.Expiration)
			if err == nil && s.Expiration.UnixNano() == 0 {
				s.Expiration = time.Time{}
			}
			return in("expiration", err)
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
	return r.graph(map[string]int{}, func(n *node) error {
		share := Share{Vertex: n.Vertex, Amount: n.Size, Exclusively: n.Vertex.Exclusive}
		share.Vertex.Exclusive = n.extra.exclusive
		if n.extra.sized {
			share.Size = n.extra.size
		}
		s.Vertices = append(s.Vertices, share)
		return nil
	}, func(Edge) {})
}
