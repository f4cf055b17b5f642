package chaos

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// beat is the time between two requests by which the API server's pulse is felt.
	beat = 100 * time.Millisecond
	// slow is how long an answer may take. One that takes longer is a fault of the
	// machine, which has too much to do: nobody hears in time of what happens.
	slow = 250 * time.Millisecond
)

// pulse excuses the times in which the API server takes long to answer, until ctx is
// done.
func (r *run) pulse(ctx context.Context) {
	for ctx.Err() == nil {
		r.feel(ctx)
		pause(ctx, beat)
	}
}

// feel makes one request.
func (r *run) feel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	begin, answered := time.Now(), make(chan struct{})
	go func() {
		defer close(answered)
		// Whether it succeeds is of no interest here.
		_, _ = r.client.CoreV1().Namespaces().Get(ctx, foreignNamespace, metav1.GetOptions{})
	}()
	late := time.NewTimer(slow)
	defer late.Stop()
	select {
	case <-answered:
	case <-late.C:
		end := r.checker.Excuse("the API server is slow")
		<-answered
		end()
		r.stats.slow(time.Since(begin))
	}
}
