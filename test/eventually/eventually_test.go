package eventually_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-k8s/fluence/test/eventually"
)

// A judged test records why it would have ended.
type judged struct {
	testing.TB
	verdict string
}

func (j *judged) Helper() {}

func (j *judged) Fatalf(format string, args ...any) { j.verdict = fmt.Sprintf(format, args...) }

func TestTrue(t *testing.T) {
	third := func(n int) bool { return n == 3 }
	never := func(int) bool { return false }
	cases := map[string]struct {
		done   func(look int) bool
		within time.Duration
		every  time.Duration
		takes  time.Duration
		want   string
	}{
		"it is so at once":                {done: func(int) bool { return true }},
		"it is so at the third look":      {done: third, takes: 100 * time.Millisecond},
		"looks are rarer":                 {done: third, every: time.Second, takes: 2 * time.Second},
		"it is never so":                  {done: never, takes: 2 * time.Minute, want: "the end: not so after 2m0s; last: look 3"},
		"it is not so before a deadline":  {done: never, within: 120 * time.Millisecond, takes: 120 * time.Millisecond, want: "the end: not so after 120ms; last: look 3"},
		"there was no time for two looks": {done: never, within: time.Millisecond, takes: time.Millisecond, want: "the end: not so after 1ms; last: look 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.within)
					defer cancel()
				}
				looks := 0
				done := func(context.Context) (bool, string) {
					looks++
					return tc.done(looks), fmt.Sprint("look ", min(looks, 3))
				}
				j, start := &judged{TB: t}, time.Now()
				if tc.every > 0 {
					eventually.TrueEvery(ctx, j, tc.every, "the end", done)
				} else {
					eventually.True(ctx, j, "the end", done)
				}
				if took := time.Since(start); took != tc.takes || j.verdict != tc.want {
					t.Errorf("took %v and said %q, want %v and %q", took, j.verdict, tc.takes, tc.want)
				}
			})
		})
	}
}

// The text of a look that the deadline interrupts is not reported.
func TestALookThatIsInterruptedSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		looks := 0
		j := &judged{TB: t}
		eventually.True(ctx, j, "the end", func(ctx context.Context) (bool, string) {
			if looks++; looks == 1 {
				return false, "half done"
			}
			<-ctx.Done()
			return false, ctx.Err().Error()
		})
		if want := "the end: not so after 1s; last: half done"; j.verdict != want {
			t.Errorf("it said %q, want %q", j.verdict, want)
		}
	})
}
