package fluence

import (
	"context"
	"errors"
	"fmt"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/objects"
)

// profile is the name of the scheduler of the tests' pods, and ns is their namespace.
const (
	profile = objects.Scheduler
	ns      = objects.Namespace
)

func TestMain(m *testing.M) {
	// A watch of the fake API panics if too many changes are unread,
	// as in a burst of binds that takes no time in a bubble.
	watch.DefaultChanSize = 10_000
	// Errors that no code handles are logged. The delay between such errors
	// is left out, because the times of different bubbles cannot be compared.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}

// rig is a whole kube-scheduler with the plugin and the shipped
// configuration, in a bubble with a fake clock. The test controls the API
// server and the matcher. Nothing is scheduled until schedule is called.
type rig struct {
	*testing.T
	ctx      context.Context
	pl       *Fluence
	fwk      schedulerframework.Framework
	sched    *scheduler.Scheduler
	snapshot *internalcache.Snapshot

	client      *fake.Clientset
	podGroupAPI *podGroupAPI
	native      *nativeAPI
	owners      *ownerAPI
	queues      *queueAPI
	binds       *bindAPI
	podAPI      *podAPI
	recorder    *recorder
	failures    failures
	matcherFake *matchtest.Fake
	matcher     *matcher
	standby     atomic.Bool
	logging     *ktesting.Config

	// reported are the groups of which anything was reported.
	// beforeReport, unless it is nil, is called before each report.
	mu           sync.Mutex
	reported     map[types.NamespacedName]bool
	beforeReport atomic.Pointer[func()]
}

// watchReports makes the rig record what is reported.
func (r *rig) watchReports() {
	whole := r.pl.reporter.Exclusive
	r.reported = map[types.NamespacedName]bool{}
	r.pl.reporter.Exclusive = func(k types.NamespacedName) (bool, string, uint64) {
		r.mu.Lock()
		r.reported[k] = true
		r.mu.Unlock()
		if before := r.beforeReport.Load(); before != nil {
			(*before)()
		}
		return whole(k)
	}
}

// matcher is a Fake that can be pinged.
type matcher struct {
	*matchtest.Fake

	// hangs makes pings wait until their caller has gone.
	hangs atomic.Bool

	mu   sync.Mutex
	says error
}

func (m *matcher) Ping(ctx context.Context) error {
	if m.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.says
}

// silence makes pings fail or succeed.
func (m *matcher) silence(down bool) {
	if down {
		m.answer(fmt.Errorf("%w: down", match.ErrUnavailable))
	} else {
		m.answer(nil)
	}
}

// answer makes pings return this error.
func (m *matcher) answer(says error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.says = says
}

// inRig runs test in a rig with an empty cluster and a matcher whose graph
// is loaded. The matcher answers from the engine behind it or, without one,
// from its script. The plugins in more run after the plugins of the profile.
// Nobody is evicted, unless the test sets the mode.
func inRig(t *testing.T, behind match.Engine, test func(*rig), more ...fwk.Plugin) {
	t.Helper()
	inRigOf(t, behind, func(*rig) {}, test, more...)
}

// inRigOf is inRig with what exists before the scheduler starts.
func inRigOf(t *testing.T, behind match.Engine, before, test func(*rig), more ...fwk.Plugin) {
	t.Helper()
	// The scheduler asks for this signal. The first caller starts
	// a goroutine that never ends and that may not be in a bubble.
	ossignal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)
	// As the program has it.
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.NominatedNodeNameForExpectation, false)
	synctest.Test(t, func(t *testing.T) {
		engine := matchtest.NewFake()
		if behind != nil {
			engine = matchtest.Spy(behind)
		}
		r := &rig{T: t, matcherFake: engine, matcher: &matcher{Fake: engine}, recorder: &recorder{}, podGroupAPI: newPodGroupAPI(), native: newNativeAPI(), owners: newOwnerAPI(), queues: newQueueAPI(), logging: ktesting.NewConfig(ktesting.BufferLogs(true))}
		r.binds, r.podAPI = &bindAPI{rig: r}, &podAPI{rig: r}
		logger := ktesting.NewLogger(t, r.logging)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		r.ctx = ctx
		informers, stopMetrics := r.start(more)
		r.pl.args.Preemption.Mode = PreemptionNever
		before(r)
		defer func() {
			cancel()
			informers.Shutdown()
			// A cycle may be in a plugin that takes long.
			time.Sleep(time.Second)
			synctest.Wait()
		}()
		informers.Start(ctx.Done())
		informers.WaitForCacheSync(ctx.Done())
		if err := r.sched.WaitForHandlersSync(ctx); err != nil {
			t.Fatal(err)
		}
		// For its own metrics the scheduler would look into empty buffers 4,000 times a second.
		stopMetrics()
		r.pass(time.Second)
		if why := r.pl.whyNotReady(); why != "" {
			t.Fatalf("the plugin is not ready: %s", why)
		}
		before := drifts()
		test(r)
		if n := drifts() - before; n > 0 {
			t.Errorf("%v differences between matcher and cluster, want none", n)
		}
	})
}

