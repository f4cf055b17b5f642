package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// stream sends messages and returns how the call ended.
func stream[M, A any](s grpc.ClientStreamingClient[M, A], err error, messages ...*M) error {
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := s.Send(m); err != nil {
			break // The result is read below.
		}
	}
	_, err = s.CloseAndRecv()
	return err
}

// goodJob and goodNode are as a client writes them.
func goodJob(t *testing.T, id uint64) *fluxionpb.Job {
	t.Helper()
	slots := []match.Slot{matchtest.Held("k", "n", matchtest.Cores(1))}
	for jobs, err := range fluxionpb.JobMessages([]match.Job{{ID: match.JobID(id), Slots: slots}}) {
		if err != nil {
			t.Fatal(err)
		}
		return jobs[0]
	}
	return nil
}

func goodNode(t *testing.T) []byte {
	t.Helper()
	text, err := matchtest.Node("n", nil, matchtest.Cores(1)).JGF()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWrongInputNamesTheFieldAndReachesNoEngine(t *testing.T) {
	job, node := goodJob(t, 1), goodNode(t)
	noR, badR := goodJob(t, 2), goodJob(t, 2)
	noR.Slots[0].R = nil
	badR.Slots[0].R = []byte(`{"version":7}`)

	update := func(messages ...*fluxionpb.UpdateRequest) func(context.Context, fluxionpb.FluxionClient) error {
		return func(ctx context.Context, c fluxionpb.FluxionClient) error {
			s, err := c.Update(ctx)
			return stream(s, err, messages...)
		}
	}
	put := func(messages ...*fluxionpb.PutNodeRequest) func(context.Context, fluxionpb.FluxionClient) error {
		return func(ctx context.Context, c fluxionpb.FluxionClient) error {
			s, err := c.PutNode(ctx)
			return stream(s, err, messages...)
		}
	}
	add := func(messages ...*fluxionpb.AddSubgraphRequest) func(context.Context, fluxionpb.FluxionClient) error {
		return func(ctx context.Context, c fluxionpb.FluxionClient) error {
			s, err := c.AddSubgraph(ctx)
			return stream(s, err, messages...)
		}
	}
	cases := map[string]struct {
		call func(context.Context, fluxionpb.FluxionClient) error
		want string
	}{
		"a graph of no message": {add(), "the stream has no message"},
		"a graph of no size":    {add(&fluxionpb.AddSubgraphRequest{Jgf: []byte("{}")}), "jgf: missing"},
		"a graph over the limit": {
			add(&fluxionpb.AddSubgraphRequest{Size: fluxionpb.MaxGraph + 1}), fmt.Sprintf("a graph has at most %d", fluxionpb.MaxGraph),
		},
		"a graph that ends too early": {
			add(&fluxionpb.AddSubgraphRequest{Size: 9, Jgf: []byte("abc")}, &fluxionpb.AddSubgraphRequest{Jgf: []byte("de")}),
			"jgf: ends after 5 of 9 bytes",
		},
		"a graph whose second message is of another epoch": {
			add(&fluxionpb.AddSubgraphRequest{Epoch: 1, Size: 9, Jgf: []byte("abc")}, &fluxionpb.AddSubgraphRequest{Epoch: 2}), "epoch: ",
		},
		"a search at a time that is none": {func(ctx context.Context, c fluxionpb.FluxionClient) error {
			s, err := c.Find(ctx, &fluxionpb.FindRequest{Now: &timestamppb.Timestamp{Nanos: -1}})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}, "now: "},
		"a match of nothing": {func(ctx context.Context, c fluxionpb.FluxionClient) error {
			s, err := c.Match(ctx, &fluxionpb.MatchRequest{Op: fluxionpb.Op_OP_ALLOCATE})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}, "jobspec: missing"},
		"a status not known": {func(ctx context.Context, c fluxionpb.FluxionClient) error {
			_, err := c.SetStatus(ctx, &fluxionpb.SetStatusRequest{Name: "n", Status: 9})
			return err
		}, "status: 9"},
		"no status": {func(ctx context.Context, c fluxionpb.FluxionClient) error {
			_, err := c.SetStatus(ctx, &fluxionpb.SetStatusRequest{Name: "n"})
			return err
		}, "status: 0"},
		"an update of no message": {update(), "the stream has no message"},
		"a slot without R in the second message": {
			update(&fluxionpb.UpdateRequest{Jobs: []*fluxionpb.Job{job}}, &fluxionpb.UpdateRequest{Jobs: []*fluxionpb.Job{noR}}),
			"jobs[1].slots[0]: r: missing",
		},
		"an R of another version in the second message": {
			update(&fluxionpb.UpdateRequest{Jobs: []*fluxionpb.Job{job}}, &fluxionpb.UpdateRequest{Jobs: []*fluxionpb.Job{badR}}),
			"jobs[1].slots[0]: r: ",
		},
		"a second message of another epoch": {
			update(&fluxionpb.UpdateRequest{Epoch: 1, Jobs: []*fluxionpb.Job{job}}, &fluxionpb.UpdateRequest{Epoch: 2}),
			"epoch: ",
		},
		"a job that goes on before it began": {
			update(&fluxionpb.UpdateRequest{Jobs: []*fluxionpb.Job{{Id: 7, Continued: true}}}), "continued: job 7",
		},
		"a node that is no graph in the second message": {
			put(&fluxionpb.PutNodeRequest{Graphs: [][]byte{node}}, &fluxionpb.PutNodeRequest{Graphs: [][]byte{[]byte("{")}}),
			"graphs[1]: ",
		},
		"no node, no message": {put(), "the stream has no message"},
	}
	fake := matchtest.NewFake()
	_, conn := start(t, fake)
	rpc := fluxionpb.NewFluxionClient(conn)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := status.Convert(tc.call(soon(t), rpc))
			err := fluxionpb.FromStatus(s)
			if s.Code() != codes.InvalidArgument || !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %s: %v, want %q in it", s.Code(), err, tc.want)
			}
		})
	}
	if calls := fake.Calls(); len(calls) > 0 {
		t.Errorf("the engine was called: %v", calls)
	}
}

