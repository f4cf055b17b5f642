package placement

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestWhyNoNodeHasTheDomainOfAGroup(t *testing.T) {
	node := func(name, rack string) fwk.NodeInfo {
		info := schedulerframework.NewNodeInfo()
		n := objects.ReadyNode(name, 1)
		if rack != "" {
			n.Labels["rack"] = rack
		}
		info.SetNode(n)
		return info
	}
	cases := map[string]struct {
		domain string
		near   []string
		nodes  []fwk.NodeInfo
		want   string
	}{
		"none is asked for":                      {"", nil, []fwk.NodeInfo{node("n1", "")}, ""},
		"some nodes have the label":              {"rack", nil, []fwk.NodeInfo{node("n1", ""), node("n2", "a")}, ""},
		"no node has it":                         {"rack", nil, []fwk.NodeInfo{node("n1", "")}, "no node has the label rack, of which all pods of the group must have the same value"},
		"siblings have it":                       {"rack", []string{"n2"}, []fwk.NodeInfo{node("n1", ""), node("n2", "a")}, ""},
		"some siblings have it":                  {"rack", []string{"n1", "n2"}, []fwk.NodeInfo{node("n1", ""), node("n2", "a")}, ""},
		"siblings are on nodes without it":       {"rack", []string{"n3", "n1"}, []fwk.NodeInfo{node("n3", ""), node("n1", ""), node("n2", "a")}, "all pods of the group must have the same value of the node label rack, and pods of it are on node n1, which does not have the label"},
		"siblings are on nodes that are deleted": {"rack", []string{"n9"}, []fwk.NodeInfo{node("n1", ""), node("n2", "a")}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := whyNoDomain(gang.Plan{Nearness: gang.Nearness{Domain: tc.domain, Near: tc.near}}, tc.nodes); got != tc.want {
				t.Errorf("whyNoDomain() = %q, want %q", got, tc.want)
			}
		})
	}
}

// nodeNames returns n names of nodes, each length bytes long.
func nodeNames(n, length int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%0*d", length, i)
	}
	return names
}

// requestsOf returns requests for this many kinds of pods, of one pod each.
func requestsOf(kinds int, attributes jobspec.SlotAttributes) []translate.ShapeRequest {
	var requests []translate.ShapeRequest
	for i := range kinds {
		requests = append(requests, translate.ShapeRequest{
			Label: fmt.Sprint("shape", i), Amounts: translate.Amounts{"core": 100, "pods": 1}, Min: 1, Max: 1, Attributes: attributes,
		})
	}
	return requests
}

// Requests that are not too large can be written as a jobspec and read again.
func TestRequestsWithinLimitsFitAJobspec(t *testing.T) {
	excluded := func(names []string) jobspec.SlotAttributes {
		return jobspec.SlotAttributes{ConstraintsNow: notOn(names)}
	}
	spreads := func(kinds, nodes int, own bool) []translate.ShapeRequest {
		requests := requestsOf(kinds, jobspec.SlotAttributes{})
		lists := []string{hostlist.Encode(nodeNames(nodes, 6)[:nodes/2]), hostlist.Encode(nodeNames(nodes, 6)[nodes/2:])}
		for i := range requests {
			for k := range 8 * kinds {
				name := fmt.Sprint("spread", k)
				if own {
					name += fmt.Sprint("/", i)
				}
				requests[i].Attributes.Limits = append(requests[i].Attributes.Limits, jobspec.Limit{Name: name, Hosts: lists, Most: 1})
			}
		}
		return requests
	}
	apart := func(kinds, nodes int) []translate.ShapeRequest {
		hosts := nodeNames(nodes, 6)
		return requestsOf(kinds, jobspec.SlotAttributes{Limits: []jobspec.Limit{{Name: "l", Hosts: hosts, Most: 1}}})
	}
	cases := map[string]struct {
		requests []translate.ShapeRequest
		want     bool
	}{
		"one kind kept from 5,000 nodes":                               {requestsOf(1, excluded(nodeNames(5000, 30))), false},
		"20 kinds kept from 5,000 nodes":                               {requestsOf(20, excluded(nodeNames(5000, 30))), false},
		"100 kinds kept from 5,000 nodes":                              {requestsOf(100, excluded(nodeNames(5000, 30))), true},
		"very many short names":                                        {requestsOf(1, excluded(nodeNames(1<<18, 1))), false},
		"300 kinds kept from 1,700 nodes of short names":               {requestsOf(300, excluded(nodeNames(1700, 4))), false},
		"20 kinds of eight spreads each, all with all":                 {spreads(20, 1000, false), false},
		"20 kinds of eight spreads each, with as many lists":           {spreads(20, 1000, true), true},
		"20 kinds of eight spreads each, all with all, of 5,000 nodes": {spreads(20, 5000, false), true},
		"kinds that are apart on each of very many nodes, one by one":  {apart(400, 5000), true},
		"kinds that are apart on each of some nodes, one by one":       {apart(40, 5000), false},
		"very many kinds":                                              {requestsOf(20_000, jobspec.SlotAttributes{}), true},
		"many kinds":                                                   {requestsOf(9_000, jobspec.SlotAttributes{}), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			js := translate.Jobspec(tc.requests)
			got := isTooLarge(tc.requests)
			text, err := js.Encode()
			if err == nil {
				_, err = jobspec.Parse(text)
			}
			if !got && err != nil {
				t.Errorf("tooManyHosts() = false, and the jobspec: %v", err)
			}
			if got != tc.want {
				t.Errorf("tooManyHosts() = %v, want %v; the jobspec has %d bytes: %v", got, tc.want, len(text), err)
			}
		})
	}
}

