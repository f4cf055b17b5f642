package podgroup_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/objects"
)

// serviceAccount is the user that manifests/rbac gives its rights to.
const serviceAccount = "system:serviceaccount:fluence-system:fluence-controller"

// patience bounds every wait for the cluster. A Job that has
// lost three pods creates their replacements after 40 s.
const patience = 2 * time.Minute

// shared is the control plane of all tests of the package. The first test that needs it starts it.
var shared struct {
	once sync.Once
	*cluster.Cluster
	err error
}

func TestMain(m *testing.M) {
	log.SetLogger(klog.New(nil))
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the cluster:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// stopShared stops the control plane if a test has started it.
func stopShared() error {
	if shared.Cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return shared.Stop(ctx)
}

// env is a namespace with a controller for the scheduler
// of the same name, so that tests do not see each other.
type env struct {
	*testing.T
	ctx    context.Context
	client client.WithWatch
	// cache is the cache of the controller.
	cache client.Reader
	// ns is the name of the namespace and of the scheduler.
	ns string
}

// newEnv starts a controller. It runs with the rights of manifests/rbac until the test ends.
func newEnv(t *testing.T, edit func(*podgroup.Config)) *env {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
		defer cancel()
		if shared.Cluster, shared.err = cluster.Start(ctx, cluster.Config{Nodes: cluster.Nodes{Count: 2}, Log: os.Stderr}); shared.err != nil {
			return
		}
		if _, _, shared.err = shared.Kubectl(ctx, "apply", "-f", "../../../manifests/rbac", "-f", "../../../manifests/crds", "-f", "testdata/crds.yaml"); shared.err != nil {
			return
		}
		shared.err = shared.WaitCRDs(ctx)
	})
	if shared.err != nil {
		t.Fatalf("start the cluster: %v", shared.err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, scheduling.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	t.Cleanup(cancel)
	c, err := client.NewWithWatch(shared.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, ctx: ctx, client: c}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pg-"}}
	e.create(ns)
	e.ns = ns.Name
	e.run(scheme, edit)
	return e
}

// run runs the controller.
func (e *env) run(scheme *runtime.Scheme, edit func(*podgroup.Config)) {
	e.Helper()
	rc, err := shared.RESTConfigFor(serviceAccount, "system:serviceaccounts", "system:serviceaccounts:fluence-system")
	if err != nil {
		e.Fatal(err)
	}
	if err := podgroup.LimitClient(rc); err != nil {
		e.Fatal(err)
	}
	cfg := podgroup.DefaultConfig()
	cfg.SchedulerName, cfg.FirstStatusDelay = e.ns, time.Second
	if edit != nil {
		edit(&cfg)
	}
	logger := ktesting.NewLogger(e.T, ktesting.NewConfig(ktesting.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme:     scheme,
		Logger:     logger,
		Cache:      podgroup.CacheOptions(cfg),
		Client:     client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		e.Fatal(err)
	}
	if err := podgroup.AddToManager(ctx, mgr, cfg); err != nil {
		e.Fatal(err)
	}
	e.cache = mgr.GetCache()
	done := make(chan error)
	go func() { done <- mgr.Start(ctx) }()
	e.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			e.Errorf("the controller ended with %v", err)
		}
	})
}

func (e *env) create(obj client.Object) {
	e.Helper()
	if err := e.client.Create(e.ctx, obj); err != nil {
		e.Fatalf("create %T: %v", obj, err)
	}
}

func (e *env) delete(obj client.Object) {
	e.Helper()
	if err := e.client.Delete(e.ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground), client.GracePeriodSeconds(0)); err != nil {
		e.Fatalf("delete %T: %v", obj, err)
	}
}

// until watches a PodGroup, which need not exist, until ok
// returns true. ok gets nil when the PodGroup is removed.
func (e *env) until(name, what string, ok func(*scheduling.PodGroup) bool) *scheduling.PodGroup {
	e.Helper()
	return e.untilSince("", name, what, ok)
}

