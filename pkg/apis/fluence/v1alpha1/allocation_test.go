package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSeats(t *testing.T) {
	cases := map[string]struct{ nodes, want string }{
		"no slot":                         {"", "[]"},
		"one each":                        {"n1 n2 n3", "[{n[1-3] 1}]"},
		"as many on each":                 {"n1 n1 n2 n2", "[{n[1-2] 2}]"},
		"less on the last":                {"n1 n1 n2 n2 n3", "[{n[1-2] 2} {n3 1}]"},
		"numbers that change":             {"n1 n2 n2 n3", "[{n1 1} {n2 2} {n3 1}]"},
		"a node again":                    {"n1 n2 n1", "[{n[1-2,1] 1}]"},
		"nodes in an order of their own":  {"n3 n1 n2", "[{n[3,1-2] 1}]"},
		"names with zeros, and with dots": {"n-08 n-09 n-10 a.b.c", "[{n-[08-10],a.b.c 1}]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			nodes := strings.Fields(tc.nodes)
			seats := SeatsOf(nodes)
			if got := fmt.Sprint(seats); got != tc.want {
				t.Errorf("SeatsOf(%v) = %s, want %s", nodes, got, tc.want)
			}
			if back, err := (&JobAllocation{Seats: seats}).Nodes(); err != nil || !slices.Equal(back, nodes) {
				t.Errorf("Nodes() of these = %v, %v, want %v", back, err, nodes)
			}
		})
	}
}

func TestBadSeats(t *testing.T) {
	cases := map[string]struct {
		seats []Seats
		want  string
	}{
		"no hostlist":     {[]Seats{{"a", 1}, {"b[", 1}}, `allocation.seats[1].hosts: "b["`},
		"no slot":         {[]Seats{{"a", 0}}, "allocation.seats[0].each: 0: must be at least 1"},
		"too many hosts":  {[]Seats{{"a[0-99999]", 1}, {"b", 1}}, `allocation.seats[1]: 1 on each of "b": an allocation has at most 100000 slots`},
		"too many a host": {[]Seats{{"a", 100_001}}, `allocation.seats[0]: 100001 on each of "a": an allocation has at most 100000 slots`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if nodes, err := (&JobAllocation{Seats: tc.seats}).Nodes(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Nodes() = %d nodes, %v, want an error with %s", len(nodes), err, tc.want)
			}
		})
	}
}

// Each allocation of a job is a job of the matcher of its own.
func TestMatchJobID(t *testing.T) {
	if a, b, c := MatchJobID("u1", 1), MatchJobID("u1", 2), MatchJobID("u2", 1); a == b || a == c || a != MatchJobID("u1", 1) {
		t.Errorf("%d, %d and %d: want three", a, b, c)
	}
}

// No two slots of the matcher have one key.
func TestSlotKeys(t *testing.T) {
	a, b := SlotKeys(MatchJobID("u1", 1), 2), SlotKeys(MatchJobID("u1", 2), 2)
	if len(a) != 2 || a[0] == a[1] || a[0] == b[0] || a[1] == b[1] || a[0] != SlotKeys(MatchJobID("u1", 1), 1)[0] {
		t.Errorf("%q and %q: want four keys", a, b)
	}
}

// Ten thousand nodes in the order of their numbers take little room.
func TestSeatsAreSmall(t *testing.T) {
	var nodes []string
	for i := range 10_000 {
		nodes = append(nodes, fmt.Sprintf("node-%05d", i))
	}
	if seats := SeatsOf(nodes); len(seats) != 1 || len(seats[0].Hosts) > 32 {
		t.Errorf("%d seats, of %d characters", len(seats), len(seats[0].Hosts))
	}
}

// What can be read is what was written, for any nodes.
func FuzzSeats(f *testing.F) {
	f.Add("n1 n1 n2 x", uint8(3))
	f.Add("a0 a00 a1", uint8(1))
	f.Fuzz(func(t *testing.T, text string, each uint8) {
		var nodes []string
		for i, name := range strings.Fields(text) {
			if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
				t.Skip("no name of a node")
			}
			for range 1 + int(each)*i%5 {
				nodes = append(nodes, name)
			}
		}
		if back, err := (&JobAllocation{Seats: SeatsOf(nodes)}).Nodes(); err != nil || !slices.Equal(back, nodes) {
			t.Errorf("Nodes(SeatsOf(%v)) = %v, %v", nodes, back, err)
		}
	})
}
