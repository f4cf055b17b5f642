package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// FuzzWork requests up to 500 slots of many shapes, with limits and a topology, on up to 1,000
// nodes that are partly in use. No match may exceed its maximum work.
func FuzzWork(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("many shapes that share limits by lists of hosts, in few racks, on nodes partly in use"))
	// Nodes of some sizes have so many patterns that reading each once takes much of a match's work.
	f.Add([]byte("\xff+E\xce\x01dޫ\xae\xae\xae\xae\xae\xae\xaewq\x81uuuu++1+++++++++\xa7"))
	f.Fuzz(checkRandomWork)
}

// TestRandomWork runs FuzzWork with random bytes.
func TestRandomWork(t *testing.T) {
	for seed := range trials.Seeds(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		data := make([]byte, 1200)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { checkRandomWork(t, data) })
	}
}

func checkRandomWork(t *testing.T, data []byte) {
	in := tape(data)
	nodes := 1 + 4*in.next(250)
	d := &driver{e: newEngine(t)}
	var graphs []*resource.Graph
	held := make(map[match.JobID][]match.Slot) // by rack
	kinds := 0
	if in.next(3) == 0 {
		kinds = in.next(match.MaxResourceTypes - 3)
	}
	used := 0
	for i := range nodes {
		levels := [][2]string{{"block", fmt.Sprintf("b%02d", i/160)}, {"rack", fmt.Sprintf("r%03d", i/16)}}
		name := fmt.Sprintf("n%05d", i)
		pools := []matchtest.Pool{matchtest.Cores(64), matchtest.Memory(256), matchtest.GPUs(8)}
		for k := range kinds {
			pools = append(pools, matchtest.Pool{Type: fmt.Sprint("kind", k), Amount: 9})
		}
		graphs = append(graphs, matchtest.Node(name, levels, pools...))
		if i%16 == 0 {
			used = in.next(8)
		}
		if n := int64(used+i%3) % 8; n > 0 {
			job := match.JobID(100 + i/16)
			held[job] = append(held[job], matchtest.Held(name, name, matchtest.Cores(n*9), matchtest.GPUs(n)))
		}
	}
	d.load(t, graphs...)
	for id, slots := range held {
		if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: id, End: matchtest.Now.Add(time.Hour), Slots: slots}); err != nil {
			t.Fatal(err)
		}
	}
	js := randomRequest(&in, nodes, kinds)
	r := d.request(1, js)
	r.Op = match.Allocate + match.Op(in.next(5))
	t.Logf("%d nodes, %d shapes", nodes, len(js.Resources))
	d.bounded(t, r)
}

// randomRequest returns a random request.
func randomRequest(in *tape, nodes, kinds int) *jobspec.Jobspec {
	js := matchtest.Jobspec()
	var limits []jobspec.Limit
	for k := range in.next(24) * in.next(8) {
		l := jobspec.Limit{Name: fmt.Sprint(k), Most: 1 + int64(in.next(6))}
		if in.next(3) == 0 {
			l.Level = []string{"node", "rack", "block"}[in.next(3)]
		} else {
			lists := make([][]string, 1+in.next(40))
			by, from := 1+in.next(9), in.next(9)
			for i := range nodes {
				at := (i/by + from) % len(lists)
				lists[at] = append(lists[at], fmt.Sprintf("n%05d", i))
			}
			for _, n := range lists {
				if len(n) > 0 {
					l.Hosts = append(l.Hosts, hostlist.Encode(n))
				}
			}
		}
		limits = append(limits, l)
	}
	var topology *jobspec.Topology
	level := func() string { return []string{"block", "rack", "node"}[in.next(3)] }
	switch in.next(5) {
	case 1:
		topology = &jobspec.Topology{Required: level()}
	case 2:
		topology = &jobspec.Topology{Preferred: []string{level()}}
	case 3:
		topology = &jobspec.Topology{Balanced: level()}
	case 4:
		topology = &jobspec.Topology{Preferred: []string{"block", "rack"}}
	}
	shapes := 1 + in.next(100)
	for s := range shapes {
		label := fmt.Sprint(s)
		count := jobspec.Exactly(1 + int64(in.next(500/shapes)))
		pools := []matchtest.Pool{
			matchtest.Cores(1 + int64(in.next(60))), matchtest.Memory(1 + int64(in.next(200))), matchtest.GPUs(1 + int64(in.next(4))),
		}
		for k := range kinds {
			if (k+s)%4 == 0 {
				pools = append(pools, matchtest.Pool{Type: fmt.Sprint("kind", k), Amount: 1 + int64(s%4)})
			}
		}
		js.Resources = append(js.Resources, matchtest.Slot(label, count, pools...))
		of := jobspec.SlotAttributes{Topology: topology}
		if in.next(3) == 0 {
			var out []string
			for i, by := in.next(9), 2+in.next(40); i < nodes; i += by {
				out = append(out, fmt.Sprintf("n%05d", i))
			}
			of.ConstraintsNow = matchtest.Not(matchtest.Hosts(out...))
		}
		for _, l := range limits {
			if in.next(4) > 0 {
				of.Limits = append(of.Limits, l)
			}
		}
		matchtest.Constrain(js, label, of)
	}
	return js
}
