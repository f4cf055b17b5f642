package lifeline

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

func TestHold(t *testing.T) {
	cases := map[string]struct {
		// answers says at what second after the start the server answers.
		answers func(second int) bool
		// hangs has it be silent rather than refuse.
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
				err := Hold(ctx, func(ctx context.Context) error {
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

// A process that does not run loses no patience: when it goes on, it asks again.
func TestHoldCountsWhatItAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		asked := 0
		err := Hold(ctx, func(context.Context) error {
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

func TestVersionIsContentWithAnyAnswer(t *testing.T) {
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(code)
	}))
	ping, err := Version(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, code = range []int{http.StatusOK, http.StatusForbidden, http.StatusInternalServerError} {
		if err := ping(t.Context()); err != nil {
			t.Errorf("an answer of %d: %v", code, err)
		}
	}
	server.Close()
	if err := ping(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v of a server that is gone", err)
	}
}

func TestVersionTellsOfEachVersion(t *testing.T) {
	var answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	var told []string
	ping, err := Version(&rest.Config{Host: server.URL}, func(v version.Info) { told = append(told, v.Minor) })
	if err != nil {
		t.Fatal(err)
	}
	for _, answer = range []string{"not yet", `{"major":"1","minor":"37"}`, `{"major":"1","minor":"37"}`, `{"major":"1","minor":"38"}`} {
		if err := ping(t.Context()); err != nil {
			t.Errorf("an answer of %s: %v", answer, err)
		}
	}
	if want := []string{"37", "38"}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}
