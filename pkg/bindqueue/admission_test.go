package bindqueue

import (
	"testing"
	"time"
)

// While no rate is known, twice as many pods as binds in flight may be ahead.
func TestAdmission(t *testing.T) {
	const second = time.Second
	cases := map[string]func(s *queueTest){
		"as many ask as may stand at the gate": func(s *queueTest) {
			s.want("may ask", s.admit("a8", "b8", "c8"), "a b c")
			s.want("may ask, with 24 ahead", s.admit("d8"), "")
		},
		"who may ask may do so until it has": func(s *queueTest) {
			s.want("may ask", s.admit("a8", "b8", "b8"), "a b b")
			s.EndAdmission(key("a"), s.now)
			s.EndAdmission(key("b"), s.now)
			s.wantNothing()
		},
		"the first in order asks first": func(s *queueTest) {
			s.full()
			s.want("may ask", s.admit("c8", "b8", "d8", "a8"), "")
			s.want("turn", s.admitWaiting(), "")
			s.Forget(s.now, append(append(podsOf("x", 8), podsOf("y", 8)...), podsOf("z", 8)...)...)
			s.want("turn", s.admitWaiting(), "a b c")
		},
		"no group is asked for while more stand than may": func(s *queueTest) {
			s.full()
			s.want("may ask", s.admit("c1", "a1", "b1"), "")
			s.want("turn", s.admitWaiting(), "")
			s.bound(uidsOf(s.leave(8))...)
			s.want("turn", s.admitWaiting(), "a")
			s.EndAdmission(key("a"), s.now)
			s.want("turn", s.admitWaiting(), "b")
		},
		"who comes is behind those before it, though there is room": func(s *queueTest) {
			s.full()
			s.admit("b1")
			s.Forget(s.now, append(podsOf("x", 8), podsOf("y", 8)...)...)
			s.want("may ask", s.admit("c1"), "")
			s.want("turn", s.admitWaiting(), "b c")
		},
		"a group larger than what may stand waits until its lane is empty": func(s *queueTest) {
			s.matched("x", 10)
			s.want("may ask", s.admit("b20", "c10"), "")
			s.bound(uidsOf(s.leave(8))...)
			s.want("turn, with two pods ahead", s.admitWaiting(), "")
			s.want("turn in the other lane", s.admit("d8"), "d")
			s.leave(8)
			s.want("turn, with two binds in flight", s.admitWaiting(), "b")
		},
		"and nothing behind it in its lane asks meanwhile": func(s *queueTest) {
			s.matched("x", 9)
			s.want("may ask", s.admit("a20", "b9", "c8"), "c")
			s.leave(8)
			s.want("turn", s.admitWaiting(), "")
		},
		"what leaves in a second may stand there": func(s *queueTest) {
			s.matched("x", 100)
			for range 50 {
				s.bound(uidsOf(s.leave(1))...)
				s.pass(second / 40)
			}
			s.want("may ask, with fifty ahead and forty a second", s.admit("a9"), "")
			for range 15 {
				s.bound(uidsOf(s.leave(1))...)
				s.pass(second / 40)
			}
			s.want("turn", s.admitWaiting(), "a")
			s.EndAdmission(key("a"), s.now)
			s.want("may ask, larger than that", s.admit("b41"), "")
		},
		"a rate is forgotten when nothing is left": func(s *queueTest) {
			s.matched("x", 40)
			for range 40 {
				s.bound(uidsOf(s.leave(1))...)
				s.pass(second / 40)
			}
			s.pass(second)
			s.matched("y", 17)
			s.pass(second / 2)
			s.want("may ask", s.admit("a9"), "")
		},
		"pods that sit elsewhere are waited for for a while only": func(s *queueTest) {
			for _, name := range []string{"x", "y", "z"} {
				s.Expect(podsOf(name, 8), s.now)
			}
			s.Permitted(podsOf("x", 8), s.now)
			s.want("may ask", s.admit("a1"), "")
			s.pass(second)
			s.ExpireCounts(s.now, true)
			s.want("turn", s.admitWaiting(), "a")
			s.Forget(s.now, append(podsOf("x", 8), podsOf("y", 8)...)...)
		},
		"also those that never get on": func(s *queueTest) {
			s.Expect(podsOf("x", 30), s.now)
			s.want("may ask", s.admit("a20"), "")
			s.pass(5 * second)
			s.ExpireCounts(s.now, true)
			s.want("turn", s.admitWaiting(), "a")
		},
		"also for a group that may ask and does not": func(s *queueTest) {
			s.want("may ask", s.admit("a30", "b20"), "a")
			s.pass(time.Hour)
			s.ExpireCounts(s.now, false)
			s.want("turn while nobody asks", s.admitWaiting(), "")
			s.ExpireCounts(s.now, true)
			s.want("turn", s.admitWaiting(), "b")
			s.want("may ask still", s.admit("a25"), "a")
			s.EndAdmission(key("a"), s.now)
			s.EndAdmission(key("b"), s.now)
			s.wantNothing()
		},
		"a group that changes its size changes its lane": func(s *queueTest) {
			s.matched("x", 17)
			s.want("may ask", s.admit("a20"), "")
			s.want("may ask", s.admit("a4"), "a")
			s.EndAdmission(key("a"), s.now)
			if s.IsWaiting(key("a")) {
				s.Error("it waits in the lane that it has left")
			}
		},
		"who waits is known, and who was let in and did not ask": func(s *queueTest) {
			s.matched("x", 17)
			s.admit("a20", "b3")
			if !s.IsWaiting(key("a")) || s.IsWaiting(key("b")) || s.IsWaiting(key("c")) {
				s.Error("want that a waits, and b and c do not")
			}
			s.pass(3 * second)
			if got := s.StaleAdmissions(s.now, 2*second); len(got) != 1 || got[0] != key("b") {
				s.Errorf("idle groups: %v, want b", got)
			}
		},
	}
	for name, play := range cases {
		t.Run(name, func(t *testing.T) { play(newQueueTest(t, 8)) })
	}
}

// full puts more pods into the small lane than may wait there.
func (s *queueTest) full() {
	s.Helper()
	for _, name := range []string{"x", "y", "z"} {
		s.matched(name, 8)
	}
}
