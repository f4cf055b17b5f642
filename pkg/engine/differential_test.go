package engine_test

import (
	crand "crypto/rand"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/traverser/model"
	"github.com/flux-k8s/fluence/test/golden"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "draw from this seed on; 0 draws a fresh one")
	casesFlag = flag.Int("cases", 1000, "how many cases are drawn")
)

// differentialTime bounds how long cases are drawn.
const differentialTime = 15 * time.Second

// The engine and the model of Fluxion answer alike whatever is asked of them. A
// case on which they differ is printed as a file for test/testdata/golden/cases,
// with the answers of the model.
func TestDifferential(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		var b [4]byte
		if _, err := crand.Read(b[:]); err != nil {
			t.Fatal(err)
		}
		seed = 1 + uint64(binary.LittleEndian.Uint32(b[:]))
	}
	t.Logf("seed %d", seed)
	open := opener(t)
	steps, begin := 0, time.Now()
	for i := range *casesFlag {
		if time.Since(begin) > differentialTime {
			t.Logf("stopped after %d of %d cases", i, *casesFlag)
			break
		}
		c := golden.Random(seed + uint64(i))
		if err := golden.Record(&c, model.Open); err != nil {
			t.Fatalf("-seed=%d -cases=1: %v", seed+uint64(i), err)
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
		t.Errorf("-seed=%d -cases=1: %v\nand shrunk: %v\n%s", seed+uint64(i), err, play(&c, open), text)
	}
	t.Logf("%d steps", steps)
}

// play takes a panic for an error, so that the case is known and can be shrunk.
func play(c *golden.Case, open golden.Open) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return golden.Play(c, open)
}
