// Package fluence is the scheduler plugin of that name: it starts the pods of a
// group together or not at all, on nodes that a matcher chose for all of them
// at once.
//
// The first pod of a complete group stands for all: its scheduling cycle asks
// the matcher, and the siblings that wait in PreEnqueue are let through with a
// node each. Callbacks of the framework are hints; what must not be lost also
// has a deadline.
//
// The plugin is no fwk.SignPlugin, so kube-scheduler signs no pod of the profile: by a
// signature one pod would be given the answer that was made for another.
//
// One profile of a scheduler may enable Fluence. Others beside it are as
// kube-scheduler's own, but for the order of the queue that they share: where there
// are some, all of them enable the plugin FluenceSort under queueSort, which has no
// arguments.
package fluence

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/health"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = placement.Plugin

// A Matcher is an engine that can be asked whether it answers.
type Matcher interface {
	match.Engine
	// Ping returns nil when the engine answers within the context's deadline.
	Ping(ctx context.Context) error
}

// A Dialer connects to the matcher that the arguments name. It does not wait for
// the matcher to answer.
type Dialer func(ctx context.Context, args *Args) (Matcher, error)

// Fluence is the plugin.
type Fluence struct {
	args *Args
	// profile is the name of the scheduler that the pods to be placed ask for.
	profile string
	handle  fwk.Handle
	groups  *gang.Groups

	matcher   Matcher
	inventory *inventory.Inventory
	breaker   *breaker
	returns   *returns
	waker     *waker
	reporter  *report.Reporter
	podGroups *podGroups
	owners    *owners
	counters  *counters
	nominated nominations
	races     *races
	// binds are the pods that are to be bound next, core the client that binds them, and
	// guard says whether a node still takes a pod, of nodes.
	binds *bindGate
	core  rest.Interface
	guard guard
	// besides are the other plugins of the profile that may hold a pod out of the queue.
	besides []fwk.PreEnqueuePlugin
	nodes   corelisters.NodeLister
	// namespaces are those of the scheduler's cache.
	namespaces corelisters.NamespaceLister
	// events are sent after binds.
	events       *report.Events
	reservations reservations
	running      running
	podStatuses  *report.PodStatuses
	// told is what pods were told last, and logged what was logged of groups.
	told     lastWords[types.UID]
	logged   lastWords[types.NamespacedName]
	suspects suspects
	// placer finds nodes for groups.
	placer   *placement.Placer
	debts    debts
	bulletin *report.Status
	handover *handover
	// log is for decisions on groups: that of a scheduling cycle adds keys of its own.
	log klog.Logger
	// drifted counts what the inventory found, and matchedAt is when the last match gave
	// out room, in nanoseconds of Unix; 0 is never.
	drifted   atomic.Int64
	matchedAt atomic.Int64
	// leads says whether this scheduler led when it was last asked.
	leads atomic.Bool
	// skewed says that the API server is of a version that this build is not made for.
	skewed atomic.Bool
	// synced reports whether all pods that existed at the start were seen. Before
	// that a group may seem to hold nothing.
	synced  func() bool
	listing listing
	later   later
	now     func() time.Time
}

var (
	_ fwk.QueueSortPlugin          = &Fluence{}
	_ fwk.PreEnqueuePlugin         = &Fluence{}
	_ fwk.EnqueueExtensions        = &Fluence{}
	_ fwk.PreFilterPlugin          = &Fluence{}
	_ fwk.FilterPlugin             = &Fluence{}
	_ fwk.PostFilterPlugin         = &Fluence{}
	_ fwk.PodGroupPostFilterPlugin = &Fluence{}
	_ fwk.ReservePlugin            = &Fluence{}
	_ fwk.PermitPlugin             = &Fluence{}
	_ fwk.PreBindPlugin            = &Fluence{}
	_ fwk.BindPlugin               = &Fluence{}
	_ fwk.PostBindPlugin           = &Fluence{}
)

// Factory returns the plugin's factory, for a scheduler without FluenceSort; see
// Factories.
func Factory(dial Dialer, leading func() bool, as ...Identity) frameworkruntime.PluginFactory {
	return factory(dial, leading, &order{}, cmp.Or(as...))
}

// An Identity is what a scheduler says of itself in its figures.
type Identity struct {
	// Name tells it from others that could lead, such as that of its pod.
	Name string
	// Version is the release.
	Version string
}

