package versionskew

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"
)

func TestWatch(t *testing.T) {
	old, fits, tooNew := &apiversion.Info{Major: "1", Minor: "36"}, &apiversion.Info{Major: "1", Minor: "37"}, &apiversion.Info{Major: "1", Minor: "39"}
	cases := map[string]struct {
		answers []*apiversion.Info // nil is a request that fails; the last one is repeated
		want    []string           // the reported versions
	}{
		"a version that fits":                     {answers: []*apiversion.Info{fits}},
		"one that does not is told once":          {answers: []*apiversion.Info{old}, want: []string{"1.36"}},
		"a server that refuses is asked again":    {answers: []*apiversion.Info{nil, nil, nil, old}, want: []string{"1.36"}},
		"a refusal in between is no other":        {answers: []*apiversion.Info{old, nil, old}, want: []string{"1.36"}},
		"another version is told":                 {answers: []*apiversion.Info{fits, tooNew}, want: []string{"1.39"}},
		"each that does not fit, there and back":  {answers: []*apiversion.Info{old, tooNew, old}, want: []string{"1.36", "1.39", "1.36"}},
		"one that has gone and come back is told": {answers: []*apiversion.Info{old, fits, old}, want: []string{"1.36", "none", "1.36"}},
		"one that is put right is told of once":   {answers: []*apiversion.Info{old, fits, fits}, want: []string{"1.36", "none"}},
		"a server that never says":                {answers: []*apiversion.Info{nil}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*askEvery+askEvery/2)
				defer cancel()
				asked := 0
				var told []string
				Watch(ctx, func(context.Context) (*apiversion.Info, error) {
					asked++
					if v := tc.answers[min(asked, len(tc.answers))-1]; v != nil {
						return v, nil
					}
					return nil, errors.New("the server has received too many requests")
				}, func(err error) {
					if err == nil {
						told = append(told, "none")
						return
					}
					_, rest, _ := strings.Cut(err.Error(), "of Kubernetes ")
					version, _, _ := strings.Cut(rest, ",")
					told = append(told, version)
				})
				if asked != 11 || !slices.Equal(told, tc.want) {
					t.Errorf("asked %d times and told of %q, want 11 times, %q", asked, told, tc.want)
				}
			})
		})
	}
}

// A request that gets no answer is given up, and the next one is sent.
func TestWatchGivesUpAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		asked := 0
		start := time.Now()
		Watch(ctx, func(ctx context.Context) (*apiversion.Info, error) {
			if asked++; asked == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &apiversion.Info{Major: "1", Minor: "36"}, nil
		}, func(error) {
			if took := time.Since(start); took != askEvery {
				t.Errorf("told after %v, want %v", took, askEvery)
			}
			cancel()
		})
		if asked != 2 {
			t.Errorf("asked %d times, want twice", asked)
		}
	})
}