// pass lets time pass, and then waits until all goroutines are idle.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// start builds the scheduler.
func (r *rig) start(more []fwk.Plugin) (factory informers.SharedInformerFactory, stopMetrics func()) {
	r.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "scheduler-config.yaml"))
	r.must(err)
	obj, _, err := configscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	r.must(err)
	r.client = newClient(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: ns, Labels: map[string]string{group.WholeNodesLabel: group.WholeNodesAllowed},
	}})
	factory = informers.NewSharedInformerFactory(r.client, 0)
	r.snapshot = internalcache.NewEmptySnapshot()
	registry := frameworkruntime.Registry{}
	plugin := Factory(func(context.Context, *Args) (Matcher, error) { return r.matcher, nil }, func() bool { return !r.standby.Load() }, ProcessIdentity{Name: "me", Version: "v1"})
	r.must(registry.Register(Name, func(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return plugin(r.ctx, args, h)
	}))
	profiles := obj.(*config.KubeSchedulerConfiguration).Profiles
	for _, p := range more {
		r.must(registry.Register(p.Name(), func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }))
		enabled := &profiles[0].Plugins.MultiPoint.Enabled
		*enabled = append(*enabled, config.Plugin{Name: p.Name()})
	}
	ctx, stopMetrics := context.WithCancel(r.ctx)
	r.sched, err = scheduler.New(ctx, r.client, factory, nil,
		func(string) events.EventRecorderLogger { return r.recorder },
		scheduler.WithKubeConfig(&rest.Config{Host: "http://api.test", Transport: transport{podGroups: r.podGroupAPI, native: r.native, owners: r.owners, binds: r.binds, pods: r.podAPI, queues: r.queues}}),
		scheduler.WithProfiles(profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
		scheduler.WithNodeInfoSnapshot(r.snapshot))
	r.must(err)
	r.failures.wrap(r.sched)
	r.must(Attach(r.sched))
	r.fwk = r.sched.Profiles[profile]
	for _, p := range r.fwk.PreEnqueuePlugins() {
		if pl, ok := p.(*Fluence); ok {
			r.pl = pl
		}
	}
	r.watchReports()
	return factory, stopMetrics
}

// newClient returns a fake API with some objects. Only of ConfigMaps it knows who manages which fields,
// and it knows no other kind for that: it lists all the kinds that it knows for each write.
func newClient(objects ...runtime.Object) *fake.Clientset {
	client, scheme := fake.NewSimpleClientset(objects...), runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	managed := clienttesting.NewFieldManagedObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder(), applyconfigurations.NewTypeConverter(scheme))
	client.PrependReactor("*", "configmaps", clienttesting.ObjectReaction(managed))
	// Who writes why a pod waits names the version of the pod that it has read, which had no node. The
	// versions of this API stay as they are, so it refuses to write it to a pod that has a node by now.
	client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.(clienttesting.PatchAction).GetName()
		obj, err := client.Tracker().Get(a.GetResource(), a.GetNamespace(), name)
		if pod, ok := obj.(*corev1.Pod); err == nil && ok && pod.Spec.NodeName != "" && a.GetSubresource() == "status" {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), name, errors.New("it has a node"))
		}
		return false, nil, nil
	})
	client.PrependWatchReactor("configmaps", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := managed.Watch(a.GetResource(), a.GetNamespace())
		return true, w, err
	})
	return client
}

