package matchtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
)

// CompareHarm compares the harm of taking away two sets of units, as match.Request.Displace defines it.
// Sets are indices of units in ascending order. Every unit must name its slots by keys.
func CompareHarm(units []match.Unit, x, y []int) int {
	return cmp.Or(slices.Compare(harmOf(units, x), harmOf(units, y)), slices.Compare(x, y))
}

// harmOf returns the numbers by which sets of units are compared before their indices.
func harmOf(units []match.Unit, set []int) []int64 {
	var classes []int32
	for i := range units {
		classes = append(classes, units[i].Class)
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	harm := make([]int64, 1)
	for _, u := range set {
		harm[0] += units[u].Protected
	}
	for _, class := range slices.Backward(classes) {
		gangs, slots := int64(0), int64(0)
		for _, u := range set {
			if n := slotsOfUnit(&units[u]); units[u].Class == class {
				slots += n
				if n > 1 {
					gangs++
				}
			}
		}
		harm = append(harm, gangs, slots)
	}
	most := int64(math.MinInt64)
	for _, u := range set {
		most = max(most, units[u].Cost)
	}
	return append(harm, most)
}

// slotsOfUnit returns the number of slots that a unit names.
func slotsOfUnit(u *match.Unit) (n int64) {
	for _, ref := range u.Slots {
		n += int64(len(ref.Keys))
	}
	return n
}

// maxTriedUnits is the maximum number of units of LeastHarm.
const maxTriedUnits = 16

// LeastHarm finds the units that r would displace by trying all sets of them: a set will do if e places the
// same request while the set's slots are ending. found is false if no set will do. It fails for more than
// 16 units, and if a Match fails other than with match.ErrBusy.
func LeastHarm(ctx context.Context, e match.Engine, r match.Request) (best []int, found bool, err error) {
	if len(r.Displace) > maxTriedUnits {
		return nil, false, fmt.Errorf("%d units to displace, at most %d can be tried", len(r.Displace), maxTriedUnits)
	}
	for mask := range 1 << len(r.Displace) {
		var set []int
		for u := range r.Displace {
			if mask>>u&1 == 1 {
				set = append(set, u)
			}
		}
		if found && CompareHarm(r.Displace, set, best) > 0 {
			continue
		}
		switch _, err := e.Match(ctx, Displaced(r, set)); {
		case err == nil:
			best, found = set, true
		case !errors.Is(err, match.ErrBusy):
			return nil, false, err
		}
	}
	return best, found, nil
}

// Displaced returns the request without units, made while the slots of these units are ending.
func Displaced(r match.Request, set []int) match.Request {
	units := r.Displace
	r.Displace, r.Ending = nil, slices.Clone(r.Ending)
	for _, u := range set {
		r.Ending = append(r.Ending, units[u].Slots...)
	}
	return r
}
