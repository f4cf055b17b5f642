package trials

import (
	"flag"
	"slices"
	"testing"
)

// given sets a flag for the rest of the test.
func given(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	before := f.Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flag.Set(name, before); err != nil {
			t.Error(err)
		}
	})
}

func TestFlagsSayHowManyTrialsAndFromWhichSeed(t *testing.T) {
	cases := map[string]struct {
		short, trials, seed string
		want                []uint64
	}{
		"nothing is said":              {want: []uint64{0, 1, 2, 3, 4}},
		"a short run":                  {short: "true", want: []uint64{0, 1}},
		"so many":                      {trials: "3", want: []uint64{0, 1, 2}},
		"so many, though it is short":  {short: "true", trials: "3", want: []uint64{0, 1, 2}},
		"one of them again":            {trials: "1", seed: "77", want: []uint64{77}},
		"its own number, from a seed":  {seed: "7", want: []uint64{7, 8, 9, 10, 11}},
		"more than its own, as in all": {trials: "7", want: []uint64{0, 1, 2, 3, 4, 5, 6}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			given(t, "test.short", "false")
			for name, value := range map[string]string{"test.short": tc.short, "trials": tc.trials, "seed": tc.seed} {
				if value != "" {
					given(t, name, value)
				}
			}
			if got := slices.Collect(Seeds(5)); !slices.Equal(got, tc.want) {
				t.Errorf("Seeds(5) yields %v, want %v", got, tc.want)
			}
			if got := Usual(); got != (tc.trials == "") {
				t.Errorf("Usual() = %t with -trials=%s", got, tc.trials)
			}
		})
	}
}

func TestASeedThatIsNotGivenIsFresh(t *testing.T) {
	if a, b := Seed(t), Seed(t); a == b || a == 0 {
		t.Errorf("Seed() = %d, and again %d", a, b)
	}
	given(t, "seed", "9")
	if got := Seed(t); got != 9 {
		t.Errorf("Seed() = %d with -seed=9", got)
	}
}
