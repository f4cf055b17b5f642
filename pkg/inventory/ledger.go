package inventory

// A ledger has, for each key, the desired value (from the cluster) and the value that the engine
// may have. It has a queue of the keys for which the two may differ, oldest first. A key is in
// the queue once, however often it changes, and its newest value is sent. The zero ledger is empty.
type ledger[K comparable, V any] struct {
	// merge, if set, merges two values that the engine may have. It is called when a desired value is
	// replaced before it was sent, because a match may have booked that value already. It is also
	// called by correct, with the value that the engine has.
	merge func(mayHave, other V) V

	entries map[K]*entry[V]
	queue   []K
}

type entry[V any] struct {
	desired V
	// gone is true if the key has no desired value any more. Then desired is the zero value.
	gone bool
	// mayHave is the value that the engine may have: the last one that was sent,
	// perhaps merged with others. The zero value stands for no value.
	mayHave V
	queued  bool
}

// A delta is the change of one key, from the value that the engine may have to the desired value.
// The zero value of V stands for no value.
type delta[K comparable, V any] struct {
	key    K
	before V
	after  V
	gone   bool
}

// set sets the desired value of a key, and reports whether it has changed.
func (l *ledger[K, V]) set(key K, v V, same func(a, b V) bool) bool {
	e := l.entries[key]
	if e == nil {
		if l.entries == nil {
			l.entries = map[K]*entry[V]{}
		}
		e = &entry[V]{}
		l.entries[key] = e
	} else if !e.gone && same(e.desired, v) {
		return false
	}
	l.enqueue(key, e)
	e.desired, e.gone = v, false
	return true
}

// addSent adds a key with a value that the engine has already, so that nothing
// is sent. It does nothing and returns false if the key is known.
func (l *ledger[K, V]) addSent(key K, v V) bool {
	if l.entries[key] != nil {
		return false
	}
	if l.entries == nil {
		l.entries = map[K]*entry[V]{}
	}
	l.entries[key] = &entry[V]{desired: v, mayHave: v}
	return true
}

// mayHave records that the engine may also have another value under a key that is queued.
func (l *ledger[K, V]) mayHave(key K, other V) {
	e := l.entries[key]
	e.mayHave = l.merge(e.mayHave, other)
}

// desired returns the desired value of a key. The zero value stands for no value.
func (l *ledger[K, V]) desired(key K) (v V) {
	if e := l.entries[key]; e != nil {
		v = e.desired
	}
	return v
}

// size returns the number of keys with a desired value.
func (l *ledger[K, V]) size() int {
	n := 0
	for _, e := range l.entries {
		if !e.gone {
			n++
		}
	}
	return n
}

// drop removes the desired value of a key, and reports whether there was one.
func (l *ledger[K, V]) drop(key K) bool {
	e := l.entries[key]
	if e == nil || e.gone {
		return false
	}
	l.enqueue(key, e)
	var zero V
	e.desired, e.gone = zero, true
	return true
}

// enqueue queues a key whose entry is about to change.
func (l *ledger[K, V]) enqueue(key K, e *entry[V]) {
	switch {
	case !e.queued:
		e.queued = true
		l.queue = append(l.queue, key)
	case l.merge != nil:
		e.mayHave = l.merge(e.mayHave, e.desired)
	}
}

// correct records the value that the engine really has under a key, whatever was sent to it. It
// queues the key, so that the desired value is sent.
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
	if l.merge != nil {
		has = l.merge(has, e.mayHave)
	}
	e.mayHave = has
}

// take removes up to n keys from the queue. From then on they count as sent.
func (l *ledger[K, V]) take(n int) []delta[K, V] {
	n = min(n, len(l.queue))
	if n == 0 {
		return nil
	}
	deltas := make([]delta[K, V], n)
	for i, key := range l.queue[:n] {
		e := l.entries[key]
		deltas[i] = delta[K, V]{key: key, before: e.mayHave, after: e.desired, gone: e.gone}
		e.mayHave, e.queued = e.desired, false
		if e.gone {
			delete(l.entries, key)
		}
	}
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil // frees the array
	}
	return deltas
}

// restart records that the engine was emptied. It queues all keys with a desired value, and returns
// their number.
func (l *ledger[K, V]) restart() int {
	var zero V
	l.queue = make([]K, 0, len(l.entries))
	for key, e := range l.entries {
		if e.gone {
			delete(l.entries, key)
			continue
		}
		e.mayHave, e.queued = zero, true
		l.queue = append(l.queue, key)
	}
	return len(l.queue)
}
