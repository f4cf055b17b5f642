package inventory

// A ledger keeps by key what the cluster calls for and what the engine was last sent. It
// has a queue of the keys for which the two may differ, oldest first. A key is in the queue
// once, however often it changes, and its newest value is sent. The zero ledger is empty.
type ledger[K comparable, V any] struct {
	// skipped, if set, returns what the engine may have after a value was replaced
	// before it was sent: the sum of what was sent and of what was skipped.
	skipped func(sent, want V) V

	entries map[K]*entry[V]
	queue   []K
}

type entry[V any] struct {
	want V
	// gone is true if nothing is called for any more. want is the zero value then.
	gone bool
	// sent is what the engine may have. The zero value is nothing.
	sent   V
	queued bool
}

// A step is the change of one key from what the engine may
// have to what it is to have. The zero value is nothing.
type step[K comparable, V any] struct {
	key    K
	before V
	after  V
	gone   bool
}

// want sets what is called for, and reports whether that has changed.
func (l *ledger[K, V]) want(key K, v V, same func(a, b V) bool) bool {
	e := l.entries[key]
	if e == nil {
		if l.entries == nil {
			l.entries = map[K]*entry[V]{}
		}
		e = &entry[V]{}
		l.entries[key] = e
	} else if !e.gone && same(e.want, v) {
		return false
	}
	l.enqueue(key, e)
	e.want, e.gone = v, false
	return true
}

// wanted returns what is called for. The zero value is nothing.
func (l *ledger[K, V]) wanted(key K) (v V) {
	if e := l.entries[key]; e != nil {
		v = e.want
	}
	return v
}

// size returns the number of keys for which something is called for.
func (l *ledger[K, V]) size() int {
	n := 0
	for _, e := range l.entries {
		if !e.gone {
			n++
		}
	}
	return n
}

// drop calls for nothing, and reports whether that has changed.
func (l *ledger[K, V]) drop(key K) bool {
	e := l.entries[key]
	if e == nil || e.gone {
		return false
	}
	l.enqueue(key, e)
	var zero V
	e.want, e.gone = zero, true
	return true
}

// enqueue queues a key whose entry is about to change.
func (l *ledger[K, V]) enqueue(key K, e *entry[V]) {
	switch {
	case !e.queued:
		e.queued = true
		l.queue = append(l.queue, key)
	case l.skipped != nil:
		e.sent = l.skipped(e.sent, e.want)
	}
}

// correct records what the engine was found to have under a key, whatever
// it was sent. It queues the key, so that the wanted value is sent.
func (l *ledger[K, V]) correct(key K, has V) {
	e := l.entries[key]
	if e == nil {
		if l.entries == nil {
			l.entries = map[K]*entry[V]{}
		}
		e = &entry[V]{gone: true}
		l.entries[key] = e
	}
	if !e.queued {
		e.queued = true
		l.queue = append(l.queue, key)
	}
	if l.skipped != nil {
		has = l.skipped(has, e.sent)
	}
	e.sent = has
}

// take removes up to n keys from the queue. From then on they count as sent.
func (l *ledger[K, V]) take(n int) []step[K, V] {
	n = min(n, len(l.queue))
	if n == 0 {
		return nil
	}
	steps := make([]step[K, V], n)
	for i, key := range l.queue[:n] {
		e := l.entries[key]
		steps[i] = step[K, V]{key: key, before: e.sent, after: e.want, gone: e.gone}
		e.sent, e.queued = e.want, false
		if e.gone {
			delete(l.entries, key)
		}
	}
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil // frees the array
	}
	return steps
}

// restart records that the engine was emptied. It queues all keys
// for which something is called for, and returns their number.
func (l *ledger[K, V]) restart() int {
	var zero V
	l.queue = make([]K, 0, len(l.entries))
	for key, e := range l.entries {
		if e.gone {
			delete(l.entries, key)
			continue
		}
		e.sent, e.queued = zero, true
		l.queue = append(l.queue, key)
	}
	return len(l.queue)
}
