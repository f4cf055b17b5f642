package fluxionpb_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

func spec() *jobspec.Jobspec { return matchtest.Slots("w", 2, matchtest.Cores(1), matchtest.Memory(1)) }

func TestRequestsTravelWhole(t *testing.T) {
	cases := map[string]match.Request{
		"the least that a request has": {Jobspec: spec()},
		"every field": {
			Epoch: math.MaxUint64, Op: match.WithoutAllocating, ID: math.MaxUint64, Jobspec: spec(),
			Keys: []string{"a", "b"}, Now: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC), Duration: time.Hour + 1,
			Policy: match.PolicyLonode, Holder: "ns/grün", Near: []string{"n1"}, Ignore: []match.JobID{1, 2},
			Expected: held(7, 3).Slots,
			Ending:   []match.SlotRef{{Job: 3, Keys: []string{"x"}}, {Job: 4}},
			Displace: []match.Unit{{Slots: []match.SlotRef{{Job: 5, Keys: []string{"y", "z"}}, {Job: 6}}, Class: 7, Protected: 8, Cost: -9}, {}},
			Replaces: math.MaxUint64, ReplacesKeys: []string{"u", "ü"},
			Terse: true,
		},
		"a reservation":        {Op: match.AllocateOrElseReserve, Jobspec: spec()},
		"a question":           {Op: match.Satisfiability, Jobspec: spec()},
		"a question of later":  {Op: match.WithoutAllocatingFuture, Jobspec: spec(), Ignore: []match.JobID{1}},
		"a time before 1970":   {Jobspec: spec(), Now: time.Date(1900, 1, 1, 0, 0, 0, 1, time.UTC)},
		"a duration below 0":   {Jobspec: spec(), Duration: math.MinInt64},
		"the longest duration": {Jobspec: spec(), Duration: math.MaxInt64},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := fluxionpb.EncodeRequest(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := fluxionpb.DecodeRequest(resend(t, m))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("request (-sent +read):\n%s", diff)
			}
		})
	}
}