func TestAStreamInManyMessagesIsOneCall(t *testing.T) {
	fake := matchtest.NewFake()
	_, conn := start(t, fake)
	rpc := fluxionpb.NewFluxionClient(conn)
	s, err := rpc.Update(soon(t))
	err = stream(s, err,
		&fluxionpb.UpdateRequest{Epoch: 5, Jobs: []*fluxionpb.Job{goodJob(t, 1)}},
		&fluxionpb.UpdateRequest{Epoch: 5, Jobs: []*fluxionpb.Job{{Id: 1, Continued: true, Slots: goodJob(t, 1).GetSlots()}, goodJob(t, 2)}},
	)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rpc.PutNode(soon(t))
	if err := stream(p, err, &fluxionpb.PutNodeRequest{Epoch: 5, Graphs: [][]byte{goodNode(t)}}, &fluxionpb.PutNodeRequest{Epoch: 5}); err != nil {
		t.Fatal(err)
	}
	calls := fake.Calls()
	if len(calls) != 2 || calls[0].Epoch != 5 || len(calls[0].Jobs) != 2 || len(calls[0].Jobs[0].Slots) != 2 || len(calls[1].Nodes) != 1 {
		t.Errorf("got %+v", calls)
	}
}

func TestAMessageOverTheLimitIsNotTakenForABusyEngine(t *testing.T) {
	fake := matchtest.NewFake()
	_, conn := start(t, fake)
	keys := []string{strings.Repeat("x", fluxionpb.MaxMessage+1)}
	_, err := fluxionpb.NewFluxionClient(conn).Release(soon(t), &fluxionpb.ReleaseRequest{Keys: keys})
	got := fluxionpb.FromStatus(status.Convert(err))
	if status.Code(err) != codes.ResourceExhausted || errors.Is(got, match.ErrBusy) {
		t.Errorf("got %v", got)
	}
	if calls := fake.Calls(); len(calls) > 0 {
		t.Error("the engine was called")
	}
}
