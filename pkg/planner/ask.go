package planner

// upTo adds to sum what the node's steps up to t change, but for those of the
// node that it returns, where some are before and some after.
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

// peak carries the sum and the peak since start on over the node, all of whose
// steps are before bound.
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

// next returns the time of the first step after the given time.
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

// A crossing looks for the time at which the sum passes a limit.
type crossing struct {
	limit int64
	sum   int64
}

// find returns the first step after the given time from which on the sum is over
// the limit, or not over it.
func (c *crossing) find(root *node, after int64, over bool) (int64, bool) {
	if root == nil {
		return 0, false
	}
	c.sum = 0
	return c.below(root, after, Forever, over)
}

// below does find for what stands in a node, all of whose steps are before bound.
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
