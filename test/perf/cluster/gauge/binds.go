// Package gauge measures a run of a benchmark: when pods were bound,
// what the processes used, and which requests the API server received.
package gauge

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// listTimeout bounds the list at which a watch begins.
const listTimeout = time.Minute

// assigned selects pods that have a node, so that the
// watch delivers each pod first when it is bound.
const assigned = "spec.nodeName!="

// Binds are the times at which a watch delivered binds, or ends. Such a time is later than the bind by
// what the API server, the connection and this process need. That is milliseconds, but tenths of
// a second for one bind in a hundred while all CPUs are busy. No client learns of a bind sooner.
type Binds struct {
	mu       sync.Mutex
	at       map[string]time.Time // by the pod's name
	ends     bool                 // the watch is for the ends of bound pods in place of binds
	reopened int
	err      error
	more     chan struct{} // closed and replaced when at or err changes
}

// WatchBinds watches the pods of a namespace until ctx is done. None of them may be bound yet.
func WatchBinds(ctx context.Context, client kubernetes.Interface, namespace string) (*Binds, error) {
	return newBinds(ctx, client, namespace, false)
}

// WatchEnds watches the pods of a namespace until ctx is done, for the ends of bound pods in place of binds.
func WatchEnds(ctx context.Context, client kubernetes.Interface, namespace string) (*Binds, error) {
	return newBinds(ctx, client, namespace, true)
}

func newBinds(ctx context.Context, client kubernetes.Interface, namespace string, ends bool) (*Binds, error) {
	pods := client.CoreV1().Pods(namespace)
	listCtx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := pods.List(listCtx, metav1.ListOptions{FieldSelector: assigned})
	if err != nil {
		return nil, fmt.Errorf("list bound pods: %w", err)
	}
	if n := len(list.Items); n > 0 && !ends {
		return nil, fmt.Errorf("%d pods of namespace %s are bound already, such as %s", n, namespace, list.Items[0].Name)
	}
	b := &Binds{at: map[string]time.Time{}, ends: ends, more: make(chan struct{})}
	go b.follow(ctx, pods, list.ResourceVersion)
	return b, nil
}

// relist takes the pods that are bound now, and returns the version. No pod is missed:
// none is deleted before its bind was seen.
func (b *Binds) relist(ctx context.Context, pods corev1client.PodInterface) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: assigned})
	if err != nil {
		return "", fmt.Errorf("list bound pods: %w", err)
	}
	now := time.Now()
	b.change(func() {
		for i := range list.Items {
			b.see(list.Items[i].Name, now)
		}
	})
	return list.ResourceVersion, nil
}

// follow watches from a version on. It continues after a watch was broken off, which the API
// server does to a slow client. It lists the pods if the API server no longer has the version.
func (b *Binds) follow(ctx context.Context, pods corev1client.PodInterface, version string) {
	for ctx.Err() == nil {
		w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: assigned, ResourceVersion: version, AllowWatchBookmarks: true})
		if err == nil {
			version, err = b.read(w, version)
		}
		if !b.ends && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
			version, err = b.relist(ctx, pods)
		}
		if err != nil && ctx.Err() != nil {
			// A watch that is cut while it reads an event reports an error of the server.
			err = fmt.Errorf("watch pods: %w", ctx.Err())
		}
		b.change(func() {
			b.err = err
			b.reopened++
		})
		if err != nil {
			return
		}
	}
}

// read takes the events of a watch until it ends. It returns the version of the last event.
func (b *Binds) read(w watch.Interface, version string) (string, error) {
	defer w.Stop()
	for e := range w.ResultChan() {
		now := time.Now()
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			return version, fmt.Errorf("watch pods: %w", apierrors.FromObject(e.Object))
		}
		version = pod.ResourceVersion
		if of := !b.ends && (e.Type == watch.Added || e.Type == watch.Modified) || b.ends && e.Type == watch.Deleted; of {
			b.change(func() { b.see(pod.Name, now) })
		}
	}
	return version, nil
}

// see records that a pod is bound, unless that is known. It is called inside change.
func (b *Binds) see(name string, now time.Time) {
	if b.at[name].IsZero() {
		b.at[name] = now
	}
}

func (b *Binds) change(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
	close(b.more)
	b.more = make(chan struct{})
}

// Wait returns when enough returns true for the times seen so far, by the pod's name. enough
// must neither change nor keep the map. Wait fails if the watch fails or ctx is done before.
func (b *Binds) Wait(ctx context.Context, enough func(at map[string]time.Time) bool) error {
	for {
		b.mu.Lock()
		done, err, more := enough(b.at), b.err, b.more
		b.mu.Unlock()
		if done {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("wait for binds: %w", ctx.Err())
		}
	}
}

// Seen returns the times seen so far, by the pod's name.
func (b *Binds) Seen() map[string]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.at)
}

// View calls see with the times seen so far, by the pod's
// name. see must neither change nor keep the map.
func (b *Binds) View(see func(at map[string]time.Time)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	see(b.at)
}

// Err returns why the watch has ended. It returns nil while the watch goes on.
func (b *Binds) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Reopened returns how often the watch was broken
// off. Binds during such a gap were delivered late.
func (b *Binds) Reopened() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reopened
}
