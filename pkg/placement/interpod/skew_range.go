package interpod

import (
	"math"
	"slices"
)

// countRange is how many members may come to a domain.
type countRange struct{ min, max int }

// countRanges says how many of n members may come to each domain, for the end to be within
// maxSkew: every domain comes to the same floor at the least, and maxSkew above it at
// the most. The first answer has the highest floor that there can be, the next ones
// lower and lower ones, down to that of the lowest domain as it is. Room is for how
// many members there is room in each domain; none is where they may not come to, and
// whatever the band of such a domain says, they are ruled out there.
//
// An end like that is reached within maxSkew at each step too, by whoever goes to the
// lowest of the domains that are not full yet.
func (sp *spreadConstraint) countRanges(n int, room []int) [][]countRange {
	lowest, floor := math.MaxInt, sp.waterLevel(n, room)
	for i, d := range sp.domains {
		lowest = min(lowest, d.existing)
		floor = min(floor, d.existing+room[i])
	}
	short := len(sp.domains) < sp.minDomains
	if short {
		// Too few domains count as if there was an empty one.
		floor = 0
	}
	var all [][]countRange
	for _, f := range floors(floor, lowest) {
		bs := make([]countRange, len(sp.domains))
		for i, d := range sp.domains {
			bs[i] = countRange{min: max(0, f-d.existing), max: max(0, f+sp.maxSkew-d.existing)}
			if short || room[i] == 0 {
				bs[i].min = 0
			}
		}
		all = append(all, bs)
		if short {
			break
		}
	}
	return all
}

// floors lists the ones that are tried: the highest three, one halfway down and the
// lowest.
func floors(highest, lowest int) []int {
	var all []int
	for _, f := range []int{highest, highest - 1, highest - 2, lowest + (highest-lowest)/2, lowest} {
		if f >= lowest && !slices.Contains(all, f) || len(all) == 0 {
			all = append(all, max(0, f))
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return slices.Compact(all)
}

// waterLevel is the level to which n members fill all domains that they may come to.
func (sp *spreadConstraint) waterLevel(n int, room []int) int {
	var there []int
	for i, d := range sp.domains {
		if room[i] > 0 {
			there = append(there, d.existing)
		}
	}
	if len(there) == 0 {
		return 0
	}
	slices.Sort(there)
	level := there[0]
	for k, left := 1, n; ; k++ {
		if k < len(there) && (there[k]-level)*k <= left {
			left -= (there[k] - level) * k
			level = there[k]
			continue
		}
		return level + left/k
	}
}

// choices lists what the matcher may be asked for n members: by floors from the highest,
// first for fixed shares, which are found at once where there is room as expected, and
// then for all that the bands leave open.
func (sp *spreadConstraint) choices(n int, room []int) [][]countRange {
	var all [][]countRange
	for _, bs := range sp.countRanges(n, room) {
		floors := 0
		for _, b := range bs {
			if b.min > 0 {
				floors++
			}
		}
		if floors > 0 {
			if is := fixedCounts(n, bs, room); is != nil {
				all = append(all, is)
			}
		}
		if floors <= maxComplements {
			all = append(all, bs)
		}
	}
	return all
}

// fixedCounts gives each domain its least, and what is left of n one by one to those that
// may have more and have room for it. What a domain has then is the most that it may
// have: as all come to n, that is the least as well. It returns nil if they do not.
func fixedCounts(n int, bs []countRange, room []int) []countRange {
	is := make([]countRange, len(bs))
	for i, b := range bs {
		is[i].max = b.min
		n -= b.min
	}
	for more := true; more && n > 0; {
		more = false
		for i, b := range bs {
			if n > 0 && is[i].max < min(b.max, room[i]) {
				is[i].max++
				n--
				more = true
			}
		}
	}
	if n != 0 {
		return nil
	}
	return is
}

// rooms says for how many of n counted members there is room in each domain.
func (sp *spreadConstraint) rooms(n int, room capacity, ruled []map[string]bool) []int {
	rooms := make([]int, len(sp.domains))
	for i, d := range sp.domains {
		rooms[i] = room.sum(sp.counted, d.hosts, ruled, n)
	}
	return rooms
}
