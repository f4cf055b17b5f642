package fluxionpb

import (
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
)

func encodeReason(r *match.Reason) *Reason {
	m := &Reason{
		Code:         text(string(r.Code)),
		Slot:         text(r.Slot),
		Level:        text(r.Level),
		Vertex:       text(r.Vertex),
		Wanted:       r.Wanted,
		Found:        r.Found,
		Nodes:        r.Nodes,
		Down:         r.Down,
		Excluded:     r.Excluded,
		Whole:        r.Whole,
		InUse:        r.InUse,
		WaitingHelps: r.WaitingHelps,
		MayNeverFit:  r.MayNeverFit,
	}
	for _, s := range r.Shortages {
		m.Shortages = append(m.Shortages, &Shortage{
			Type: text(s.Type), Unit: text(s.Unit), Wanted: s.Wanted, Most: s.Most, Nodes: s.Nodes,
		})
	}
	if r.End != nil {
		m.End = &End{Job: uint64(r.End.Job), More: r.End.More}
	}
	return m
}

func decodeReason(m *Reason) match.Reason {
	r := match.Reason{
		Code:         match.Code(m.GetCode()),
		Slot:         m.GetSlot(),
		Level:        m.GetLevel(),
		Vertex:       m.GetVertex(),
		Wanted:       m.GetWanted(),
		Found:        m.GetFound(),
		Nodes:        m.GetNodes(),
		Down:         m.GetDown(),
		Excluded:     m.GetExcluded(),
		Whole:        m.GetWhole(),
		InUse:        m.GetInUse(),
		WaitingHelps: m.GetWaitingHelps(),
		MayNeverFit:  m.GetMayNeverFit(),
	}
	for _, s := range m.GetShortages() {
		r.Shortages = append(r.Shortages, match.Shortage{
			Type: s.GetType(), Unit: s.GetUnit(), Wanted: s.GetWanted(), Most: s.GetMost(), Nodes: s.GetNodes(),
		})
	}
	if end := m.GetEnd(); end != nil {
		r.End = &match.End{Job: match.JobID(end.GetJob()), More: end.GetMore()}
	}
	return r
}

// text makes s fit for the wire, which takes UTF-8 alone. A lost error would be
// worse than a changed letter.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
