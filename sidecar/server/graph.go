package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

var errNoGraphs = errors.New("this engine does not support AddSubgraph, RemoveSubgraph and Find")

// graphs returns the engine as a match.GraphEngine. It fails if the engine is not one.
func (s *service) graphs() (match.GraphEngine, error) {
	e, ok := s.engine.(match.GraphEngine)
	if !ok {
		return nil, invalid(errNoGraphs)
	}
	return e, nil
}

func (s *service) AddSubgraph(in grpc.ClientStreamingServer[fluxionpb.AddSubgraphRequest, fluxionpb.AddSubgraphResponse]) error {
	e, err := s.graphs()
	if err != nil {
		return err // before the text is read, which may be large
	}
	var (
		graph fluxionpb.SubgraphReader
		m     fluxionpb.AddSubgraphRequest // all messages are read into it: see fluxionpb.Codec
	)
	recv := func() (*fluxionpb.AddSubgraphRequest, error) { return &m, in.RecvMsg(&m) }
	epoch, err := collect(recv, graph.Add)
	if err != nil {
		return err
	}
	text, err := graph.Text()
	if err != nil {
		return invalid(err)
	}
	if err := e.AddSubgraph(in.Context(), epoch, text); err != nil {
		return err
	}
	return in.SendAndClose(&fluxionpb.AddSubgraphResponse{})
}

func (s *service) RemoveSubgraph(ctx context.Context, m *fluxionpb.RemoveSubgraphRequest) (*fluxionpb.RemoveSubgraphResponse, error) {
	e, err := s.graphs()
	if err != nil {
		return nil, err
	}
	err = e.RemoveSubgraph(ctx, match.Epoch(m.GetEpoch()), m.GetPath())
	return &fluxionpb.RemoveSubgraphResponse{}, err
}

func (s *service) Find(m *fluxionpb.FindRequest, out grpc.ServerStreamingServer[fluxionpb.FindResponse]) error {
	e, err := s.graphs()
	if err != nil {
		return err
	}
	search, err := fluxionpb.DecodeSearch(m)
	if err != nil {
		return invalid(err)
	}
	found, err := e.Find(out.Context(), search.Epoch, search.Criteria, search.Now)
	if err != nil {
		return err
	}
	for m, err := range fluxionpb.FoundMessages(found) {
		if err != nil {
			return err
		}
		if err := out.Send(m); err != nil {
			return err
		}
	}
	return nil
}