// quiet makes long stories cheap: the rig logs errors only, unless the tests run with -v.
func (r *rig) quiet() {
	if !testing.Verbose() {
		r.must(r.logging.Verbosity().Set("0"))
	}
}

// forget forgets what the test's parts have recorded so far, which a long story does not ask for.
func (r *rig) forget() {
	r.client.ClearActions()
	r.matcherFake.Forget()
	r.recorder.forget()
	r.binds.forget()
	r.podGroupAPI.forget()
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.reported)
}

// schedule starts the scheduling loop, which runs until the test ends.
func (r *rig) schedule() {
	go r.sched.Run(r.ctx)
	synctest.Wait()
}

// preFilter runs the first step of a scheduling cycle for a pod in its present state.
func (r *rig) preFilter(pod *corev1.Pod) (fwk.CycleState, *fwk.PreFilterResult, *fwk.Status) {
	r.Helper()
	r.must(r.sched.Cache.UpdateSnapshot(klog.FromContext(r.ctx), r.snapshot))
	state := schedulerframework.NewCycleState()
	result, status, _ := r.fwk.RunPreFilterPlugins(r.ctx, state, pod)
	r.pass(0) // so that the siblings are in the queue
	return state, result, status
}

// matches returns the requests that the matcher got.
func (r *rig) matches() []match.Request {
	var all []match.Request
	for _, c := range r.matcherFake.Calls(matchtest.Match) {
		all = append(all, c.Request)
	}
	return all
}

// assigned returns the nodes of the pods that have one.
func (r *rig) assigned() map[string]string {
	r.Helper()
	list, err := r.client.CoreV1().Pods(metav1.NamespaceAll).List(r.ctx, metav1.ListOptions{})
	r.must(err)
	nodes := map[string]string{}
	for _, p := range list.Items {
		if p.Spec.NodeName != "" {
			nodes[p.Name] = p.Spec.NodeName
		}
	}
	return nodes
}

// logged returns what was logged so far at a verbosity
// or a lower one, line by line, without the header.
func (r *rig) logged(verbosity int) string {
	r.Helper()
	sink, ok := klog.FromContext(r.ctx).GetSink().(ktesting.Underlier)
	if !ok {
		r.Fatal("the log is not kept")
	}
	var b strings.Builder
	for _, e := range sink.GetBuffer().Data() {
		if e.Verbosity > verbosity {
			continue
		}
		fmt.Fprintf(&b, "%q", e.Message)
		for i, kv := range slices.Concat(e.WithKVList, e.ParameterKVList) {
			if i%2 == 0 {
				fmt.Fprintf(&b, " %v=", kv)
			} else {
				fmt.Fprintf(&b, "%q", fmt.Sprint(kv))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// loseGraph makes the matcher lose its graph, as a restart does.
func (r *rig) loseGraph() {
	r.matcherFake.FailNext(matchtest.Update, match.ErrStale)
	r.pl.inventory.Resync()
}

// wantHeld fails the test unless PreEnqueue holds a pod with this message.
func (r *rig) wantHeld(pod *corev1.Pod, why string) {
	r.Helper()
	if got := r.preEnqueueMessage(pod); got != why {
		r.Errorf("PreEnqueue of %s: %q, want it held: %q", pod.Name, got, why)
	}
}

// wantPasses fails the test unless PreEnqueue lets a pod pass.
func (r *rig) wantPasses(pod *corev1.Pod) {
	r.Helper()
	if got := r.preEnqueueMessage(pod); got != "" {
		r.Errorf("PreEnqueue of %s: %q, want it to pass", pod.Name, got)
	}
}
