package fluence

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
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

// Fluence is the plugin. Its own methods are the framework's extension points; what they need done is
// done by its parts.
type Fluence struct {
	*base
	watcher
	asker
	accounts
	turns
	binder
	teller
	figures
	// besides are the other plugins of the profile that may hold a pod out of the queue.
	besides []fwk.PreEnqueuePlugin
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
	pl := &Fluence{base: &base{
		args: args, profile: h.ProfileName(), handle: h, log: klog.FromContext(ctx), now: time.Now,
	}}
	pl.base.apply = pl.apply
	if pl.counters, err = newCounters(); err != nil {
		return nil, err
	}
	core := h.SharedInformerFactory().Core().V1()
	pl.nodes, pl.namespaces = core.Nodes().Lister(), core.Namespaces().Lister()
	pl.watcher = watcher{base: pl.base, asker: &pl.asker, accounts: &pl.accounts, turns: &pl.turns, binder: &pl.binder, teller: &pl.teller, figures: &pl.figures}
	pl.asker = asker{base: pl.base, accounts: &pl.accounts, turns: &pl.turns, binder: &pl.binder, teller: &pl.teller}
	pl.accounts = accounts{base: pl.base}
	pl.turns = turns{base: pl.base, teller: &pl.teller}
	if pl.owners, err = newOwners(h.KubeConfig(), func(uid types.UID) { pl.ownerSeen(ctx, uid) }); err != nil {
		return nil, err
	}
	pl.groups = gang.New(pl.owners, args.MatchPolicy, levelsOf(levels)...)
	pl.groups.SetWholeNodes(pl.wholeNodes())
	pl.groups.SetAmounts(func(p *corev1.Pod) map[string]int64 { return translate.Requests(p) })
	pl.waker = newWaker(pl.wake)
	if pl.binder, err = newBinder(pl.base, &pl.figures); err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("The matcher is asked for groups", "endpoint", args.Endpoint, "policy", args.MatchPolicy)
	if err := pl.askMatcher(matcher, filters, levels); err != nil {
		return nil, err
	}
	podGroups, err := newPodGroups(ctx, h.KubeConfig(), &pl.watcher)
	if err != nil {
		return nil, err
	}
	pl.teller = teller{base: pl.base, binder: &pl.binder, figures: &pl.figures, podGroups: podGroups}
	if err := pl.beginTelling(leading, as); err != nil {
		return nil, err
	}
	if pl.races, err = newRaces(ctx, h, pl.recorder, pl.owners, podGroups, leading); err != nil {
		return nil, err
	}
	pl.figures = figures{base: pl.base, asker: &pl.asker, turns: &pl.turns, binder: &pl.binder, teller: &pl.teller}
	pl.publishFigures(leading, as)
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

// askMatcher builds what asks the matcher, and what keeps its graph equal to the cluster.
func (pl *Fluence) askMatcher(matcher Matcher, filters placement.PreFilters, levels []translate.Level) (err error) {
	core := pl.handle.SharedInformerFactory().Core().V1()
	pl.breaker = newBreaker(matcher.Ping, func() { pl.happened(gang.MatcherBack) })
	pl.breaker.silent = pl.counters.outages.Inc
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
		Timeout:  pl.args.MatchTimeout.Duration,
	})
	if err != nil {
		return err
	}
	pl.returns = newReturns(matcher, pl.inventory.Epoch, func() { pl.happened(gang.Freed) })
	pl.placer = placement.NewPlacer(placement.Config{
		Handle: pl.handle, Filters: filters, Levels: levels,
		Matcher:      timed{Matcher: matcher, took: pl.counters.matches, matched: func(at time.Time) { pl.matchedAt.Store(at.UnixNano()) }},
		MatchTimeout: pl.args.MatchTimeout.Duration, MaxAsk: pl.args.MaxAsk.Duration,
		Outside: pl.outside, EndOf: pl.endOf, Tells: pl.tells,
		JobsOf: func(pods []*corev1.Pod) []match.JobID { return pl.groups.JobsOf(pods, pl.running.jobOf) },
		Now:    func() time.Time { return pl.now() },
	})
	return nil
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

// tentative lists for the inventory what groups were given and the API does not
// show yet.
type tentative struct{ groups *gang.Groups }

// Jobs implements inventory.Source.
func (t tentative) Jobs() []match.Job { return t.groups.Tentative() }
