package invariants

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// A checker that cannot look must report an error, not success.
func TestAKindThatCannotBeWatched(t *testing.T) {
	unknown := apierrors.NewNotFound(schema.GroupResource{Resource: "podgroups"}, "")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "podgroups"}, "", nil)
	cases := map[string]struct {
		refusal error
		// from and until are when the outage begins and ends; until is 0 if it never ends. after is
		// the time of the check.
		from, until, after time.Duration
		wantErr            error
	}{
		"unknown for ever":                           {refusal: unknown, after: longestDeaf + time.Second, wantErr: errUnknown},
		"forbidden for ever":                         {refusal: forbidden, after: longestDeaf + time.Second, wantErr: forbidden},
		"unknown for a while":                        {refusal: unknown, until: longestDeaf - time.Second, after: time.Hour},
		"no longer than an outage is":                {refusal: forbidden, after: longestDeaf - time.Second},
		"an hour later, no longer than an outage is": {refusal: forbidden, from: time.Hour, after: time.Hour + longestDeaf - time.Second},
		"an hour later, for ever": {
			refusal: forbidden, from: time.Hour, after: time.Hour + longestDeaf + time.Second, wantErr: forbidden,
		},
		"for too long, and then no more": {
			refusal: forbidden, until: longestDeaf + time.Minute, after: time.Hour, wantErr: forbidden,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Checker{judge: newJudge(Config{})}
				begin := time.Now()
				refused := func() error {
					if now := time.Since(begin); now < tc.from || tc.until > 0 && now >= tc.until {
						return nil
					}
					return tc.refusal
				}
				s := &source{
					what: "podgroups",
					list: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
						return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, refused()
					},
					watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
						w := watch.NewFake()
						context.AfterFunc(ctx, w.Stop)
						if now := time.Since(begin); now < tc.from {
							time.AfterFunc(tc.from-now, w.Stop)
						}
						return w, refused()
					},
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go c.follow(ctx, s)
				time.Sleep(tc.after)
				synctest.Wait()
				c.mu.Lock()
				defer c.mu.Unlock()
				if !errors.Is(c.failed, tc.wantErr) {
					t.Errorf("after %v the checker failed: %v, want %v", tc.after, c.failed, tc.wantErr)
				}
			})
		})
	}
}
