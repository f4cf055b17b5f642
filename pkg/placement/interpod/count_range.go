package interpod

import (
	"math"
	"slices"
)

// countRange is how many members may go to a domain.
type countRange struct{ min, max int }

// countRanges returns how many of n members may go to each domain so that the result keeps
// maxSkew. Existing pods included, each domain then has at least a floor of pods and at most
// maxSkew more. The first answer has the highest possible floor. The next answers have lower
// floors, down to the present count of the lowest domain. room is for how many members each
// domain has room. No member may go to a domain without room, because other limits rule it out.
//
// The members can also keep maxSkew at each step, if each goes to the lowest domain
// that is not full yet.
func (sp *spreadConstraint) countRanges(n int, room []int) [][]countRange {
	lowest, floor := math.MaxInt, sp.waterLevel(n, room)
	for i, d := range sp.domains {
		lowest = min(lowest, d.existing)
		floor = min(floor, d.existing+room[i])
	}
	short := len(sp.domains) < sp.minDomains
	if short {
		// With too few domains the lowest count is taken as 0.
		floor = 0
	}
	var all [][]countRange
	for _, f := range floorsToTry(floor, lowest) {
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

// floorsToTry returns the floors to try, the highest first: the three highest, one halfway
// down, and the lowest.
func floorsToTry(highest, lowest int) []int {
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

// waterLevel returns the level up to which n members fill the domains with room, by water-filling.
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

// rangeChoices lists the ranges that may be requested for n members, by their floors from the
// highest. Each floor gives up to two choices: first a fixed count for each domain, which
// the matcher finds at once if there is room as expected, and then the full ranges.
func (sp *spreadConstraint) rangeChoices(n int, room []int) [][]countRange {
	var all [][]countRange
	for _, bs := range sp.countRanges(n, room) {
		minimums := 0
		for _, b := range bs {
			if b.min > 0 {
				minimums++
			}
		}
		if minimums > 0 {
			if fixed := fixedCounts(n, bs, room); fixed != nil {
				all = append(all, fixed)
			}
		}
		if minimums <= maxMinimums {
			all = append(all, bs)
		}
	}
	return all
}

// fixedCounts gives each domain its minimum, and gives the rest of n one by one to the domains
// that may have more and have room. It returns the counts as maximums only: they add up to n, so
// n members must fill each of them. It returns nil if the domains have no room for n members.
func fixedCounts(n int, bs []countRange, room []int) []countRange {
	fixed := make([]countRange, len(bs))
	for i, b := range bs {
		fixed[i].max = b.min
		n -= b.min
	}
	for more := true; more && n > 0; {
		more = false
		for i, b := range bs {
			if n > 0 && fixed[i].max < min(b.max, room[i]) {
				fixed[i].max++
				n--
				more = true
			}
		}
	}
	if n != 0 {
		return nil
	}
	return fixed
}

// capacities returns for how many of n counted members each domain has room.
func (sp *spreadConstraint) capacities(n int, room podCapacity, ruledOut []map[string]bool) []int {
	capacities := make([]int, len(sp.domains))
	for i, d := range sp.domains {
		capacities[i] = room.sum(sp.counted, d.hosts, ruledOut, n)
	}
	return capacities
}
