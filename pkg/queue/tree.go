package queue

import "math"

// Kinds of tree.
const (
	// byQueue is the tree of all jobs of a queue. It knows the earliest creation.
	byQueue = iota
	// byLane is the tree of the jobs of a lane. It knows the least duration.
	byLane
)

// A tree has jobs in their order. It is a treap: a node has a lesser weight than the one above it. Its nodes are the jobs themselves.
type tree struct {
	kind int
	root *job
	size int
}

// links are the place of a job in a tree.
type links struct {
	left, right *job
	weight      uint32
	// least is the least value of this job and those below it.
	least int64
}

// value is what the tree knows the least of.
func (t *tree) value(j *job) int64 {
	if t.kind == byQueue {
		return j.Created.UnixMicro()
	}
	return j.length()
}

func (t *tree) least(j *job) int64 {
	if j == nil {
		return math.MaxInt64
	}
	return j.at[t.kind].least
}

// update brings up to date what a node knows of those below it.
func (t *tree) update(j *job) {
	n := &j.at[t.kind]
	n.least = min(t.value(j), t.least(n.left), t.least(n.right))
}

// insert adds a job. The weights of jobs are random.
func (t *tree) insert(j *job, weight uint32) {
	j.at[t.kind] = links{weight: weight}
	t.root = t.insertBelow(t.root, j)
	t.size++
}

func (t *tree) insertBelow(top, j *job) *job {
	if top == nil {
		t.update(j)
		return j
	}
	n := &top.at[t.kind]
	if own := &j.at[t.kind]; own.weight > n.weight {
		own.left, own.right = t.split(top, j)
		t.update(j)
		return j
	}
	if j.before(top) {
		n.left = t.insertBelow(n.left, j)
	} else {
		n.right = t.insertBelow(n.right, j)
	}
	t.update(top)
	return top
}

// split divides a tree into those before j and those after it.
func (t *tree) split(top, j *job) (before, after *job) {
	if top == nil {
		return nil, nil
	}
	n := &top.at[t.kind]
	if j.before(top) {
		before, n.left = t.split(n.left, j)
		after = top
	} else {
		n.right, after = t.split(n.right, j)
		before = top
	}
	t.update(top)
	return before, after
}

// remove takes out a job that is in the tree.
func (t *tree) remove(j *job) {
	t.root = t.removeBelow(t.root, j)
	j.at[t.kind] = links{}
	t.size--
}

func (t *tree) removeBelow(top, j *job) *job {
	n := &top.at[t.kind]
	switch {
	case top == j:
		return t.join(n.left, n.right)
	case j.before(top):
		n.left = t.removeBelow(n.left, j)
	default:
		n.right = t.removeBelow(n.right, j)
	}
	t.update(top)
	return top
}

// join makes one tree of two of which all jobs of the first are before those of the second.
func (t *tree) join(a, b *job) *job {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	x, y := &a.at[t.kind], &b.at[t.kind]
	if x.weight > y.weight {
		x.right = t.join(x.right, b)
		t.update(a)
		return a
	}
	y.left = t.join(a, y.left)
	t.update(b)
	return b
}

// firstBelow returns the first job whose value is less than a limit, or nil.
func (t *tree) firstBelow(limit int64) *job {
	j := t.root
	for j != nil && t.least(j) < limit {
		n := &j.at[t.kind]
		switch {
		case t.least(n.left) < limit:
			j = n.left
		case t.value(j) < limit:
			return j
		default:
			j = n.right
		}
	}
	return nil
}
