package fluxionpb_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// held returns a job of n slots on different nodes, with and without a holder, shared and not.
func held(id match.JobID, n int) match.Job {
	j := match.Job{ID: id}
	for i := range n {
		j.Slots = append(j.Slots, matchtest.Held(
			fmt.Sprintf("pod-%d-%d", id, i), fmt.Sprintf("node-%d", i), matchtest.MilliCores(250), matchtest.Memory(1), matchtest.Pods(1)))
		j.Slots[i].Shared = i%3 == 2
		if i%3 == 1 {
			j.Slots[i].Holder = "ns/group"
		}
	}
	return j
}

// resend encodes and decodes messages.
func resend[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > fluxionpb.MaxMessage {
		t.Fatalf("a message has %d bytes, more than %d", len(b), fluxionpb.MaxMessage)
	}
	got, ok := m.ProtoReflect().New().Interface().(M)
	if !ok {
		t.Fatalf("%T makes another type", m)
	}
	if err := proto.Unmarshal(b, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// wantSame compares what was sent with what was read. A diff of
// large values takes seconds, so it is made only if they differ.
func wantSame[T any](t *testing.T, sent, read T) {
	t.Helper()
	if reflect.DeepEqual(sent, read) {
		return
	}
	if diff := cmp.Diff(sent, read, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-sent +read:\n%.2000s", diff)
	}
}

func TestJobsTravelWhole(t *testing.T) {
	var many []match.Job
	for id := range match.JobID(70_000) {
		many = append(many, match.Job{ID: id + 1})
	}
	cases := map[string]struct {
		jobs     []match.Job
		messages int // the minimum
	}{
		"no job":                                   {messages: 1},
		"one job":                                  {jobs: []match.Job{held(1, 3)}, messages: 1},
		"a job without slots":                      {jobs: []match.Job{held(1, 1), held(2, 0), held(3, 1)}, messages: 1},
		"a job too large for one message":          {jobs: []match.Job{held(1, 1), held(2, 2500), held(3, 1)}, messages: 3},
		"the same job twice in a row":              {jobs: []match.Job{held(1, 1), held(1, 2)}, messages: 1},
		"more jobs than fit one message":           {jobs: many, messages: 3},
		"large jobs that each fill several, twice": {jobs: []match.Job{held(7, 2000), held(7, 2000)}, messages: 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var r fluxionpb.JobsReader
			messages := 0
			for jobs, err := range fluxionpb.JobMessages(tc.jobs) {
				if err != nil {
					t.Fatal(err)
				}
				messages++
				if err := r.Add(resend(t, &fluxionpb.UpdateRequest{Epoch: 1, Jobs: jobs}).GetJobs()); err != nil {
					t.Fatal(err)
				}
			}
			if messages < tc.messages {
				t.Errorf("%d messages, want at least %d", messages, tc.messages)
			}
			wantSame(t, tc.jobs, r.Jobs())
		})
	}
}

func TestAJobGoesOnOnlyAfterItself(t *testing.T) {
	cases := map[string][]*fluxionpb.Job{
		"the first job":         {{Id: 7, Continued: true}},
		"a job of another name": {{Id: 6}, {Id: 7, Continued: true}},
	}
	for name, jobs := range cases {
		t.Run(name, func(t *testing.T) {
			var r fluxionpb.JobsReader
			if err := r.Add(jobs); err == nil || !strings.Contains(err.Error(), "job 7") {
				t.Errorf("got %v, want an error that names the job", err)
			}
		})
	}
}

func TestNodesTravelWhole(t *testing.T) {
	var nodes []*resource.Graph
	for i := range 1500 {
		g := matchtest.Node(fmt.Sprintf("node-%d", i), [][2]string{{"rack", fmt.Sprintf("rack%d", i/40)}},
			matchtest.Cores(96), matchtest.Memory(512), matchtest.GPUs(8), matchtest.Pods(110))
		nodes = append(nodes, matchtest.WithProperties(g, "zone", "a", "size", "large"))
	}
	for _, n := range []int{0, 1, len(nodes)} {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			var r fluxionpb.NodesReader
			messages := 0
			for graphs, err := range fluxionpb.NodeMessages(nodes[:n]) {
				if err != nil {
					t.Fatal(err)
				}
				messages++
				if err := r.Add(resend(t, &fluxionpb.PutNodeRequest{Graphs: graphs}).GetGraphs()); err != nil {
					t.Fatal(err)
				}
			}
			if messages < 1 || n > 1000 && messages < 2 {
				t.Errorf("%d messages", messages)
			}
			wantSame(t, nodes[:n], r.Nodes())
		})
	}
}

