package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// A roomTrial changes a store at random, and compares what Room passes over with the columns.
type roomTrial struct {
	*rand.Rand
	st     *Store
	passed int
}

// TestRoomPassesOverNodesWithoutRoomOnly makes random changes to stores of several blocks. After
// each change it asks for the room of random slots, in the order of every policy.
func TestRoomPassesOverNodesWithoutRoomOnly(t *testing.T) {
	passed := 0
	for seed := range trials.Seeds(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := &roomTrial{Rand: rand.New(rand.NewPCG(seed, 0)), st: New()}
			for range 3 * blockNodes {
				c.put(t)
			}
			if c.IntN(2) == 0 {
				c.st.NumberNodes()
			}
			for range 60 {
				c.change(t)
				c.compare(t)
			}
			passed += c.passed
		})
	}
	if passed == 0 {
		t.Error("no node was passed over")
	}
}

func (c *roomTrial) name() string { return fmt.Sprintf("n%03d", c.IntN(4*blockNodes)) }

// put adds a node or changes it. The names do not follow the racks.
func (c *roomTrial) put(t *testing.T) {
	t.Helper()
	pools := []matchtest.Pool{matchtest.Cores(c.Int64N(5)), matchtest.Memory(c.Int64N(5))}
	if c.IntN(4) == 0 {
		pools = append(pools, matchtest.Pool{Type: "disk", Amount: c.Int64N(3), Unit: []string{"G", "T"}[c.IntN(2)]})
	}
	g := matchtest.Node(c.name(), [][2]string{{"rack", fmt.Sprint(c.IntN(8))}}, pools...)
	if c.IntN(8) == 0 {
		matchtest.WithStatus(g, resource.Down)
	}
	if err := c.st.PutNodes(g); err != nil {
		t.Fatal(err)
	}
}

// slot returns a slot on a random node. Most slots fill their node.
func (c *roomTrial) slot() match.Slot {
	s := matchtest.Held(fmt.Sprint(c.IntN(3)), c.name(), matchtest.Cores(2+c.Int64N(4)), matchtest.Memory(c.Int64N(5)))
	switch c.IntN(6) {
	case 0:
		s.Holder = fmt.Sprint("h", c.IntN(2))
	case 1:
		s.Shared = true
	}
	return s
}