func TestARequestThatCannotBeWrittenNamesTheField(t *testing.T) {
	cases := map[string]struct {
		request match.Request
		want    string
	}{
		"no jobspec":                 {match.Request{}, "jobspec: missing"},
		"a jobspec without slots":    {match.Request{Jobspec: &jobspec.Jobspec{Version: 1}}, "jobspec: "},
		"an operation not known":     {match.Request{Op: 9, Jobspec: spec()}, "op: 9"},
		"a key that is not UTF-8":    {match.Request{Jobspec: spec(), Keys: []string{"\xff"}}, `keys: "\xff"`},
		"a node that is not UTF-8":   {match.Request{Jobspec: spec(), Near: []string{"\xff"}}, `near: "\xff"`},
		"a holder that is not UTF-8": {match.Request{Jobspec: spec(), Holder: "\xff"}, `holder: "\xff"`},
		"an expected slot without R": {match.Request{Jobspec: spec(), Expected: []match.Slot{held(1, 1).Slots[0], {}}}, "expected[1]: r: missing"},
		"too many units":             {match.Request{Jobspec: spec(), Displace: make([]match.Unit, match.MaxUnits+1)}, "displace: 65537 units, at most 65536"},
		"a slot of a unit that is not UTF-8": {
			match.Request{Jobspec: spec(), Displace: []match.Unit{{}, {Slots: []match.SlotRef{{Keys: []string{"\xff"}}}}}}, `displace[1].slots.keys: "\xff"`,
		},
		"a key to replace that is not UTF-8": {
			match.Request{Jobspec: spec(), Replaces: 1, ReplacesKeys: []string{"\xff"}}, `replaces_keys: "\xff"`,
		},
		"a policy that is not UTF-8": {match.Request{Jobspec: spec(), Policy: "\xff"}, `policy: "\xff"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := fluxionpb.EncodeRequest(tc.request)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestARequestThatCannotBeReadNamesFieldAndValue(t *testing.T) {
	cases := map[string]struct {
		change func(*fluxionpb.MatchRequest)
		want   string
	}{
		"no operation":           {func(m *fluxionpb.MatchRequest) { m.Op = 0 }, "op: 0"},
		"an operation not known": {func(m *fluxionpb.MatchRequest) { m.Op = 77 }, "op: 77"},
		"no jobspec":             {func(m *fluxionpb.MatchRequest) { m.Jobspec = nil }, "jobspec: missing"},
		"a jobspec that is none": {func(m *fluxionpb.MatchRequest) { m.Jobspec = []byte(`{"version": "x"}`) }, "jobspec: "},
		"a time that is none":    {func(m *fluxionpb.MatchRequest) { m.Now = &timestamppb.Timestamp{Nanos: -1} }, "now: "},
		"a time after the year 9999": {
			func(m *fluxionpb.MatchRequest) { m.Now = timestamppb.New(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) }, "now: ",
		},
		"an expected slot without R": {
			func(m *fluxionpb.MatchRequest) { m.Expected = []*fluxionpb.Slot{{Key: "x"}} }, "expected[0]: r: missing",
		},
		"too many units": {
			func(m *fluxionpb.MatchRequest) {
				m.Displace = make([]*fluxionpb.Unit, match.MaxUnits+1)
			}, "displace: 65537 units, at most 65536",
		},
		"a duration that is none": {
			func(m *fluxionpb.MatchRequest) { m.Duration = &durationpb.Duration{Seconds: 1, Nanos: -1} }, "duration: ",
		},
		"a duration of a thousand years": {
			func(m *fluxionpb.MatchRequest) { m.Duration = &durationpb.Duration{Seconds: 31_556_952_000} }, "duration: 31556952000",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := fluxionpb.EncodeRequest(match.Request{Jobspec: spec()})
			if err != nil {
				t.Fatal(err)
			}
			tc.change(m)
			_, err = fluxionpb.DecodeRequest(m)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestStatusesTravelWhole(t *testing.T) {
	for _, want := range []resource.Status{resource.Up, resource.Down} {
		m, err := fluxionpb.EncodeStatus(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fluxionpb.DecodeStatus(m); got != want || err != nil {
			t.Errorf("%d became %d, %v", want, got, err)
		}
	}
	if m, err := fluxionpb.EncodeStatus(7); err == nil {
		t.Errorf("status 7 was written as %v", m)
	}
	if s, err := fluxionpb.DecodeStatus(0); err == nil {
		t.Errorf("no status was read as %v", s)
	}
}

// FuzzDecodeMatch checks that the reader of requests never panics, and that the
// jobspec of a request that it returns can be encoded and read again unchanged.
func FuzzDecodeMatch(f *testing.F) {
	for _, r := range []match.Request{
		{Jobspec: spec()},
		{Jobspec: spec(), Op: match.Satisfiability, ID: 7, Keys: []string{"a", "b"}, Now: time.Unix(1, 2), Duration: time.Hour},
		{Jobspec: spec(), ID: 7, Replaces: 6, ReplacesKeys: []string{"c"}},
	} {
		m, err := fluxionpb.EncodeRequest(r)
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x22, 0x02, '{', '}'})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m fluxionpb.MatchRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		r, err := fluxionpb.DecodeRequest(&m)
		if err != nil {
			return
		}
		if err := r.Jobspec.Validate(); err != nil {
			t.Fatalf("a request with an invalid jobspec was read: %v", err)
		}
		again, err := fluxionpb.EncodeRequest(r)
		if err != nil {
			t.Fatalf("a request that was read cannot be written: %v", err)
		}
		back, err := fluxionpb.DecodeRequest(again)
		if err != nil {
			t.Fatalf("a request that was written cannot be read: %v", err)
		}
		if diff := cmp.Diff(r, back); diff != "" {
			t.Errorf("request (-once +twice):\n%s", diff)
		}
	})
}

// FuzzDecodeJobs checks that the readers of streams
// never panic, and that what they return can be sent on.
func FuzzDecodeJobs(f *testing.F) {
	reserved := match.Job{ID: 3, Reserved: true, Start: time.Unix(1, 2), End: time.Unix(3, 0), Slots: held(3, 1).Slots}
	for jobs, err := range fluxionpb.JobMessages([]match.Job{held(1, 2), held(2, 1), reserved}) {
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(&fluxionpb.UpdateRequest{Epoch: 1, Jobs: jobs})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m fluxionpb.UpdateRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		var r fluxionpb.JobsReader
		if r.Add(m.GetJobs()) != nil {
			return
		}
		for _, err := range fluxionpb.JobMessages(r.Jobs()) {
			if err != nil {
				t.Fatalf("jobs that were read cannot be written: %v", err)
			}
		}
	})
}
