package chaos

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// beat is the pause between two requests that measure how fast the API server answers.
	beat = 100 * time.Millisecond
	// slow is the longest time of a normal answer. A longer time is a fault of the
	// machine, which has too much to do, so that nobody hears of changes in time.
	slow = 250 * time.Millisecond
)

// pulse excuses the times in which the API server answers slowly, until ctx is done.
func (r *run) pulse(ctx context.Context) {
	for ctx.Err() == nil {
		r.feel(ctx)
		pause(ctx, beat)
	}
}

// feel makes one request. It begins an excuse if the answer is slow.
func (r *run) feel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	begin, answered := time.Now(), make(chan struct{})
	go func() {
		defer close(answered)
		// Success does not matter here.
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
