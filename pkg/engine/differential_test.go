package engine_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/golden"
	"github.com/flux-k8s/fluence/test/golden/model"
	"github.com/flux-k8s/fluence/test/trials"
)

// differentialTime bounds the time of the test, unless -trials sets the number of cases.
const differentialTime = 15 * time.Second

// TestDifferential compares the engine with the model of Fluxion. A case with different answers is
// printed as a file for test/testdata/golden/cases, with the answers of the model.
func TestDifferential(t *testing.T) {
	seed := trials.Seed(t)
	open := opener(t)
	cases := trials.Count(1000)
	steps, begin := 0, time.Now()
	for i := range cases {
		if trials.Usual() && time.Since(begin) > differentialTime {
			t.Logf("stopped after %d of %d cases", i, cases)
			break
		}
		c := golden.Random(seed + uint64(i))
		if err := golden.Record(&c, model.Open); err != nil {
			t.Fatalf("-seed=%d -trials=1: %v", seed+uint64(i), err)
		}
		steps += len(c.Steps)
		err := play(&c, open)
		if err == nil {
			continue
		}
		c = golden.Shrink(c, model.Open, func(c *golden.Case) bool { return play(c, open) != nil })
		text, jsonErr := json.Marshal(c)
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		t.Errorf("-seed=%d -trials=1: %v\nand shrunk: %v\n%s", seed+uint64(i), err, play(&c, open), text)
	}
	t.Logf("%d steps", steps)
}

// play turns a panic into an error, so that the case can be shrunk.
func play(c *golden.Case, open golden.Open) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return golden.Play(c, open)
}
