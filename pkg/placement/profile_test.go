package placement

import (
	"context"
	"os"
	ossignal "os/signal"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	defaultconfig "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// A profile is a placer over kube-scheduler's default plugins.
type profile struct {
	*testing.T
	*Placer
	ctx   context.Context
	nodes []fwk.NodeInfo
}

// inProfile runs test in a synctest bubble: over kube-scheduler's default plugins
// with more plugins after them, in a cluster of these nodes and pods.
func inProfile(t *testing.T, nodes []*corev1.Node, pods []*corev1.Pod, test func(*profile), more ...fwk.Plugin) {
	t.Helper()
	// The scheduler asks for this signal. The first call of Notify starts a goroutine
	// that never ends, and that must not be in the bubble.
	ossignal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		defer func() {
			cancel()
			synctest.Wait()
		}()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		defaults, err := defaultconfig.Default()
		must(err)
		registry := frameworkruntime.Registry{}
		for _, p := range more {
			must(registry.Register(p.Name(), func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }))
			enabled := &defaults.Profiles[0].Plugins.MultiPoint.Enabled
			*enabled = append(*enabled, config.Plugin{Name: p.Name()})
		}
		client, snapshot := fake.NewClientset(), internalcache.NewSnapshot(pods, nodes)
		sched, err := scheduler.New(ctx, client, informers.NewSharedInformerFactory(client, 0), nil,
			func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
			scheduler.WithProfiles(defaults.Profiles...),
			scheduler.WithFrameworkOutOfTreeRegistry(registry),
			scheduler.WithNodeInfoSnapshot(snapshot))
		must(err)
		f := sched.Profiles[defaults.Profiles[0].SchedulerName]
		p := &profile{T: t, ctx: ctx, Placer: NewPlacer(Config{Handle: f, PreFilters: f.(PreFilters), Now: time.Now})}
		var filters []string
		for _, enabled := range f.ListPlugins().Filter.Enabled {
			filters = append(filters, enabled.Name)
		}
		p.SetFilters(append(filters, PluginName))
		p.nodes, err = snapshot.NodeInfos().List()
		must(err)
		test(p)
	})
}