func TestTypesOfResourcesOfAGroupAreBounded(t *testing.T) {
	amounts := func(from, n int) *interpod.Shape {
		s := &interpod.Shape{Amounts: translate.Amounts{"core": 1}}
		for i := range n {
			s.Amounts[fmt.Sprint("example.com/", from+i)] = 1
		}
		return s
	}
	cases := map[string]struct {
		shapes []*interpod.Shape
		want   bool
	}{
		"one pod of few":                   {[]*interpod.Shape{amounts(0, 3)}, false},
		"as many as there may be":          {[]*interpod.Shape{amounts(0, match.MaxResourceTypes-1)}, false},
		"one more":                         {[]*interpod.Shape{amounts(0, match.MaxResourceTypes)}, true},
		"pods that ask for the same":       {[]*interpod.Shape{amounts(0, 100), amounts(0, 100)}, false},
		"pods that ask for others, in all": {[]*interpod.Shape{amounts(0, 100), amounts(100, 28)}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := hasTooManyTypes(tc.shapes); got != tc.want {
				t.Errorf("tooManyKinds() = %v, want %v", got, tc.want)
			}
		})
	}
}

// Lists in requests are bounded, wherever they are.
func TestRequestsThatListTooMuch(t *testing.T) {
	list := func(n, length int) *jobspec.Constraint {
		return &jobspec.Constraint{Op: jobspec.OpHostlist, Values: slices.Repeat([]string{strings.Repeat("n", length)}, n)}
	}
	both := func(a, b *jobspec.Constraint) *jobspec.Constraint {
		return &jobspec.Constraint{Op: jobspec.OpAnd, Args: []jobspec.Constraint{*a, *b}}
	}
	const half = maxHosts / 2
	cases := map[string]struct {
		requests []jobspec.SlotAttributes
		want     bool
	}{
		"nothing":              {[]jobspec.SlotAttributes{{}}, false},
		"as many as may be":    {[]jobspec.SlotAttributes{{Constraints: list(half, 1), ConstraintsNow: list(half, 1)}}, false},
		"one more for good":    {[]jobspec.SlotAttributes{{Constraints: list(half+1, 1), ConstraintsNow: list(half, 1)}}, true},
		"one more for now":     {[]jobspec.SlotAttributes{{Constraints: list(half, 1), ConstraintsNow: list(half+1, 1)}}, true},
		"in parts":             {[]jobspec.SlotAttributes{{Constraints: both(list(half, 1), list(half+1, 1))}}, true},
		"of two kinds of pods": {[]jobspec.SlotAttributes{{Constraints: list(half, 1)}, {Constraints: list(half+1, 1)}}, true},
	}
	for name, tc := range cases {
		var requests []translate.ShapeRequest
		for _, a := range tc.requests {
			requests = append(requests, translate.ShapeRequest{Attributes: a})
		}
		if got := isTooLarge(requests); got != tc.want {
			t.Errorf("%s: too much %t, want %t", name, got, tc.want)
		}
	}
}

func TestLimitPerNode(t *testing.T) {
	level := jobspec.Limit{Name: "pods-per-node", Level: "node", Most: 2}
	cases := map[string]struct {
		most     int64
		occupied []string
		want     []jobspec.Limit
		wantOut  []string
	}{
		"no bound":               {occupied: []string{"a", "a"}},
		"no pods yet":            {most: 2, want: []jobspec.Limit{level}},
		"one pod on two nodes":   {most: 2, occupied: []string{"b", "a"}, want: []jobspec.Limit{level, {Name: "pods-per-node/left/1", Hosts: []string{"a", "b"}, Most: 1}}},
		"a full node":            {most: 2, occupied: []string{"a", "a"}, want: []jobspec.Limit{level}, wantOut: []string{"a"}},
		"more than there may be": {most: 2, occupied: []string{"a", "a", "a", "b"}, want: []jobspec.Limit{level, {Name: "pods-per-node/left/1", Hosts: []string{"b"}, Most: 1}}, wantOut: []string{"a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := &attempt{plan: gang.Plan{Nearness: gang.Nearness{PodsPerNode: tc.most, Occupied: tc.occupied}}, requests: make([]translate.ShapeRequest, 2)}
			q.limitPerNode()
			var out *jobspec.Constraint
			if tc.wantOut != nil {
				out = notOn(tc.wantOut)
			}
			for i, r := range q.requests {
				if !reflect.DeepEqual(r.Attributes.Limits, tc.want) || !reflect.DeepEqual(r.Attributes.ConstraintsNow, out) {
					t.Errorf("shape %d has the limits %+v and may not be on %+v, want %+v and %+v", i, r.Attributes.Limits, r.Attributes.ConstraintsNow, tc.want, out)
				}
			}
		})
	}
}
