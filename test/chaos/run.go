package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/flux-k8s/fluence/test/invariants"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	// callTimeout bounds one request of the generator.
	callTimeout = 20 * time.Second
	// giveUp bounds all attempts at one request. It is longer than any outage.
	giveUp     = 3 * time.Minute
	retryEvery = 200 * time.Millisecond
)

// a run is a plan that is being carried out.
type run struct {
	cfg     Config
	stack   *stack.Stack
	client  kubernetes.Interface
	dynamic dynamic.Interface
	view    *view
	checker *invariants.Checker
	keeper  *keeper
	tally   *tally

	lane       chan struct{} // held by an event that disturbs the processes, one at a time
	background sync.WaitGroup
	history    history
	stats      stats

	mu      sync.Mutex
	live    []*group
	serial  int
	foreign []foreignPod
	bursts  int // how many run now
	failed  error
	leaks   int
}

// a group is a workload that was created and is not deleted yet.
type group struct {
	Workload
	ns, object string
	extra      int // the number of bare pods that were created again
}

// carryOut carries out a plan. It returns when the last
// event was begun and all work in the background has ended.
func (r *run) carryOut(ctx context.Context, plan Plan) error {
	limit := rate.NewLimiter(rate.Limit(r.cfg.Rate), 1)
	begin := time.Now()
	for _, e := range plan {
		if _, kills := e.Do.(kill); !kills {
			if err := limit.Wait(ctx); err != nil {
				return fmt.Errorf("wait for the next event: %w", err)
			}
		}
		r.history.add(e)
		r.stats.event(e)
		if err := e.Do.do(ctx, r); err != nil && !r.moot(err) {
			return fmt.Errorf("event %v: %w", e, err)
		}
		if err := r.failure(); err != nil {
			return err
		}
	}
	r.stats.took = time.Since(begin)
	r.background.Wait()
	return r.failure()
}

// fail ends the run, because the generator itself cannot continue.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = errors.Join(r.failed, err)
}

func (r *run) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// moot reports whether an event had no effect because of other changes
// meanwhile: its object is gone, exists already, or was changed.
func (r *run) moot(err error) bool {
	for _, is := range []func(error) bool{apierrors.IsNotFound, apierrors.IsAlreadyExists, apierrors.IsConflict, apierrors.IsInvalid, apierrors.IsForbidden} {
		if is(err) {
			r.stats.moot.Add(1)
			return true
		}
	}
	return false
}

// try repeats a request until the API server has answered it.
func (r *run) try(ctx context.Context, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		last = request(ctx)
		return answered(last), nil
	})
	if err != nil {
		return fmt.Errorf("no answer from the API server: %w (%w)", err, last)
	}
	return last
}

// answered reports whether the API server has answered the request, with an error or without.
func answered(err error) bool {
	var status apierrors.APIStatus
	if err == nil {
		return true
	}
	if !errors.As(err, &status) {
		return false
	}
	code := int(status.Status().Code)
	return code != 0 && code < http.StatusInternalServerError && code != http.StatusTooManyRequests
}

// begin takes the lane and does something in the background. Until
// the lane is free the caller waits, and no further event happens.
func (r *run) begin(ctx context.Context, what func(context.Context) error) error {
	select {
	case r.lane <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.background.Go(func() {
		defer func() {
			r.history.add(note("undisturbed again"))
			<-r.lane
		}()
		if err := what(ctx); err != nil {
			r.fail(err)
		}
	})
	return nil
}

// a note is a line of the history that is not an event.
type note string

func (n note) String() string { return "-- " + string(n) }

// pause waits for a while, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