func factory(dial Dialer, leading func() bool, shared *order, as Identity) frameworkruntime.PluginFactory {
	var mu sync.Mutex
	var owner string
	return func(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		mu.Lock()
		defer mu.Unlock()
		if owner != "" {
			return nil, fmt.Errorf("profile %q: plugin %s is enabled in profile %q already; to sort the queue alone, enable %s", h.ProfileName(), Name, owner, SortName)
		}
		args, err := decodeArgs(obj)
		if err != nil {
			return nil, err
		}
		filters, ok := h.(placement.PreFilters)
		if !ok {
			return nil, fmt.Errorf("this scheduler's framework (%T) cannot run PreFilter plugins on request", h)
		}
		matcher, err := dial(ctx, args)
		if err != nil {
			return nil, fmt.Errorf("connect to the matcher: %w", err)
		}
		pl, err := newFluence(ctx, args, h, filters, matcher, leading, as)
		if err != nil {
			return nil, err
		}
		owner = h.ProfileName()
		shared.placing.Store(pl)
		return pl, nil
	}
}

func newFluence(ctx context.Context, args *Args, h fwk.Handle, filters placement.PreFilters, matcher Matcher, leading func() bool, as Identity) (*Fluence, error) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName(Name))
	levels, err := translate.ParseLevels(args.TopologyLevels)
	if err != nil {
		return nil, fmt.Errorf("topologyLevels: %w", err)
	}
	pl := &Fluence{
		args:    args,
		profile: h.ProfileName(),
		handle:  h,
		log:     klog.FromContext(ctx),
		now:     time.Now,
	}
	pl.owners, err = newOwners(h.KubeConfig(), func(uid types.UID) { pl.ownerSeen(ctx, uid) })
	if err != nil {
		return nil, err
	}
	pl.groups = gang.New(pl.owners, args.MatchPolicy, levelsOf(levels)...)
	klog.FromContext(ctx).Info("The matcher is asked for groups", "endpoint", args.Endpoint, "policy", args.MatchPolicy)
	pl.waker = newWaker(pl.wake)
	pl.binds = newBindGate(args.MaxBinds)
	if pl.core, err = newCoreClient(h.KubeConfig()); err != nil {
		return nil, err
	}
	pl.breaker = newBreaker(matcher.Ping, func() { pl.happened(gang.MatcherBack) })
	if pl.counters, err = newCounters(); err != nil {
		return nil, err
	}
	pl.breaker.silent = pl.counters.outages.Inc
	pl.matcher = timed{Matcher: matcher, took: pl.counters.matches, matched: func(at time.Time) { pl.matchedAt.Store(at.UnixNano()) }}
	core := h.SharedInformerFactory().Core().V1()
	pl.nodes, pl.namespaces = core.Nodes().Lister(), core.Namespaces().Lister()
	pl.groups.SetWholeNodes(pl.wholeNodes())
	pl.groups.SetAmounts(func(p *corev1.Pod) map[string]int64 { return translate.Requests(p) })
	pl.inventory, err = inventory.New(inventory.Config{
		Engine:   matcher,
		Nodes:    core.Nodes().Informer(),
		Pods:     core.Pods().Informer(),
		JobOf:    pl.groups.JobOf,
		HolderOf: pl.groups.HolderOf,
		Sources:  []inventory.Source{tentative{pl.groups}},
		Levels:   levels,
		OnChange: pl.onChange,
		OnDrift:  pl.onDrift,
		OnAudit:  pl.counters.onAudit,
		Returns:  func(job match.JobID, key string) bool { return pl.returns.has(job, key) },
		Timeout:  args.MatchTimeout.Duration,
	})
	if err != nil {
		return nil, err
	}
	pl.returns = newReturns(matcher, pl.inventory.Epoch, func() { pl.happened(gang.Freed) })
	if pl.podGroups, err = newPodGroups(ctx, h.KubeConfig(), pl); err != nil {
		return nil, err
	}
	if pl.events, err = report.NewEvents(h.KubeConfig(), pl.profile, as.Name); err != nil {
		return nil, err
	}
	recorder := pl.events.Recorder(h.EventRecorder())
	pl.podStatuses = report.NewPodStatuses(pl.handle.ClientSet(), func() corelisters.PodLister {
		return pl.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	}, func() { pl.counters.failed(writesPod) })
	pl.placer = placement.NewPlacer(placement.Config{
		Handle: h, Filters: filters, Matcher: pl.matcher, Levels: levels,
		MatchTimeout: args.MatchTimeout.Duration, MaxAsk: args.MaxAsk.Duration,
		Outside: pl.outside, EndOf: pl.endOf, Tells: pl.tells,
		JobsOf: func(pods []*corev1.Pod) []match.JobID { return pl.groups.JobsOf(pods, pl.running.jobOf) },
		Now:    func() time.Time { return pl.now() },
	})
	pl.reporter = report.NewReporter(report.Config{
		Store: pl.podGroups, Recorder: recorder, Leading: leading, Whole: pl.groups.WholeOf, First: pl.binds.whenEmpty,
		Failed: func() { pl.counters.failed(writesPodGroup) },
	})
	pl.events.Always = args.PodEvents == PodEventsAlways
	pl.events.First, pl.events.Busy = pl.binds.whenEmpty, pl.reporter.Busy
	pl.events.Dropped = pl.counters.eventsDropped.Inc
	pl.events.Throttled = pl.counters.throttled.WithLabelValues(writesEvent).Inc
	if pl.races, err = newRaces(ctx, h, recorder, pl.owners, pl.podGroups, leading); err != nil {
		return nil, err
	}
	pl.bulletin = &report.Status{
		Client: h.ClientSet(), Namespace: args.StatusNamespace, Leading: leading,
		Figures: func() health.Figures { return pl.read().figures(pl, as) },
		Failed:  func() { pl.counters.failed(writesHealth) },
	}
	pl.handover = newHandover(h.ClientSet(), args.StatusNamespace, as.Name)
	pl.handover.leading, pl.handover.silent = leading, pl.breaker.silentFor
	pl.handover.well = func() bool { return pl.notReady() == "" }
	pl.handover.failed = func() { pl.counters.failed(writesHealth) }
	// Also where it never comes to run: the queue has a goroutine of its own.
	context.AfterFunc(ctx, pl.reporter.Stop)
	context.AfterFunc(ctx, pl.podStatuses.Stop)
	if err := pl.watch(ctx, leading); err != nil {
		return nil, err
	}
	if err := observe(ctx, pl); err != nil {
		return nil, err
	}
	return pl, nil
}

