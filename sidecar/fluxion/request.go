package fluxion

import (
	"strconv"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A unitCount is a number of units of one type, with the type's name in the library's graph.
type unitCount struct {
	typeName string
	n        int64
}

// A request is a request to the library: slots of one shape on some nodes.
type request struct {
	count jobspec.Count
	need  []unitCount
	// hosts is a hostlist (RFC 29) of the nodes that may be used. Empty means all.
	hosts string
}

func exactly(n int64) jobspec.Count { return jobspec.Exactly(n) }

// encode returns a canonical jobspec (RFC 14). The jobspec has
// no duration, so that its job holds until it is cancelled.
func (r request) encode() string {
	b := []byte(`{"version":9999,"resources":[{"type":"slot","label":"s","count":`)
	if c := r.count; c.Min == c.Max {
		b = strconv.AppendInt(b, c.Min, 10)
	} else {
		// All four keys are written, because some releases
		// require max, operator and operand together.
		b = strconv.AppendInt(append(b, `{"min":`...), c.Min, 10)
		b = strconv.AppendInt(append(b, `,"max":`...), c.Max, 10)
		b = append(b, `,"operator":"`...)
		b = append(b, c.Operator)
		b = strconv.AppendInt(append(b, `","operand":`...), c.Operand, 10)
		b = append(b, '}')
	}
	b = append(b, `,"with":[`...)
	for i, a := range r.need {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(append(b, `{"type":`...), a.typeName)
		b = strconv.AppendInt(append(b, `,"count":`...), a.n, 10)
		b = append(b, '}')
	}
	b = append(b, `]}],"tasks":[{"command":["pod"],"slot":"s","count":{"per_slot":1}}],"attributes":{"system":{"duration":0`...)
	if r.hosts != "" {
		b = strconv.AppendQuote(append(b, `,"constraints":{"hostlist":[`...), r.hosts)
		b = append(b, `]}`...)
	}
	return string(append(b, `}}}`...))
}

// hostlist returns rising node numbers as a hostlist (RFC 29).
func hostlist(numbers []int64) string {
	b := []byte(nodeBasename + "[")
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, numbers[i], 10)
		if last > i {
			b = strconv.AppendInt(append(b, '-'), numbers[last], 10)
		}
		i = last + 1
	}
	return string(append(b, ']'))
}
