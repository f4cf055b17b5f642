package apiwatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestHold(t *testing.T) {
	cases := map[string]struct {
		// answers reports whether the server answers at this second after the start.
		answers func(second int) bool
		// hangs makes the server silent instead of rejecting requests.
		hangs bool
		want  time.Duration // when it is given up; 0 is not within the hour
	}{
		"a server that answers":                     {answers: func(int) bool { return true }},
		"one that goes for ever":                    {answers: func(s int) bool { return s < 60 }, want: 70 * time.Second},
		"one that hangs for ever":                   {answers: func(s int) bool { return s < 60 }, hangs: true, want: 70 * time.Second},
		"one that comes back in time":               {answers: func(s int) bool { return s%60 > 6 }},
		"one that comes back too late":              {answers: func(s int) bool { return s < 60 || s > 72 }, want: 70 * time.Second},
		"one that answers every other time it asks": {answers: func(s int) bool { return s%4 == 0 }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err := Watch(ctx, func(ctx context.Context) error {
					if tc.answers(int(time.Since(start).Seconds())) {
						return nil
					}
					if tc.hangs {
						<-ctx.Done()
						return ctx.Err()
					}
					return errors.New("refused")
				}, 10*time.Second)
				took := time.Since(start)
				if tc.want == 0 {
					if err != nil || took < time.Hour {
						t.Errorf("Hold() = %v after %v, want it to hold", err, took)
					}
					return
				}
				// A question that hangs costs the time that it may take.
				if err == nil || took < tc.want-2*pingEvery || took > tc.want+2*pingEvery {
					t.Errorf("Hold() = %v after %v, want an error after %v", err, took, tc.want)
				}
			})
		})
	}
}

// The timeout does not count time in which the process
// does not run: when it continues, it asks again.
func TestHoldCountsWhatItAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		asked := 0
		err := Watch(ctx, func(context.Context) error {
			asked++
			if asked%10 == 0 {
				time.Sleep(time.Minute) // as it seems to one that was stopped
				return context.DeadlineExceeded
			}
			return nil
		}, 10*time.Second)
		if err != nil {
			t.Errorf("Hold() = %v, want it to hold", err)
		}
	})
}
