package fluxionpb_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// letters returns n bytes of which no two neighbours are equal.
func letters(n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(i%17)
	}
	return text
}

func TestGraphsTravelWhole(t *testing.T) {
	cases := map[string]struct{ size, messages int }{
		"a byte":                      {1, 1},
		"as much as fits one message": {512 << 10, 1},
		"one byte more":               {512<<10 + 1, 2},
		"many messages":               {10<<20 + 7, 21},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := letters(tc.size)
			var r fluxionpb.SubgraphReader
			messages := 0
			for m, err := range fluxionpb.SubgraphMessages(want) {
				if err != nil {
					t.Fatal(err)
				}
				messages++
				if err := r.Add(resend(t, m)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := r.Text()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes became %d, %v", len(want), len(got), err)
			}
			if messages != tc.messages || cap(got) > len(want)+len(want)/8+64 {
				t.Errorf("%d messages joined in %d bytes, want %d in little more than %d", messages, cap(got), tc.messages, len(want))
			}
		})
	}
}

func TestAGraphThatIsNotSentNamesTheLimit(t *testing.T) {
	for what, text := range map[string][]byte{"jgf: missing": nil, fmt.Sprint(fluxionpb.MaxGraph): make([]byte, fluxionpb.MaxGraph+1)} {
		for m, err := range fluxionpb.SubgraphMessages(text) {
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%d bytes: got %d bytes and %v, want an error that says %q", len(text), len(m.GetJgf()), err, what)
			}
		}
	}
}

