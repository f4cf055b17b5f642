package resource

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/idset"
)

// MaxListed is the largest number of vertices that ParseR makes of an R without a
// graph. There must be a limit, because a short text can list very many vertices.
const MaxListed = 1 << 20

// A listedRank is the part of R_lite for one rank.
type listedRank struct {
	rank  int64
	pools []listedPool
}

// A listedPool has the ids of one type of vertex.
type listedPool struct {
	vertexType string
	ids        idset.Set
}

// rlite reads R_lite. It returns the ranks in ascending order.
func (r *reader) rlite() ([]listedRank, error) {
	var ranks []listedRank
	vertices := int64(0)
	err := r.array(func(i int) error {
		on, pools, err := r.rliteEntry()
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		each := int64(1) // for the node
		for _, p := range pools {
			each += min(p.ids.Len(), MaxListed)
		}
		if vertices += min(on.Len(), MaxListed) * each; vertices > MaxListed {
			return fmt.Errorf("item %d: more than %d vertices in all", i, MaxListed)
		}
		for rank := range on.All() {
			ranks = append(ranks, listedRank{rank, pools})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(ranks, func(a, b listedRank) int { return cmp.Compare(a.rank, b.rank) })
	for i := range len(ranks) - 1 {
		if ranks[i].rank == ranks[i+1].rank {
			return nil, fmt.Errorf("rank %d appears twice", ranks[i].rank)
		}
	}
	return ranks, nil
}

func (r *reader) rliteEntry() (ranks idset.Set, pools []listedPool, err error) {
	var named, filled int
	err = r.object(func(key []byte) error {
		switch string(key) {
		case "rank":
			return once(&named, "rank", func() (err error) {
				ranks, err = r.idset()
				return err
			})
		case "children":
			return once(&filled, "children", func() (err error) {
				pools, err = r.pools()
				return err
			})
		}
		return r.skip()
	})
	switch {
	case err != nil:
	case named == 0:
		err = fmt.Errorf("no rank")
	case filled == 0:
		err = fmt.Errorf("no children")
	}
	return ranks, pools, err
}

func (r *reader) pools() ([]listedPool, error) {
	var pools []listedPool
	err := r.object(func(key []byte) error {
		p := listedPool{vertexType: string(key)}
		if slices.ContainsFunc(pools, func(other listedPool) bool { return other.vertexType == p.vertexType }) {
			return fmt.Errorf("%s appears twice", p.vertexType)
		}
		var err error
		p.ids, err = r.idset()
		pools = append(pools, p)
		return in(p.vertexType, err)
	})
	return pools, err
}

func (r *reader) idset() (idset.Set, error) {
	text, err := r.word()
	if err != nil {
		return nil, err
	}
	s, err := idset.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%.60q: %w", text, err)
	}
	return s, nil
}

// nodelist reads the hosts of this number of ranks. It returns nil if the list has no hosts.
func (r *reader) nodelist(ranks int) ([]string, error) {
	var hosts []string
	err := r.array(func(i int) error {
		text, err := r.word()
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		list, err := hostlist.Parse(text)
		if err != nil {
			return fmt.Errorf("item %d: %.60q: %w", i, text, err)
		}
		if room := ranks - len(hosts); list.Len(room) > room {
			return fmt.Errorf("item %d: %.60q: more hosts than R_lite has ranks, which is %d", i, text, ranks)
		}
		hosts = slices.AppendSeq(hosts, list.Names())
		return nil
	})
	if err == nil && len(hosts) > 0 && len(hosts) < ranks {
		err = fmt.Errorf("%d hosts, and R_lite has %d ranks", len(hosts), ranks)
	}
	return hosts, err
}

// A property is a property of the nodes of some ranks.
type property struct {
	name, value string
	ranks       idset.Set
}

func (r *reader) listedProperties() ([]property, error) {
	var all []property
	err := r.object(func(key []byte) error {
		var p property
		var err error
		p.name, p.value, _ = strings.Cut(string(key), "=")
		p.ranks, err = r.idset()
		all = append(all, p)
		return in(string(key), err)
	})
	return all, err
}