func TestListingsTravelWhole(t *testing.T) {
	node := func(name string, jobs ...match.Job) match.Node {
		return match.Node{Name: name, Graph: matchtest.Node(name, [][2]string{{"rack", "r1"}}, matchtest.Cores(96)), Jobs: jobs}
	}
	var many []match.Node
	for i := range 4000 {
		many = append(many, node(fmt.Sprintf("node-%d", i), held(match.JobID(i+1), 3)))
	}
	cases := map[string]struct {
		nodes    []match.Node
		messages int // the minimum
	}{
		"no node":                               {messages: 1},
		"nodes with jobs and without":           {nodes: []match.Node{node("a"), node("b", held(1, 2), held(2, 1)), node("c")}, messages: 1},
		"something held where no node is":       {nodes: []match.Node{{Name: "a", Jobs: []match.Job{held(1, 2)}}, node("b")}, messages: 1},
		"more nodes than fit one message":       {nodes: many, messages: 3},
		"a node with too much for one message":  {nodes: []match.Node{node("a", held(1, 2500), held(2, 2500)), node("b", held(2, 1))}, messages: 3},
		"nodes without a job after a large one": {nodes: []match.Node{node("a", held(1, 2500)), node("b"), node("c")}, messages: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var r fluxionpb.ListingReader
			messages := 0
			for nodes, err := range fluxionpb.ListingMessages(tc.nodes) {
				if err != nil {
					t.Fatal(err)
				}
				messages++
				if err := r.Add(resend(t, &fluxionpb.NodesResponse{Nodes: nodes}).GetNodes()); err != nil {
					t.Fatal(err)
				}
			}
			if messages < tc.messages {
				t.Errorf("%d messages, want at least %d", messages, tc.messages)
			}
			wantSame(t, tc.nodes, r.Nodes())
		})
	}
}

func TestAListingThatIsWrongNamesTheField(t *testing.T) {
	cases := map[string]struct {
		nodes []*fluxionpb.Node
		want  string
	}{
		"a part of no node":              {[]*fluxionpb.Node{{Continued: true}}, "nodes[0].continued"},
		"a graph that is none":           {[]*fluxionpb.Node{{Name: "a"}, {Name: "b", Graph: []byte("{")}}, "nodes[1]: graph"},
		"a job that goes on from nobody": {[]*fluxionpb.Node{{Name: "a", Jobs: []*fluxionpb.Job{{Id: 7, Continued: true}}}}, "nodes[0]: continued"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var r fluxionpb.ListingReader
			if err := r.Add(tc.nodes); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error that names %s", err, tc.want)
			}
		})
	}
	for _, err := range fluxionpb.ListingMessages([]match.Node{{Name: "\xff"}}) {
		if err == nil || !strings.Contains(err.Error(), "nodes[0]: name") {
			t.Errorf("got %v, want an error that names the node's name", err)
		}
	}
}

func TestAllocationsTravelWhole(t *testing.T) {
	large := held(9, 2000)
	whole := &resource.Set{}
	for _, s := range large.Slots {
		whole.Vertices = append(whole.Vertices, s.R.Vertices...)
	}
	at := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	cases := map[string]match.Allocation{
		"nothing but an id":     {ID: 9},
		"a reservation":         {ID: 9, Reserved: true, Start: at, End: at.Add(time.Hour), R: held(9, 1).Slots[0].R, Slots: held(9, 1).Slots},
		"units have to go":      {ID: 9, Start: at, R: held(9, 1).Slots[0].R, Slots: held(9, 1).Slots, Displaced: []int{0, 7, match.MaxUnits - 1}},
		"more than one message": {ID: 9, Start: at, R: whole, Slots: large.Slots},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			var r fluxionpb.AllocationReader
			for m, err := range fluxionpb.AllocationMessages(&want) {
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Add(resend(t, m)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := r.Allocation()
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, &want, got)
		})
	}
}

func TestAnAnswerThatIsNoAllocation(t *testing.T) {
	head := &fluxionpb.MatchResponse{Allocation: &fluxionpb.Allocation{Id: 1}}
	cases := map[string][]*fluxionpb.MatchResponse{
		"no message":                      {},
		"a head that comes too late":      {{R: []byte("{}")}, head},
		"two heads":                       {head, head},
		"a slot without what it holds":    {{Allocation: head.GetAllocation(), Slots: []*fluxionpb.Slot{{Key: "a"}}}},
		"a whole that is no R of RFC 20":  {{Allocation: head.GetAllocation(), R: []byte(`{"version":1`)}},
		"a slot whose R is not of RFC 20": {{Allocation: head.GetAllocation(), Slots: []*fluxionpb.Slot{{R: []byte("x")}}}},
	}
	for name, messages := range cases {
		t.Run(name, func(t *testing.T) {
			var r fluxionpb.AllocationReader
			for _, m := range messages {
				if err := r.Add(m); err != nil {
					return
				}
			}
			if a, err := r.Allocation(); err == nil {
				t.Errorf("read %v", a)
			}
		})
	}
}

func TestWhatIsTooLargeForAMessageNamesTheLimit(t *testing.T) {
	long := strings.Repeat("x", fluxionpb.MaxMessage)
	limit := fmt.Sprint(fluxionpb.MaxMessage - 1<<10)
	sent := map[string]error{}
	for _, err := range fluxionpb.JobMessages([]match.Job{{ID: 1, Slots: []match.Slot{matchtest.Held(long, "n", matchtest.Cores(1))}}}) {
		sent["slots[0]"] = err
	}
	_, err := fluxionpb.EncodeRequest(match.Request{ID: 1, Jobspec: matchtest.Slots("w", 1, matchtest.Cores(1)), Keys: []string{long}})
	sent["request"] = err
	for what, err := range sent {
		if err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), limit) {
			t.Errorf("%s: got %.200v, want an error that names it and the limit %s", what, err, limit)
		}
	}
}