// untilSince is until for changes after a resource version.
func (e *env) untilSince(version, name, what string, ok func(*scheduling.PodGroup) bool) *scheduling.PodGroup {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	w, err := e.client.Watch(ctx, &scheduling.PodGroupList{}, client.InNamespace(e.ns), client.MatchingFields{"metadata.name": name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		e.Fatalf("watch pod group %s: %v", name, err)
	}
	defer w.Stop()
	var last *scheduling.PodGroup
	for ev := range w.ResultChan() {
		switch pg, is := ev.Object.(*scheduling.PodGroup); {
		case !is:
			e.Fatalf("watch pod group %s: %v", name, apierrors.FromObject(ev.Object))
		case ev.Type == watch.Deleted:
			last = nil
		default:
			last = pg
		}
		if ok(last) {
			return last
		}
	}
	e.Fatalf("pod group %s: waited in vain until %s; last seen: %+v", name, what, last)
	return nil
}

func (e *env) untilGone(name string) {
	e.Helper()
	var pg scheduling.PodGroup
	if e.client.Get(e.ctx, client.ObjectKey{Namespace: e.ns, Name: name}, &pg) == nil {
		e.untilSince(pg.ResourceVersion, name, "it is gone", func(pg *scheduling.PodGroup) bool { return pg == nil })
	}
}

// untilPhase waits until the controller has written a phase. The creation time tells it from the default.
func (e *env) untilPhase(name string, phase scheduling.PodGroupPhase) *scheduling.PodGroup {
	e.Helper()
	return e.until(name, "it is "+string(phase), func(pg *scheduling.PodGroup) bool {
		return pg != nil && pg.Status.Phase == phase && pg.Status.CreationTime != nil
	})
}

// pod creates a pod that asks for the scheduler of the test.
func (e *env) pod(name string, labels map[string]string) *corev1.Pod {
	e.Helper()
	pod := objects.Pod(name, objects.In(e.ns), objects.Asking(), func(p *corev1.Pod) { p.Labels, p.Spec.SchedulerName = labels, e.ns })
	e.create(pod)
	return pod
}

// bind binds pods to nodes as a scheduler does.
func (e *env) bind(pods ...*corev1.Pod) {
	e.Helper()
	for _, pod := range pods {
		err := shared.Client().CoreV1().Pods(pod.Namespace).Bind(e.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "node-0000"},
		}, metav1.CreateOptions{})
		if err != nil {
			e.Fatalf("bind pod %s: %v", pod.Name, err)
		}
	}
}

// writes counts the controller's writes to PodGroups of the test's
// namespace, and returns how long they took from the first to the last.
func (e *env) writes() (n int, took time.Duration, story string) {
	e.Helper()
	var b strings.Builder
	var first time.Time
	for ev, err := range shared.AuditEvents() {
		if err != nil {
			e.Fatal(err)
		}
		if r := ev.ObjectRef; r == nil || r.Resource != scheduling.PodGroups.Resource || r.Namespace != e.ns || ev.User.Username != serviceAccount {
			continue
		}
		switch ev.Verb {
		case "create", "update", "patch", "delete":
			if n == 0 {
				first = ev.Answered
			}
			n, took = n+1, ev.Answered.Sub(first)
			fmt.Fprintf(&b, "%s %s %s: %d\n", ev.Answered.Format("05.000"), ev.Verb, ev.RequestURI, ev.ResponseStatus.Code)
		}
	}
	return n, took, b.String()
}

// fewWrites fails if the controller wrote more often than changes times, and
// once more in each period: numbers are written once a period at most.
func (e *env) fewWrites(changes int, period time.Duration) {
	e.Helper()
	if n, took, story := e.writes(); n > changes+int(took/period) {
		e.Errorf("%d writes in %s, want %d and at most one of numbers in each %s:\n%s", n, took, changes, period, story)
	}
}

// event waits until an event with this reason was sent about an object, and returns its text.
func (e *env) event(kind, name, reason string) string {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	w, err := e.client.Watch(ctx, &corev1.EventList{}, client.InNamespace(e.ns), client.MatchingFields{
		"involvedObject.kind": kind, "involvedObject.name": name, "reason": reason,
	})
	if err != nil {
		e.Fatalf("watch events: %v", err)
	}
	defer w.Stop()
	for ev := range w.ResultChan() {
		if got, is := ev.Object.(*corev1.Event); is {
			if got.ReportingController != podgroup.FieldManager {
				e.Errorf("event %s is reported by %q", reason, got.ReportingController)
			}
			return got.Message
		}
	}
	e.Fatalf("no event %s about %s %s", reason, kind, name)
	return ""
}
