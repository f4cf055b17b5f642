package engine

func (p *packing) exhaust() (found, proven bool) { return false, false }