// levelsOf names the levels for annotations.
func levelsOf(levels []translate.Level) []group.Level {
	var all []group.Level
	for _, l := range levels {
		all = append(all, group.Level(l))
	}
	return all
}

// Name returns the plugin's name.
func (pl *Fluence) Name() string { return Name }

// EventsToRegister names no event: a pod that this plugin refused is put back
// into the queue by the plugin itself, which knows what can help.
func (pl *Fluence) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// notReady says why no group can be placed at all, or nothing.
func (pl *Fluence) notReady() string {
	if open, why := pl.breaker.state(); open {
		return why
	}
	if !pl.synced() || pl.inventory.Epoch() == 0 {
		return placement.WhyLoading
	}
	if !pl.listing.complete() {
		return whyListing
	}
	return ""
}

// apply does what a change of a group's state asks for. It is the only place that does.
func (pl *Fluence) apply(ctx context.Context, out gang.Output) {
	for _, uid := range out.Reject {
		if wp := pl.handle.GetWaitingPod(uid); wp != nil {
			wp.Reject(Name, out.Reason)
		} else {
			pl.binds.tell(uid, out.Reason)
		}
	}
	for _, t := range out.Transitions {
		pl.recordTransition(t)
	}
	for _, r := range out.Release {
		klog.FromContext(ctx).V(4).Info("Giving back", "job", r.Job, "slots", len(r.Keys), "reason", out.Reason)
		pl.returns.add(r)
		pl.noLongerExpected(r.Keys...)
	}
	if len(out.Recheck) > 0 {
		pl.inventory.Recheck(out.Recheck...)
	}
	for _, r := range out.Refused {
		pl.tellRefused(r.Pod, r.Reason, r.Message)
	}
	for _, p := range out.Placed {
		pl.tellPlaced(p)
	}
	for _, k := range out.Forget {
		pl.forget(k)
	}
	if len(out.Wake) > 0 {
		pl.waker.one(out.Wake...)
	}
}

// onChange is told by the inventory what the engine took note of.
func (pl *Fluence) onChange(c inventory.Change) {
	switch c.Kind {
	case inventory.Lost:
		pl.breaker.trip(placement.WhyUnavailable)
	case inventory.Loaded:
		pl.counters.loads.Inc()
		pl.happened(gang.MatcherBack)
	case inventory.NodeAdded, inventory.NodeChanged, inventory.NodeRemoved:
		pl.happened(gang.NodeChanged)
	case inventory.Freed:
		pl.happened(gang.Freed)
		if c.Shared {
			// What never fitted may fit now, as on a node that has grown.
			pl.happened(gang.SharedFreed)
		}
	}
}

// onDrift is told by the inventory where the engine differed from the cluster.
func (pl *Fluence) onDrift(d inventory.Drift) {
	pl.drifted.Add(1)
	pl.counters.drift.WithLabelValues(string(d.Kind)).Inc()
}

// happened takes note of an event that may help waiting groups.
func (pl *Fluence) happened(ev gang.Event) {
	pl.placer.Happened(ev)
	pl.groups.Happened(ev)
	if ev == gang.MatcherBack {
		// Also those go on that were not refused but held.
		pl.waker.all()
	} else {
		pl.waker.due()
	}
}

// tentative lists for the inventory what groups were given and the API does not
// show yet.
type tentative struct{ groups *gang.Groups }

// Jobs implements inventory.Source.
func (t tentative) Jobs() []match.Job { return t.groups.Tentative() }
