package engine

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// TestFingerprintCoversTheRequest changes one field at a time.
func TestFingerprintCoversTheRequest(t *testing.T) {
	request := func() *match.Request {
		js := matchtest.Constrain(matchtest.Slots("a", 2, matchtest.Cores(1)), "a", jobspec.SlotAttributes{
			Constraints: matchtest.Hosts("n1"), MaxPerLevel: map[string]int64{"node": 1, "rack": 2},
		})
		js.Attributes.System.Environment = map[string]string{"A": "1", "B": "2"}
		return &match.Request{ID: 1, Jobspec: js, Keys: []string{"x", "yz"}, Near: []string{"n"}, Policy: match.PolicyLonode}
	}
	same := request()
	same.Epoch, same.Now, same.Op, same.ID = 5, time.Unix(1, 0), match.WithoutAllocating, 9
	same.Ignore, same.Terse = []match.JobID{7}, true
	same.Replaces, same.ReplacesKeys = 8, []string{"z"}
	if fingerprintOf(same) != fingerprintOf(request()) {
		t.Error("the same request has two fingerprints")
	}
	yes := true
	seen := map[store.Fingerprint]string{fingerprintOf(request()): "the request"}
	for name, change := range map[string]func(r *match.Request){
		"the duration":            func(r *match.Request) { r.Duration = time.Second },
		"the policy":              func(r *match.Request) { r.Policy = "" },
		"the holder":              func(r *match.Request) { r.Holder = "h" },
		"a holder that is policy": func(r *match.Request) { r.Policy, r.Holder = "", match.PolicyLonode },
		"the near nodes":          func(r *match.Request) { r.Near = nil },
		"the order of keys":       func(r *match.Request) { r.Keys = []string{"yz", "x"} },
		"where a key ends":        func(r *match.Request) { r.Keys = []string{"xy", "z"} },
		"a key that is near":      func(r *match.Request) { r.Keys, r.Near = []string{"x"}, []string{"yz", "n"} },
		"the count":               func(r *match.Request) { r.Jobspec.Resources[0].Count.Max = 3 },
		"the operator":            func(r *match.Request) { r.Jobspec.Resources[0].Count.Operator = '*' },
		"the label":               func(r *match.Request) { r.Jobspec.Resources[0].Label = "b" },
		"the amount":              func(r *match.Request) { r.Jobspec.Resources[0].With[0].Count.Min = 1 },
		"the unit":                func(r *match.Request) { r.Jobspec.Resources[0].With[0].Unit = "" },
		"whether it is exclusive": func(r *match.Request) { r.Jobspec.Resources[0].Exclusive = &yes },
		"the constraints":         func(r *match.Request) { r.Jobspec.Attributes.System.Constraints = matchtest.Hosts("n1") },
		"the attributes of the label": func(r *match.Request) {
			matchtest.Constrain(r.Jobspec, "a", jobspec.SlotAttributes{ConstraintsNow: matchtest.Hosts("n1")})
		},
		"the tasks": func(r *match.Request) { r.Jobspec.Tasks[0].Command = []string{"other"} },
		"a value of a map": func(r *match.Request) {
			r.Jobspec.Attributes.System.Environment = map[string]string{"A": "2", "B": "1"}
		},
	} {
		r := request()
		change(r)
		f := fingerprintOf(r)
		if other, ok := seen[f]; ok {
			t.Errorf("with a change to %s the request has the fingerprint of %s", name, other)
		}
		seen[f] = name
	}
}

// TestFingerprintKnowsEveryFieldOfARequest fails if the contract has a field that this test does
// not know.
func TestFingerprintKnowsEveryFieldOfARequest(t *testing.T) {
	var got []string
	for f := range reflect.TypeFor[match.Request]().Fields() {
		got = append(got, f.Name)
	}
	want := []string{"Epoch", "Op", "ID", "Jobspec", "Keys", "Now", "Duration", "Policy", "Holder", "Near", "Expected", "Ignore", "Ending", "Displace", "Replaces", "ReplacesKeys", "Terse"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the fields of a request differ (-known +there):\n%s", diff)
	}
}
