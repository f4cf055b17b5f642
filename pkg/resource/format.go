package resource

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fluxion writes a match in one of these formats (its option match_format).
const (
	FormatJGF          = "jgf"
	FormatRLite        = "rlite"
	FormatRV1          = "rv1"
	FormatRV1NoSched   = "rv1_nosched"
	FormatSimple       = "simple"
	FormatPrettySimple = "pretty_simple"
)

// Formats returns all formats.
func Formats() []string {
	return []string{FormatJGF, FormatRLite, FormatRV1, FormatRV1NoSched, FormatSimple, FormatPrettySimple}
}

// Format returns the set as Fluxion writes it in one of its formats.
// There is a line break at the end. An unknown format is FormatSimple.
//
// FormatSimple has one line per vertex, such as "core0[1:x]", in emission order and indented by
// depth. FormatPrettySimple has the same lines from the root down, with words such as
// "exclusive" instead of "x". FormatJGF is the graph of the vertices, where size is the amount
// held. FormatRLite has the ids of the cores and gpus, by the rank of the node that follows
// them. FormatRV1 is R (RFC 20) with both of these and the queue. FormatRV1NoSched is R without
// the graph and the queue. If the set has no end, R ends with Fluxion's graphs. That is a
// hundred years after 1970, or a hundred years after the start if the start is not before that.
//
// FormatRLite, FormatRV1 and FormatRV1NoSched need cores or gpus below nodes. For a
// set without them, FormatRLite fails, and the other two write nothing. All three fail
// if a node with cores or gpus has no rank, if a core or gpu has a negative id, and
// whenever Encode fails. The other formats fail only for a text that is not UTF-8.
func (s *Set) Format(format string) ([]byte, error) {
	if err := s.checkTexts(); err != nil {
		return nil, err
	}
	var b []byte
	switch format {
	case FormatJGF:
		b = s.appendGraph(nil, asFluxion())
	case FormatRLite, FormatRV1, FormatRV1NoSched:
		if err := s.check(); err != nil {
			return nil, err
		}
		holdings, err := s.holdings()
		if err != nil {
			return nil, err
		}
		if format != FormatRLite {
			return s.rv1(holdings, format == FormatRV1), nil
		}
		if len(holdings) == 0 {
			return nil, fmt.Errorf("%s: neither cores nor gpus of a node to write", format)
		}
		b = appendHoldings(nil, holdings)
	case FormatPrettySimple:
		return s.simple(true), nil
	default:
		return s.simple(false), nil
	}
	return append(spaced(b), '\n'), nil
}

// asFluxion returns a function that leaves out the fields of a vertex that Fluxion does not write.
func asFluxion() func(*Share) (*Share, extra) {
	var v Share
	return func(share *Share) (*Share, extra) {
		v = *share
		v.Unit, v.Status = "", Up
		return &v, extra{}
	}
}

// simple returns the set in FormatSimple or FormatPrettySimple.
func (s *Set) simple(pretty bool) []byte {
	var b []byte
	for i := range s.Vertices {
		shared, exclusive := "s", "x"
		if pretty {
			i = len(s.Vertices) - 1 - i
			shared, exclusive = "shared", "exclusive"
		}
		v := &s.Vertices[i]
		b = append(b, "      "...)
		for range strings.Count(v.Path, "/") {
			b = append(b, "---"...)
		}
		b = strconv.AppendInt(append(append(b, v.Name...), '['), v.Amount, 10)
		if v.Exclusively {
			shared = exclusive
		}
		b = append(append(append(b, ':'), shared...), "]\n"...)
	}
	return b
}

// rv1 returns R, with or without scheduling and attributes.
func (s *Set) rv1(holdings []holding, scheduling bool) []byte {
	if len(holdings) == 0 {
		return nil
	}
	b := appendHoldings([]byte(`{"version":1,"execution":{"R_lite":`), holdings)
	nodes := make([]*Share, len(holdings))
	for i, h := range holdings {
		nodes[i] = h.node
	}
	b = appendNodes(b, nodes)
	start := s.Start
	if start.IsZero() {
		start = time.Unix(0, 0)
	}
	end := s.Expiration
	if end.IsZero() {
		if end = time.Unix(0, 0).Add(graphLife); !end.After(start) {
			end = start.Add(graphLife)
		}
	}
	b = appendTime(append(b, `,"starttime":`...), start)
	b = append(appendTime(append(b, `,"expiration":`...), end), '}')
	if scheduling {
		b = s.appendGraph(append(b, `,"scheduling":`...), asFluxion())
		b = s.appendQueue(b)
	}
	return append(spaced(append(b, '}')), '\n')
}

// graphLife is the lifetime of Fluxion's graphs, which begins at the time
// 0. A set without a known end is written with the end of the graph.
const graphLife = 3153600000 * time.Second

// holdings collects the cores and gpus of every node. They come before the node in the set.
func (s *Set) holdings() ([]holding, error) {
	var all []holding
	var cores, gpus []int64
	for i := range s.Vertices {
		v := &s.Vertices[i]
		ids := &cores
		switch {
		case v.Type == TypeNode && len(cores)+len(gpus) > 0:
			if v.Rank < 0 {
				return nil, s.about(i, fmt.Errorf("rank: %d: R_lite goes by rank", v.Rank))
			}
			all = append(all, holding{v.Rank, v, children(cores, gpus)})
			cores, gpus = nil, nil
			continue
		case v.Unit != "" && !v.Exclusively: // an amount in a unit
			continue
		case v.Type == typeGPU:
			ids = &gpus
		case v.Type != typeCore:
			continue
		}
		if v.ID < 0 {
			return nil, s.about(i, fmt.Errorf("id: %d: R_lite has no negative ids", v.ID))
		}
		*ids = append(*ids, v.ID)
	}
	return all, nil
}

// spaced returns compact JSON with a blank after each comma and colon.
func spaced(b []byte) []byte {
	out := make([]byte, 0, len(b)+len(b)/6)
	quoted := false
	for i := 0; i < len(b); i++ {
		out = append(out, b[i])
		switch c := b[i]; {
		case c == '\\':
			i++
			out = append(out, b[i])
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':'):
			out = append(out, ' ')
		}
	}
	return out
}
