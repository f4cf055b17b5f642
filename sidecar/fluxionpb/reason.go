package fluxionpb

import (
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
)

func encodeReason(r *match.Reason) *Reason {
	m := &Reason{
		Code:         validUTF8(string(r.Code)),
		Slot:         validUTF8(r.Slot),
		Level:        validUTF8(r.Level),
		Vertex:       validUTF8(r.Vertex),
		Wanted:       r.Wanted,
		Found:        r.Found,
		Nodes:        r.Nodes,
		Down:         r.Down,
		Excluded:     r.Excluded,
		Whole:        r.OtherHolder,
		InUse:        r.InUse,
		WaitingHelps: r.WaitingHelps,
		MayNeverFit:  r.MayNeverFit,
		AllDisplaced: r.AllDisplaced,
	}
	for _, s := range r.Shortages {
		m.Shortages = append(m.Shortages, &Shortage{
			Type: validUTF8(s.Type), Unit: validUTF8(s.Unit), Wanted: s.Wanted, Most: s.MaxOnNode, Nodes: s.Nodes,
		})
	}
	if r.Blocker != nil {
		m.End = &End{Job: uint64(r.Blocker.Job), More: r.Blocker.MoreSlots}
	}
	if x := r.Promised; x != nil {
		m.Promised = &Promised{Job: uint64(x.Job), More: x.MoreSlots, From: encodeTime(x.From)}
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
		OtherHolder:  m.GetWhole(),
		InUse:        m.GetInUse(),
		WaitingHelps: m.GetWaitingHelps(),
		MayNeverFit:  m.GetMayNeverFit(),
		AllDisplaced: m.GetAllDisplaced(),
	}
	for _, s := range m.GetShortages() {
		r.Shortages = append(r.Shortages, match.Shortage{
			Type: s.GetType(), Unit: s.GetUnit(), Wanted: s.GetWanted(), MaxOnNode: s.GetMost(), Nodes: s.GetNodes(),
		})
	}
	if end := m.GetEnd(); end != nil {
		r.Blocker = &match.Blocker{Job: match.JobID(end.GetJob()), MoreSlots: end.GetMore()}
	}
	if x := m.GetPromised(); x != nil {
		// A time that cannot be read does not lose the refusal.
		from, _ := decodeTime("from", x.GetFrom())
		r.Promised = &match.Promised{Job: match.JobID(x.GetJob()), MoreSlots: x.GetMore(), From: from}
	}
	return r
}

// validUTF8 replaces the bytes in s that are not UTF-8, because a message may contain only UTF-8. A
// lost error would be worse than a changed letter.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
