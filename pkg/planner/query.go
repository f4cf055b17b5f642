package planner

// upTo adds to sum what the steps up to t change. It leaves out one node: the node below that
// may have steps both before and after t. It returns that node, or nil if there is none.
func (n *node) upTo(t, sum int64) (int64, *node) {
	for i := range n.steps {
		if n.steps[i].at > t {
			return sum, nil
		}
		sum += n.steps[i].change
	}
	for i := range n.parts {
		if n.parts[i].from > t {
			return sum, nil
		}
		if i+1 == len(n.parts) || n.parts[i+1].from > t {
			return sum, n.parts[i].node
		}
		sum += n.parts[i].sum
	}
	return sum, nil
}

// peak continues the sum, and the peak since start, over the
// steps of the node. All steps of the node are before bound.
func (n *node) peak(start, end, bound, sum, peak int64) (int64, int64) {
	for i := range n.steps {
		s := &n.steps[i]
		if s.at >= end {
			return sum, peak
		}
		sum += s.change
		if s.at <= start {
			peak = sum
		} else {
			peak = max(peak, sum)
		}
	}
	for i := range n.parts {
		p := &n.parts[i]
		if p.from >= end {
			return sum, peak
		}
		next := bound
		if i+1 < len(n.parts) {
			next = n.parts[i+1].from
		}
		switch {
		case next <= start:
			sum += p.sum
			peak = sum
		case p.from > start && next <= end:
			peak = max(peak, sum+p.high)
			sum += p.sum
		default:
			sum, peak = p.node.peak(start, end, next, sum, peak)
		}
	}
	return sum, peak
}

// next returns the time of the first step after the given time. It returns false if there is none.
func (n *node) next(after int64) (int64, bool) {
	for i := range n.steps {
		if n.steps[i].at > after {
			return n.steps[i].at, true
		}
	}
	for i := range n.parts {
		if i+1 < len(n.parts) && n.parts[i+1].from <= after {
			continue
		}
		if t, ok := n.parts[i].node.next(after); ok {
			return t, true
		}
	}
	return 0, false
}

// A crossing searches for the time at which the sum passes a limit.
type crossing struct {
	limit int64
	// sum is the sum up to the step that the search has reached.
	sum int64
}

// find returns the first step after the given time from which the sum is over the
// limit if over is set, and not over it otherwise. It returns false if there is none.
func (c *crossing) find(root *node, after int64, over bool) (int64, bool) {
	if root == nil {
		return 0, false
	}
	c.sum = 0
	return c.below(root, after, Forever, over)
}

// below is find for the steps below a node. All of them are before bound.
func (c *crossing) below(n *node, after, bound int64, over bool) (int64, bool) {
	for i := range n.steps {
		s := &n.steps[i]
		c.sum += s.change
		if s.at > after && (c.sum > c.limit) == over {
			return s.at, true
		}
	}
	for i := range n.parts {
		p := &n.parts[i]
		next := bound
		if i+1 < len(n.parts) {
			next = n.parts[i+1].from
		}
		if next <= after || over && c.sum+p.high <= c.limit || !over && c.sum+p.low > c.limit {
			c.sum += p.sum
			continue
		}
		if t, ok := c.below(p.node, after, next, over); ok {
			return t, true
		}
	}
	return 0, false
}