func TestAStreamThatIsNoGraphNamesTheField(t *testing.T) {
	piece := func(size uint64, text string) *fluxionpb.AddSubgraphRequest {
		return &fluxionpb.AddSubgraphRequest{Size: size, Jgf: []byte(text)}
	}
	cases := map[string]struct {
		messages []*fluxionpb.AddSubgraphRequest
		want     string
	}{
		"no message":                     {nil, "jgf: missing"},
		"no size":                        {[]*fluxionpb.AddSubgraphRequest{piece(0, "abc")}, "jgf: missing"},
		"a size over the limit":          {[]*fluxionpb.AddSubgraphRequest{piece(fluxionpb.MaxGraph+1, "abc")}, fmt.Sprint(fluxionpb.MaxGraph)},
		"a text that ends too early":     {[]*fluxionpb.AddSubgraphRequest{piece(4, "abc")}, "jgf: ends after 3 of 4 bytes"},
		"a text that goes on":            {[]*fluxionpb.AddSubgraphRequest{piece(4, "abc"), piece(0, "de")}, "jgf: more than the 4 bytes"},
		"a size that is said once again": {[]*fluxionpb.AddSubgraphRequest{piece(4, "abc"), piece(4, "d")}, "size: 4"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var r fluxionpb.SubgraphReader
			var err error
			for _, m := range tc.messages {
				if err == nil {
					err = r.Add(m)
				}
			}
			if err == nil {
				_, err = r.Text()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestSearchesTravelWhole(t *testing.T) {
	for name, want := range map[string]fluxionpb.Search{
		"the least that a search has": {},
		"every field":                 {Epoch: 1 << 63, Criteria: "status=up and grün", Now: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := fluxionpb.EncodeSearch(want)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := fluxionpb.DecodeSearch(resend(t, m)); got != want || err != nil {
				t.Errorf("%v became %v, %v", want, got, err)
			}
		})
	}
	if _, err := fluxionpb.DecodeSearch(&fluxionpb.FindRequest{Now: &timestamppb.Timestamp{Nanos: -1}}); err == nil || !strings.HasPrefix(err.Error(), "now: ") {
		t.Errorf("a time that is none: got %v", err)
	}
	for _, criteria := range []string{"\xff", strings.Repeat("x", fluxionpb.MaxMessage)} {
		if _, err := fluxionpb.EncodeSearch(fluxionpb.Search{Criteria: criteria}); err == nil || !strings.HasPrefix(err.Error(), "criteria: ") {
			t.Errorf("criteria that cannot be sent: got %v", err)
		}
	}
}

// found returns a set of n cores as Find lists them. One of them is down.
func found(n int) *resource.Set {
	s := &resource.Set{}
	for i := range n {
		path := fmt.Sprintf("/cluster0/node0/core%d", i)
		s.Vertices = append(s.Vertices, resource.Share{Amount: 1, Vertex: resource.Vertex{
			UniqID: int64(i + 1), Type: "core", Basename: "core", Name: fmt.Sprintf("core%d", i), ID: int64(i), Size: 1,
			Status: resource.Status(i % 2), Path: path,
		}})
	}
	return s
}

func TestWhatIsFoundTravelsWhole(t *testing.T) {
	for n, atLeast := range map[int]int{0: 1, 2: 1, 20_000: 3} {
		t.Run(fmt.Sprintf("%d vertices", n), func(t *testing.T) {
			var r fluxionpb.FoundReader
			messages := 0
			for m, err := range fluxionpb.FoundMessages(found(n)) {
				if err != nil {
					t.Fatal(err)
				}
				messages++
				if err := r.Add(resend(t, m)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := r.Found()
			if err != nil || messages < atLeast {
				t.Errorf("%d messages, %v, want at least %d", messages, err, atLeast)
			}
			wantSame(t, found(n), got)
		})
	}
	for _, err := range fluxionpb.FoundMessages(nil) {
		if err == nil {
			t.Error("no set was written")
		}
	}
	var r fluxionpb.FoundReader
	if s, err := r.Found(); err == nil {
		t.Errorf("no message was read as %v", s)
	}
	if err := r.Add(&fluxionpb.FindResponse{R: []byte(`{"version":7}`)}); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Found(); err == nil || !strings.HasPrefix(err.Error(), "r: version") {
		t.Errorf("an R of another version was read as %v, %v", s, err)
	}
}

func TestReservationsTravelWhole(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	large := held(2, 2500)
	large.Reserved, large.Start, large.End = true, at, at.Add(time.Hour)
	want := []match.Job{{ID: 1, Start: at, Slots: held(1, 1).Slots}, large, {ID: 3, End: at}, {ID: 4, Reserved: true}}
	var r fluxionpb.JobsReader
	for jobs, err := range fluxionpb.JobMessages(want) {
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Add(resend(t, &fluxionpb.UpdateRequest{Jobs: jobs}).GetJobs()); err != nil {
			t.Fatal(err)
		}
	}
	wantSame(t, want, r.Jobs())
}

func TestAJobWhoseTimeIsWrongNamesTheField(t *testing.T) {
	bad := &timestamppb.Timestamp{Nanos: -1}
	cases := map[string]struct {
		jobs []*fluxionpb.Job
		want string
	}{
		"a start that is none":                 {[]*fluxionpb.Job{{Id: 1}, {Id: 2, At: bad}}, "jobs[1]: at: "},
		"an end that is none":                  {[]*fluxionpb.Job{{Id: 1, End: bad}}, "jobs[0]: end: "},
		"a part that says that it is reserved": {[]*fluxionpb.Job{{Id: 1}, {Id: 1, Continued: true, Reserved: true}}, "continued: job 1"},
		"a part that says a time":              {[]*fluxionpb.Job{{Id: 1}, {Id: 1, Continued: true, End: timestamppb.New(time.Unix(1, 0))}}, "continued: job 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var r fluxionpb.JobsReader
			if err := r.Add(tc.jobs); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// FuzzSubgraph checks that any stream of pieces is rejected,
// or gives the text of the size in its first message.
func FuzzSubgraph(f *testing.F) {
	for _, size := range []int{1, 3, 512<<10 + 1} {
		var b []byte
		for m, err := range fluxionpb.SubgraphMessages(letters(size)) {
			if err != nil {
				f.Fatal(err)
			}
			m.Jgf = m.GetJgf()[:min(len(m.GetJgf()), 5)]
			if b, err = proto.Marshal(m); err != nil {
				f.Fatal(err)
			}
			f.Add(b, b)
		}
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var r fluxionpb.SubgraphReader
		var joined []byte
		var size uint64
		for i, b := range [][]byte{one, two} {
			var m fluxionpb.AddSubgraphRequest
			if proto.Unmarshal(b, &m) != nil || m.GetSize() > 1<<20 || r.Add(&m) != nil {
				return
			}
			if i == 0 {
				size = m.GetSize()
			}
			joined = append(joined, m.GetJgf()...)
		}
		if text, err := r.Text(); err == nil && (!bytes.Equal(text, joined) || uint64(len(text)) != size) {
			t.Errorf("%d bytes were read as %d, and the stream says %d", len(joined), len(text), size)
		}
	})
}

// FuzzFound checks that the reader of a search's answer
// never panics, and that what it returns can be sent on.
func FuzzFound(f *testing.F) {
	for m, err := range fluxionpb.FoundMessages(found(3)) {
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m.GetR())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r fluxionpb.FoundReader
		if err := r.Add(&fluxionpb.FindResponse{R: text}); err != nil {
			t.Fatal(err)
		}
		s, err := r.Found()
		if err != nil {
			return
		}
		for _, err := range fluxionpb.FoundMessages(s) {
			if err != nil {
				t.Fatalf("a set that was read cannot be written: %v", err)
			}
		}
	})
}

// FuzzCodec checks that the codec reads what gRPC's own codec
// reads, whatever message was read into the same memory before.
func FuzzCodec(f *testing.F) {
	for _, m := range []*fluxionpb.AddSubgraphRequest{
		{}, {Epoch: 1 << 63, Size: 3, Jgf: []byte("abc")}, {Jgf: []byte("a longer text than that before")}, {Size: 1 << 40},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b...))
		f.Add(append(b, 0x7a, 1, 'x')) // with a field that is not known
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := &fluxionpb.AddSubgraphRequest{Epoch: 7, Size: 8, Jgf: []byte("what was there")}
		var want fluxionpb.AddSubgraphRequest
		err := fluxionpb.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, got)
		if wantErr := proto.Unmarshal(b, &want); (err == nil) != (wantErr == nil) {
			t.Fatalf("got %v, and gRPC's own says %v", err, wantErr)
		}
		if err == nil && !proto.Equal(got, &want) {
			t.Errorf("read %v, want %v", got, &want)
		}
	})
}
