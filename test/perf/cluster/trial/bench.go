package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/process"
	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
	"github.com/flux-k8s/fluence/test/perf/cluster/gauge"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
	"github.com/flux-k8s/fluence/test/stack"
)

// namespace is the namespace of the pods.
const namespace = "bench"

// preparation bounds the preparation of a run. For 20,000 pods it takes minutes on two cores.
const preparation = 10 * time.Minute

// processes are the components of the control plane, by their names in figures.
var processes = map[string]string{
	"etcd":              cluster.Etcd,
	contender.APIServer: cluster.KubeAPIServer,
	"kcm":               cluster.KubeControllerManager,
	"kwok":              cluster.Kwok,
}

// Timing is how long a run waits for rest.
type Timing struct {
	// Before defines quiet before the contender's start. After defines it after the last bind.
	Before, After gauge.Calm
	// Patience bounds the wait for either.
	Patience time.Duration
}

// DefaultTiming returns the timing for a number of nodes. The nodes'
// leases alone keep the API server busy for some percent. A contender that
// still writes now and then, for example deferred events, is not quiet.
func DefaultTiming(nodes int) Timing {
	share := 0.1 + 0.05*float64(nodes)/1000
	const own = 0.02
	return Timing{
		Before: gauge.Calm{Share: share, For: 3 * time.Second},
		After: gauge.Calm{Share: share, For: 5 * time.Second, Shares: map[string]float64{
			contender.Scheduler: own, contender.Sidecar: own, contender.Controller: own, contender.Binder: own,
		}},
		Patience: 3 * time.Minute,
	}
}

// Config is how a Bench makes its runs.
type Config struct {
	// Args override the chart's arguments of the plugin Fluence.
	Args   map[string]any
	Timing Timing
	// Profiles is a folder for CPU and heap profiles of the API server and of schedulers. If it is
	// not empty, they are profiled from the contender's start until all processes are quiet.
	// That costs CPU time. A stream is profiled with the search before it.
	Profiles string
	// Log receives progress for a human reader.
	Log io.Writer
}

// A Bench makes runs on one cluster, one after the other.
type Bench struct {
	Config
	stand  *contender.Stand
	store  *backlog.Store
	client kubernetes.Interface
	// runs is the number of runs begun.
	runs int
	// room are the names of the nodes that a run has added.
	room []string
	// highest are the highest rates at which the backlog does
	// not grow, in gangs a second, by the contender's name.
	highest map[string]float64
}

// NewBench prepares a cluster for runs.
func NewBench(ctx context.Context, c *cluster.Cluster, cfg Config) (*Bench, error) {
	stand, err := contender.NewStand(ctx, c, contender.Config{Args: cfg.Args, Profiling: cfg.Profiles != "", Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	store, err := backlog.NewStore(ctx, c.RESTConfig(), namespace)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(c.RESTConfig())
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build a client: %w", err)
	}
	return &Bench{Config: cfg, stand: stand, store: store, client: client, highest: map[string]float64{}}, nil
}

// Run makes one run. A contender that ends by itself,
// or is late, is no error. The figures report it.
func (b *Bench) Run(ctx context.Context, plan Plan) (report.Figures, error) {
	b.runs++
	if err := b.prepare(ctx, plan); err != nil {
		return report.Figures{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	binds, err := gauge.WatchBinds(ctx, b.client, namespace)
	if err != nil {
		return report.Figures{}, err
	}
	m := newMeasured(plan, b.controlPlane())
	if err := b.begin(ctx, m, binds); err != nil {
		return report.Figures{}, err
	}
	running, err := b.stand.Start(ctx, plan.Contender, namespace)
	if err != nil {
		return report.Figures{}, err
	}
	defer contender.Stop(context.WithoutCancel(ctx), running)
	m.contender = readable(running)
	peaks := gauge.WatchPeaks(ctx, m.contender)
	endProfiles, err := b.profile(ctx, plan.Contender.Name, running)
	if err != nil {
		return report.Figures{}, err
	}

	m.outcome, m.why, err = follow(ctx, plan.Limit, running, func(ctx context.Context) error { return b.course(ctx, m, binds) })
	if err != nil {
		return report.Figures{}, err
	}
	m.atEnd = gauge.Read(m.processes())
	m.end, m.reopened = time.Now(), binds.Reopened()-m.reopenedBefore
	m.binds = m.counted(binds.Seen())
	if err := b.rest(ctx, m); err != nil {
		return report.Figures{}, err
	}
	m.peaks = peaks.Bytes()
	after, err := b.requests(ctx)
	if err != nil {
		return report.Figures{}, err
	}
	m.requests = after.Since(m.requestsBefore)
	if err := endProfiles(); err != nil {
		fmt.Fprintf(b.Log, "%s: %v\n", plan.Contender.Name, err)
	}
	return m.figures(), nil
}

// prepare creates the backlog in a clean namespace, and waits for rest.
func (b *Bench) prepare(ctx context.Context, plan Plan) error {
	ctx, cancel := context.WithTimeout(ctx, preparation)
	defer cancel()
	if err := b.store.Clear(ctx); err != nil {
		return err
	}
	if err := b.fill(ctx, plan); err != nil {
		return err
	}
	if err := b.store.ClearLeases(ctx, stack.Namespace); err != nil {
		return err
	}
	if err := b.stand.Compact(ctx); err != nil {
		return err
	}
	if err := b.store.Make(ctx, plan.Contender.Scheduler(), plan.CPU, plan.backlog()...); err != nil {
		return err
	}
	if err := b.collectGarbage(ctx); err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, b.Timing.Patience)
	defer cancel()
	if _, err := b.Timing.Before.Wait(ctx, b.controlPlane()); err != nil {
		return fmt.Errorf("before %s is started: %w", plan.Contender.Name, err)
	}
	return nil
}

// collectGarbage makes the API server collect its garbage, through a read of its heap
// profile. After the creation of the backlog a collection takes a CPU for a second or more.
// Otherwise it would be chance whether a collection coincides with a contender's start.
func (b *Bench) collectGarbage(ctx context.Context) error {
	profile := b.client.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1")
	if _, err := profile.DoRaw(ctx); err != nil {
		return fmt.Errorf("have the API server collect its garbage: %w", err)
	}
	return nil
}

// rest waits until all processes are quiet, if all pods are
// bound. It reads what the processes have used until then.
func (b *Bench) rest(ctx context.Context, m *measured) error {
	all := m.processes()
	if m.outcome != report.AllBound {
		m.after = gauge.Read(all)
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, b.Timing.Patience)
	defer cancel()
	var err error
	if m.after, err = b.Timing.After.Wait(waiting, all); err == nil {
		m.quiet = true
		return nil
	}
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	fmt.Fprintf(b.Log, "%s: %v\n", m.plan.Contender.Name, err)
	return nil
}

func (b *Bench) requests(ctx context.Context) (gauge.Requests, error) {
	return gauge.ReadRequests(ctx, b.client.CoreV1().RESTClient())
}

// controlPlane returns the processes that work for
// every contender, including the process that measures.
func (b *Bench) controlPlane() map[string]gauge.Process {
	out := map[string]gauge.Process{"bench": gauge.Self{}}
	for name, component := range processes {
		out[name] = b.stand.Process(component)
	}
	return out
}

func readable(running map[string]*process.Process) map[string]gauge.Process {
	out := map[string]gauge.Process{}
	for name, p := range running {
		out[name] = p
	}
	return out
}
