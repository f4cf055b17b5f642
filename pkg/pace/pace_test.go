package pace_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-k8s/fluence/pkg/pace"
)

// written returns how many of many writes are made in a time, while some objects a second come.
func written(t *testing.T, p *pace.Pace, during time.Duration, come int) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	var coming sync.WaitGroup
	if come > 0 {
		coming.Go(func() {
			each := time.NewTicker(time.Second / time.Duration(come))
			defer each.Stop()
			for ctx.Err() == nil {
				p.Came()
				select {
				case <-each.C:
				case <-ctx.Done():
				}
			}
		})
	}
	for p.Wait(ctx) == nil {
		n++
	}
	coming.Wait()
	return n
}

func TestWritesAreSlowerInARush(t *testing.T) {
	const seconds = 20
	for name, tc := range map[string]struct{ come, least, most int }{
		"nothing comes":    {0, seconds * pace.Calm, seconds * pace.Calm},
		"few come":         {15, seconds * pace.Calm, seconds * pace.Calm},
		"many come":        {100, seconds * pace.Rushed, (seconds + 5) * pace.Rushed},
		"a few more comes": {25, seconds * pace.Rushed, (seconds + 20) * pace.Rushed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := written(t, pace.New(), seconds*time.Second, tc.come) - pace.AtOnce
				if n < tc.least-2 || n > tc.most+2 {
					t.Errorf("%d writes in %d s after the first %d, want from %d to %d", n, seconds, pace.AtOnce, tc.least, tc.most)
				}
			})
		})
	}
}

func TestAfterARushWritesAreAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New()
		written(t, p, 5*time.Second, 100)
		<-time.After(1100 * time.Millisecond) // the rush lasts a second longer
		if n := written(t, p, 10*time.Second, 0); n < 10*pace.Calm {
			t.Errorf("%d writes in 10 s, want at least %d a second", n, pace.Calm)
		}
	})
}

func TestAWriteThatIsAllowedCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, n := pace.New(), 0
		for p.Allow() {
			n++
		}
		if n != pace.AtOnce {
			t.Errorf("%d writes at once, want %d", n, pace.AtOnce)
		}
	})
}
