package resource

// A vertexIndex finds vertices by the ids in their text. In most graphs
// the ids are consecutive numbers, and these need no table of strings.
type vertexIndex struct {
	byNumber []uint32 // the index of the vertex + 1, by number; 0 for none
	most     int      // numbers from here on are looked up in byText
	byText   map[string]int
}

// newVertexIndex returns an index for a graph whose text has this many bytes.
func newVertexIndex(text int) vertexIndex {
	const perVertex = 16 // no vertex takes fewer bytes
	return vertexIndex{most: text / perVertex}
}

// add adds the vertex i. It returns false if another vertex has the id.
func (x *vertexIndex) add(id []byte, i int) bool {
	n, ok := smallNumber(id)
	if !ok || n >= x.most {
		if _, taken := x.byText[string(id)]; taken {
			return false
		}
		if x.byText == nil {
			x.byText = map[string]int{}
		}
		x.byText[string(id)] = i
		return true
	}
	if n >= len(x.byNumber) {
		grown := make([]uint32, min(x.most, max(n+1, 2*len(x.byNumber), 16)))
		copy(grown, x.byNumber)
		x.byNumber = grown
	}
	if x.byNumber[n] != 0 {
		return false
	}
	x.byNumber[n] = uint32(i + 1)
	return true
}

// find returns the index of the vertex with an id.
func (x *vertexIndex) find(id []byte) (int, bool) {
	if n, ok := smallNumber(id); ok && n < x.most {
		if n >= len(x.byNumber) || x.byNumber[n] == 0 {
			return 0, false
		}
		return int(x.byNumber[n]) - 1, true
	}
	i, ok := x.byText[string(id)]
	return i, ok
}

// smallNumber reads a number of at most nine digits in the form in which strconv writes it.
func smallNumber(id []byte) (int, bool) {
	if len(id) == 0 || len(id) > 9 || id[0] == '0' && len(id) > 1 {
		return 0, false
	}
	n := 0
	for _, b := range id {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = 10*n + int(b-'0')
	}
	return n, true
}
