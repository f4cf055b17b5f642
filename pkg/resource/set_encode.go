package resource

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flux-k8s/fluence/pkg/hostlist"
)

// Encode returns R (RFC 20) as one line of compact JSON. Its execution
// is for programs that run jobs. Its scheduling is for programs that
// hold resources, and ParseSet takes the vertices only from there.
//
// R_lite has the ranks that hold cores or gpus that are counted. A vertex without a rank
// cannot be in R_lite, and neither can an amount in a unit, so R_lite is empty for a
// Kubernetes node. nodelist names the node vertices by rank, and in the order of the set
// if ranks are equal. A time that is zero is left out. In scheduling, size is the amount
// that is held, and exclusive is whether the vertex is held exclusively. The edges
// follow from the containment paths. The queue is attributes.system.scheduler.queue.
//
// Encode returns an error, which names the fault, for a set that ParseSet would not read.
func (s *Set) Encode() ([]byte, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	const fixed, perVertex = 160, 200 // about what they take
	b := append(make([]byte, 0, fixed+perVertex*len(s.Vertices)), `{"version":1,"execution":{"R_lite":`...)
	b = appendRLite(b, s.Vertices)
	b = appendNodes(b, namedNodes(s.Vertices))
	if !s.Start.IsZero() {
		b = appendTime(append(b, `,"starttime":`...), s.Start)
	}
	if !s.Expiration.IsZero() {
		b = appendTime(append(b, `,"expiration":`...), s.Expiration)
	}
	b = append(b, `},"scheduling":`...)
	b = s.appendGraph(b, func(v *Share) (*Share, extra) {
		return v, extra{size: v.Size, sized: v.Size != v.Amount, exclusive: v.Exclusive}
	})
	return append(s.appendQueue(b), '}'), nil
}

// appendGraph writes the vertices and the edges between them. It
// writes each vertex in the form that the function as returns.
func (s *Set) appendGraph(b []byte, as func(*Share) (*Share, extra)) []byte {
	b = append(b, `{"graph":{"nodes":[`...)
	ids := numbering(len(s.Vertices), func(i int) int64 { return s.Vertices[i].UniqID })
	for i := range s.Vertices {
		if i > 0 {
			b = append(b, ',')
		}
		v, x := as(&s.Vertices[i])
		b = ids.appendNode(b, i, v, x)
	}
	b = append(b, `],"edges":[`...)
	for i, e := range containment(s.Vertices) {
		if i > 0 {
			b = append(b, ',')
		}
		b = ids.appendEdge(b, e)
	}
	return append(b, "]}}"...)
}

// appendQueue writes the key attributes of R. It writes nothing if there is no queue.
func (s *Set) appendQueue(b []byte) []byte {
	if s.Queue == "" {
		return b
	}
	b = appendText(append(b, `,"attributes":{"system":{"scheduler":{"queue":`...), s.Queue)
	return append(b, "}}}"...)
}

// containment returns the edges of the set. Each vertex has an edge
// from the vertex above it in its path, if the set has that vertex.
func containment(shares []Share) []Edge {
	var at map[string]int
	for i := range shares {
		if path := shares[i].Path; path != "" {
			if at == nil {
				at = make(map[string]int, len(shares))
			}
			if _, twice := at[path]; !twice {
				at[path] = i
			}
		}
	}
	if at == nil {
		return nil
	}
	edges := make([]Edge, 0, len(at))
	for i := range shares {
		path := shares[i].Path
		if parent, ok := at[path[:max(0, strings.LastIndexByte(path, '/'))]]; ok {
			edges = append(edges, Edge{Source: parent, Target: i, Subsystem: Containment})
		}
	}
	return edges
}

// validate fails for a set that ParseSet would not read.
func (s *Set) validate() error {
	if err := s.checkTexts(); err != nil {
		return err
	}
	return s.check()
}

// checkTexts fails for a text that JSON cannot hold.
func (s *Set) checkTexts() error {
	for i := range s.Vertices {
		v := &s.Vertices[i]
		err := v.checkTexts()
		if err == nil && !utf8.ValidString(v.Label) {
			err = fmt.Errorf("label: %q: not UTF-8", v.Label)
		}
		if err != nil {
			return s.about(i, err)
		}
	}
	if !utf8.ValidString(s.Queue) {
		return fmt.Errorf("queue: %q: not UTF-8", s.Queue)
	}
	return nil
}

// check is validate without checkTexts.
func (s *Set) check() error {
	for i := range s.Vertices {
		v := &s.Vertices[i]
		err := v.check()
		switch {
		case err != nil:
		case v.Amount < 0:
			err = fmt.Errorf("amount: %d: less than 0", v.Amount)
		case v.Type == TypeNode && v.Name != "" && !hostlist.Single(v.Name):
			err = fmt.Errorf("name: %q: cannot stand in a hostlist", v.Name)
		}
		if err != nil {
			return s.about(i, err)
		}
	}
	return s.checkTimes()
}

// about adds the index, the type and the name of a vertex to an error.
func (s *Set) about(i int, err error) error {
	return fmt.Errorf("vertex %d (%s %s): %w", i, s.Vertices[i].Type, s.Vertices[i].Name, err)
}

func (s *Set) checkTimes() error {
	if !s.Start.IsZero() && !representable(s.Start) {
		return fmt.Errorf("starttime: %v: not from 1970 to 9999", s.Start)
	}
	if s.Expiration.IsZero() {
		return nil
	}
	if !representable(s.Expiration) || epoch(s.Expiration) {
		return fmt.Errorf("expiration: %v: not from 1970 to 9999", s.Expiration)
	}
	if !s.Start.IsZero() && !s.Expiration.After(s.Start) {
		return fmt.Errorf("expiration: %v: not after the start, %v", s.Expiration, s.Start)
	}
	return nil
}
