// Command binder binds all pods of a namespace and does nothing else.
// The rate at which an API server accepts its binds is the upper limit
// for every scheduler. The command runs on when all pods are bound.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"
)

const (
	// listTimeout bounds the two lists, of nodes and of pods, together.
	listTimeout = time.Minute
	// callTimeout bounds one bind, and one event.
	callTimeout = 30 * time.Second
)

// A binder holds the options of the command and its client.
type binder struct {
	kubeconfig, namespace string
	// workers is the number of binds in flight.
	workers int
	// watches is the number of watches of all pods that are read meanwhile.
	watches int
	// events makes each worker write an event after a bind, as kube-scheduler does.
	events bool

	client kubernetes.Interface
}

func main() {
	b := &binder{}
	flag.StringVar(&b.kubeconfig, "kubeconfig", "", "path of the kubeconfig file")
	flag.StringVar(&b.namespace, "namespace", "", "namespace whose pods are bound")
	flag.IntVar(&b.workers, "workers", 32, "how many binds are in flight at a time")
	flag.IntVar(&b.watches, "watches", 0, "how many watches of all pods are read meanwhile")
	flag.BoolVar(&b.events, "events", false, "post an event after each bind")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "binder:", err)
		os.Exit(1)
	}
}

func (b *binder) run(ctx context.Context) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", b.kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	cfg.QPS = -1
	cfg.ContentType = runtime.ContentTypeProtobuf
	if b.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return fmt.Errorf("build a client: %w", err)
	}
	places, version, err := b.places(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for range b.watches {
		g.Go(func() error { return b.watch(gctx, version) })
	}
	g.Go(func() error {
		if err := b.bindAll(gctx, places); err != nil {
			return err
		}
		<-gctx.Done() // the watches still receive what it has bound
		return nil
	})
	if err := g.Wait(); ctx.Err() == nil {
		return err
	}
	return nil // it was asked to end
}

// places returns a node for each pod, and the resource version of the list of pods.
func (b *binder) places(ctx context.Context) ([]placed, string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	nodes, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list nodes: %w", err)
	}
	pods, err := b.client.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list pods: %w", err)
	}
	out, err := place(pods.Items, nodes.Items)
	return out, pods.ResourceVersion, err
}

// watch reads all changes of pods after a version, and ignores them.
func (b *binder) watch(ctx context.Context, version string) error {
	pods := b.client.CoreV1().Pods(metav1.NamespaceAll)
	// The API server ends watches that are too slow.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return fmt.Errorf("watch pods: %v", e.Object)
		}
	}
	return errors.New("the watch of pods has ended")
}

// bindAll binds pods in the given order.
func (b *binder) bindAll(ctx context.Context, places []placed) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(b.workers)
	for _, p := range places {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error { return b.bind(gctx, p) })
	}
	return g.Wait()
}

func (b *binder) bind(ctx context.Context, p placed) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.pod.Namespace, Name: p.pod.Name, UID: p.pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: p.node},
	}
	if err := b.client.CoreV1().Pods(p.pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind pod %s: %w", p.pod.Name, err)
	}
	if !b.events {
		return nil
	}
	if _, err := b.client.EventsV1().Events(p.pod.Namespace).Create(ctx, scheduled(p, time.Now()), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("post the event of pod %s: %w", p.pod.Name, err)
	}
	return nil
}