// change makes some random changes.
func (c *roomTrial) change(t *testing.T) {
	t.Helper()
	var err error
	switch c.IntN(8) {
	case 0:
		c.put(t)
	case 1:
		c.st.RemoveNode(c.name())
	case 2:
		if name := c.name(); c.st.hosts.byName[name] != nil && c.st.hosts.byName[name].node != nil {
			err = c.st.SetStatus(name, []resource.Status{resource.Up, resource.Down}[c.IntN(2)])
		}
	case 3:
		for range 10 {
			c.st.Release(match.JobID(1 + c.IntN(60)))
		}
	case 4:
		at := matchtest.Now.Add(time.Duration(c.IntN(5)) * time.Second)
		err = c.st.Update(match.Job{ID: match.JobID(100 + c.IntN(5)), Reserved: true, Start: at, End: at.Add(time.Second), Slots: []match.Slot{c.slot()}})
	default:
		for range 10 {
			if err = c.st.Update(match.Job{ID: match.JobID(1 + c.IntN(60)), Slots: []match.Slot{c.slot()}}); err != nil {
				break
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// compare asks for room in random views, some of them with the reservations of a window.
func (c *roomTrial) compare(t *testing.T) {
	t.Helper()
	if c.IntN(4) == 0 {
		r := match.Request{Now: matchtest.Now, Duration: time.Duration(c.IntN(6)) * time.Second}
		defer c.st.ViewNow(&r).Restore()
	}
	needs := []solver.Need{{Type: matchtest.Cores(1).Type}, {Type: matchtest.Memory(1).Type}, {Type: "disk"}}
	for k := range needs {
		c.st.Graph().Columns(needs[k].Type, func(col *solver.Column, _ string) { needs[k].Columns = append(needs[k].Columns, col) })
	}
	for _, policy := range match.Policies() {
		order, _ := c.st.Order(policy, nil)
		who := solver.Requester{Holder: []string{"", "h0", "other"}[c.IntN(3)], Exclusive: match.IsExclusive(policy)}
		room := c.st.Graph().Room(policy, needs, who)
		for _, v := range []solver.View{solver.ViewNow, solver.ViewUp, solver.ViewEver} {
			s := &solver.Shape{AmountPerSlot: []int64{matchtest.Cores(1 + c.Int64N(4)).Amount, matchtest.Memory(1 + c.Int64N(4)).Amount, 1}, NeedsInOrder: []int{0, 1, 2}[:1+c.IntN(3)]}
			for i := 0; i < len(order); {
				end := min(len(order), i+1+c.IntN(2*blockNodes))
				next, _ := room.Next(v, s, i, end)
				if next < i || next > end {
					t.Fatalf("Next(%+v, %d, %d) = %d", v, i, end, next)
				}
				for _, at := range order[i:next] {
					c.passed++
					if c.hasRoom(needs, s, v, who, at) {
						t.Fatalf("%s: Next(%+v, %d, %d) = %d passes over node %d, which has room for %v", policy, v, i, end, next, at, s.AmountPerSlot)
					}
				}
				i = max(next, i+1)
			}
		}
	}
}

// hasRoom reports whether a node has room for one slot in a view, as the solver decides it.
func (c *roomTrial) hasRoom(needs []solver.Need, s *solver.Shape, v solver.View, who solver.Requester, at int32) bool {
	if v.Up && !c.st.Graph().Up()[at] {
		return false
	}
	if by := c.st.Graph().ExclusivityFor(who); !v.Empty && by != nil && by[at].Conflict(who) != solver.NoConflict {
		return false
	}
	for _, k := range s.NeedsInOrder {
		have := int64(0)
		for _, col := range needs[k].Columns {
			if v.Empty {
				have += col.Capacity[at]
			} else {
				have += col.Free[at]
			}
		}
		if have < s.AmountPerSlot[k] {
			return false
		}
	}
	return true
}

// TestRoomPassesOverABlockOnlyAsLongAsItIsFull checks that Next returns the only node with room,
// among several blocks, and that it returns another node after the change.
func TestRoomPassesOverABlockOnlyAsLongAsItIsFull(t *testing.T) {
	const nodes, free = 5 * blockNodes, 3*blockNodes + 7
	st := New()
	for i := range nodes {
		name := fmt.Sprintf("n%03d", i)
		if err := st.PutNodes(matchtest.Node(name, nil, matchtest.Cores(8), matchtest.Memory(8))); err != nil {
			t.Fatal(err)
		}
		// Half of the nodes lack cores, and the others lack memory.
		hold := []matchtest.Pool{matchtest.Cores(8), matchtest.Memory(8)}[i%2]
		if i == free {
			continue
		}
		if err := st.Update(match.Job{ID: match.JobID(i + 1), Slots: []match.Slot{matchtest.Held("0", name, hold)}}); err != nil {
			t.Fatal(err)
		}
	}
	st.NumberNodes()
	needs := []solver.Need{{Type: matchtest.Cores(1).Type}, {Type: matchtest.Memory(1).Type}}
	for k := range needs {
		st.Graph().Columns(needs[k].Type, func(col *solver.Column, _ string) { needs[k].Columns = append(needs[k].Columns, col) })
	}
	s := &solver.Shape{AmountPerSlot: []int64{1, 1}, NeedsInOrder: []int{0, 1}}
	next := func(policy string) int {
		at, _ := st.Graph().Room(policy, needs, solver.Requester{}).Next(solver.ViewNow, s, 0, nodes)
		return at
	}
	for range 2 {
		if at := next(match.PolicyLonode); at != free {
			t.Errorf("Next() = %d in ascending order, want %d", at, free)
		}
		if at := next(match.PolicyHinode); at != nodes-1-free {
			t.Errorf("Next() = %d in descending order, want %d", at, nodes-1-free)
		}
	}
	st.Release(11)
	if at := next(match.PolicyFirst); at != 10 {
		t.Errorf("Next() = %d after node 10 was released", at)
	}
	if err := st.SetStatus("n010", resource.Down); err != nil {
		t.Fatal(err)
	}
	if at := next(match.PolicyLonode); at != free {
		t.Errorf("Next() = %d after node 10 went down, want %d", at, free)
	}
}
