package bindqueue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A random history never has more binds in flight than the limit, sends no pod twice,
// and leaves nothing behind at its end.
func TestRandomHistoriesLeaveNothing(t *testing.T) {
	for seed := range uint64(200) {
		draw := rand.New(rand.NewPCG(seed, 0))
		s := newQueueTest(t, 1+draw.IntN(12))
		waiting, inFlight := map[types.UID]bool{}, map[types.UID]bool{}
		group := func() string { return string(rune('a' + draw.IntN(6))) }
		for range 300 {
			s.pass(time.Duration(draw.IntN(200)) * time.Millisecond)
			switch draw.IntN(9) {
			case 0:
				name, n := group(), 1+draw.IntN(20)
				for _, uid := range podsOf(name, n) {
					delete(waiting, uid)
				}
				s.Expect(podsOf(name, n), s.now)
			case 1, 2:
				uid := types.UID(fmt.Sprintf("%s%d", group(), draw.IntN(20)))
				if !waiting[uid] && !inFlight[uid] {
					s.arrive(string(uid))
					waiting[uid] = true
				}
			case 3, 4:
				for p, ok := s.Next(s.now); ok; p, ok = s.Next(s.now) {
					if !waiting[p.UID] || inFlight[p.UID] {
						t.Fatalf("seed %d: pod %s leaves, and does not stand at the gate", seed, p.UID)
					}
					delete(waiting, p.UID)
					inFlight[p.UID] = true
				}
			case 5, 6:
				for uid := range inFlight {
					delete(inFlight, uid)
					switch draw.IntN(4) {
					case 0:
						s.Failed(uid, s.now)
					case 1:
						p := Pod{UID: uid, Group: key(string(uid[:1])), Rank: rankOf(string(uid))}
						if s.Throttled(p, time.Duration(draw.IntN(3))*time.Second, s.now) {
							waiting[uid] = true
						}
					default:
						s.Bound(uid, s.now)
					}
					break
				}
			case 7:
				uid := types.UID(fmt.Sprintf("%s%d", group(), draw.IntN(20)))
				s.Forget(s.now, uid)
				delete(waiting, uid)
			case 8:
				name := group()
				if s.admit(fmt.Sprintf("%s%d", name, 1+draw.IntN(20))) == "" && draw.IntN(2) == 0 {
					s.AdmitWaiting(s.now)
				}
				if draw.IntN(2) == 0 {
					s.EndAdmission(key(name), s.now)
				}
				s.ExpireCounts(s.now, draw.IntN(4) > 0)
			}
			if f := s.Snapshot(); f.InFlight != len(inFlight) || f.InFlight > s.limit.max || f.Limit < 1 || f.Limit > s.limit.max || f.Pods[0]+f.Pods[1] != len(waiting) {
				t.Fatalf("seed %d: figures %+v, want %d in flight of at most %d and %d standing", seed, f, len(inFlight), s.limit.max, len(waiting))
			}
		}
		for name := 'a'; name < 'g'; name++ {
			s.Forget(s.now, podsOf(string(name), 20)...)
			s.EndAdmission(key(string(name)), s.now)
		}
		for uid := range inFlight {
			s.Failed(uid, s.now)
		}
		if s.wantNothing(); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// A pod that arrives and leaves costs the same however large its group is, and little
// more with many groups in the bind queue.
func BenchmarkLeave(b *testing.B) {
	for _, bc := range []struct{ groups, pods int }{{40, 8}, {300, 1}, {1, 300}, {1, 5000}} {
		b.Run(fmt.Sprintf("groups=%d/pods=%d", bc.groups, bc.pods), func(b *testing.B) {
			g, now := New(32), noon
			var all []Pod
			for i := range bc.groups {
				uids := make([]types.UID, bc.pods)
				for j := range uids {
					uids[j] = types.UID(fmt.Sprintf("%d-%d", i, j))
				}
				g.Expect(uids, now)
				for _, uid := range uids {
					r := rankOf("a" + string(uid))
					r.Key.Name = fmt.Sprint(i)
					all = append(all, Pod{UID: uid, Group: r.Key, Rank: r})
					g.Arrive(all[len(all)-1], now)
				}
			}
			for b.Loop() {
				p, ok := g.Next(now)
				if !ok {
					b.Fatal("none leaves")
				}
				g.Bound(p.UID, now)
				g.Arrive(p, now)
			}
		})
	}
}
