package fluence

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = placement.PluginName

// Matcher is a match.Engine with a health check.
type Matcher interface {
	match.Engine
	// Ping returns nil if the matcher answers within the context's deadline.
	Ping(ctx context.Context) error
}

// Dialer connects to the matcher that the arguments
// name. It does not wait for the matcher to answer.
type Dialer func(ctx context.Context, args *Args) (Matcher, error)

// Fluence is the plugin. Its methods implement the extension points of
// the framework. The embedded parts do the work; they share one base.
//
//   - watcher handles events of informers, and timers.
//   - groupPlacer calls the matcher for groups.
//   - throttler throttles namespaces.
//   - reserver reserves nodes.
//   - binder binds pods in the order of the bind queue.
//   - groupReporter reports and logs what becomes of groups.
//   - stateCollector collects the state for metrics and for the status ConfigMap.
type Fluence struct {
	*base
	watcher
	groupPlacer
	throttler
	reserver
	binder
	groupReporter
	stateCollector
	// otherPlugins are the profile's other PreEnqueue
	// plugins. Each of them may hold a pod out of the queue.
	otherPlugins []fwk.PreEnqueuePlugin
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

// Factory returns the plugin's factory for a scheduler that does not
// enable FluenceSort. See Factories for dial, leading and identity.
func Factory(dial Dialer, leading func() bool, identity ...ProcessIdentity) frameworkruntime.PluginFactory {
	return factory(dial, leading, &sharedOrder{}, cmp.Or(identity...))
}

// ProcessIdentity names a scheduler process in its status and in its events.
type ProcessIdentity struct {
	// Name distinguishes the process from the other
	// replicas. It may be the name of the process's pod.
	Name string
	// Version is the release.
	Version string
}

// factory returns the factory of Fluence. At most one call of the
// returned factory succeeds, because only one profile may enable Fluence.
func factory(dial Dialer, leading func() bool, shared *sharedOrder, identity ProcessIdentity) frameworkruntime.PluginFactory {
	var mu sync.Mutex
	var enabledIn string
	return func(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		mu.Lock()
		defer mu.Unlock()
		if enabledIn != "" {
			return nil, fmt.Errorf("profile %q: plugin %s is enabled in profile %q already, and may be enabled once; for the order of the queue alone, enable %s", h.ProfileName(), Name, enabledIn, SortName)
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
			return nil, fmt.Errorf("connect to the matcher at %s: %w", args.Endpoint, err)
		}
		pl, err := newFluence(ctx, args, h, filters, matcher, leading, identity)
		if err != nil {
			return nil, err
		}
		enabledIn = h.ProfileName()
		shared.plugin.Store(pl)
		return pl, nil
	}
}

// newFluence builds the plugin with all its parts,
// registers its event handlers and starts its goroutines.
func newFluence(ctx context.Context, args *Args, h fwk.Handle, filters placement.PreFilters, matcher Matcher, leading func() bool, identity ProcessIdentity) (*Fluence, error) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName(Name))
	levels, err := translate.ParseLevels(args.TopologyLevels)
	if err != nil {
		return nil, fmt.Errorf("topologyLevels: %w", err)
	}
	pl := &Fluence{base: &base{
		args: args, profile: h.ProfileName(), handle: h, log: klog.FromContext(ctx), now: time.Now,
	}}
	if args.Now != nil {
		pl.now = args.Now
	}
	pl.base.apply = pl.apply
	if pl.counters, err = newCounters(); err != nil {
		return nil, err
	}
	core := h.SharedInformerFactory().Core().V1()
	pl.nodes, pl.namespaces, pl.pods = core.Nodes().Lister(), core.Namespaces().Lister(), core.Pods().Lister()
	pl.watcher = watcher{base: pl.base, nativeMembers: newNativeMembers(h.ProfileName()), levels: levelsOf(levels), groupPlacer: &pl.groupPlacer, throttler: &pl.throttler, reserver: &pl.reserver, binder: &pl.binder, groupReporter: &pl.groupReporter, stateCollector: &pl.stateCollector}
	pl.groupPlacer = groupPlacer{base: pl.base, throttler: &pl.throttler, reserver: &pl.reserver, binder: &pl.binder, groupReporter: &pl.groupReporter}
	pl.throttler = throttler{base: pl.base}
	pl.reserver = reserver{base: pl.base, groupReporter: &pl.groupReporter}
	if pl.owners, err = newOwners(h.KubeConfig(), func(uid types.UID) { pl.observeOwner(ctx, uid) }, pl.observeDeadline); err != nil {
		return nil, err
	}
	pl.groups = gang.New(pl.owners, args.MatchPolicy, pl.levels...)
	if err := errors.Join(indexPodsByJob(core.Pods().Informer()), indexLonePods(core.Pods().Informer())); err != nil {
		return nil, err
	}
	pl.walltimes = walltimes{
		enforced: args.EnforceDuration, now: func() time.Time { return pl.now() },
		owners: pl.owners, groups: pl.groups, pods: core.Pods().Informer().GetIndexer(),
		annotationsOf: func(key types.NamespacedName) map[string]string { return pl.podGroups.annotationsOf(key) },
		endOfJob:      func(key types.NamespacedName) (time.Time, bool) { return pl.queues.End(jobOf(key)) },
	}
	pl.index, pl.describeOwner = preemption.NewIndex(pl.owners), pl.owners.describe
	pl.budgets = h.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister()
	pl.groups.SetIsEvicted(func(key types.NamespacedName) bool { return pl.isEvicted(key) })
	pl.groups.SetWhyQueued(func(key types.NamespacedName, pod *corev1.Pod) (why, message string) {
		return whyQueued(pl.base, key, pod)
	})
	pl.groups.SetExclusiveRules(pl.exclusiveRules())
	pl.groups.SetPodRequests(sharedRequests())
	if pl.quotas, err = newQuotas(h.ClientSet()); err != nil {
		return nil, err
	}
	pl.groups.SetSeatRules(pl.seatRules())
	pl.activator = newActivator(pl.activate)
	if pl.binder, err = newBinder(pl.base, &pl.stateCollector); err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("Groups are placed by the matcher", "endpoint", args.Endpoint, "policy", args.MatchPolicy)
	if err := pl.initMatcher(matcher, filters, levels); err != nil {
		return nil, err
	}
	podGroups, err := newBothPodGroups(ctx, h.KubeConfig(), &pl.watcher)
	if err != nil {
		return nil, err
	}
	pl.seats = podGroups
	pl.groupReporter = groupReporter{base: pl.base, binder: &pl.binder, stateCollector: &pl.stateCollector, podGroups: podGroups}
	if err := pl.initReporting(leading, identity); err != nil {
		return nil, err
	}
	if err := initQueues(pl, matcher, leading); err != nil {
		return nil, err
	}
	if err := pl.initEvictor(leading); err != nil {
		return nil, err
	}
	if pl.kubeletRejections, err = newKubeletRejections(ctx, h, pl.recorder, pl.owners, podGroups, leading); err != nil {
		return nil, err
	}
	pl.stateCollector = stateCollector{base: pl.base, groupPlacer: &pl.groupPlacer, reserver: &pl.reserver, binder: &pl.binder, groupReporter: &pl.groupReporter}
	pl.initStatus(leading, identity)
	// These writers are also stopped if they never run, because
	// their queues start goroutines when they are built.
	context.AfterFunc(ctx, pl.reporter.Stop)
	context.AfterFunc(ctx, pl.podStatuses.Stop)
	context.AfterFunc(ctx, pl.queues.Stop)
	if err := pl.watch(ctx, leading); err != nil {
		return nil, err
	}
	if err := serveGauges(ctx, pl); err != nil {
		return nil, err
	}
	return pl, nil
}

// initMatcher builds the parts around the matcher: the breaker,
// the inventory, the queue of releases and the placer.
func (pl *Fluence) initMatcher(matcher Matcher, filters placement.PreFilters, levels []translate.Level) (err error) {
	core := pl.handle.SharedInformerFactory().Core().V1()
	pl.breaker = newBreaker(matcher.Ping, func() { pl.observeEvent(gang.MatcherBack) })
	pl.breaker.onOutage = pl.counters.outages.Inc
	pl.inventory, err = inventory.New(inventory.Config{
		Engine:      matcher,
		Nodes:       core.Nodes().Informer(),
		Pods:        core.Pods().Informer(),
		JobOf:       pl.groups.JobOf,
		HolderOf:    pl.groups.HolderOf,
		EndOf:       pl.walltimes.expectedEnd,
		MatchedAs:   pl.groups.MatchedAs,
		Sources:     []inventory.Source{tentativeSource{pl.groups}, &pl.promises, &pl.queues},
		Levels:      levels,
		OnEnd:       pl.onEnd,
		OnChange:    pl.onChange,
		OnDrift:     pl.onDrift,
		OnAudit:     pl.counters.onAudit,
		IsReleasing: func(job match.JobID, key string) bool { return pl.releases.has(job, key) },
		Timeout:     pl.args.MatchTimeout.Duration,
	})
	if err != nil {
		return err
	}
	pl.releases = newReleaseQueue(matcher, pl.inventory.Epoch, func() { roomFreed(pl.base, gang.Released) })
	pl.releases.seatsOf = pl.groups.SeatSlots
	pl.placer = placement.NewPlacer(placement.Config{
		Handle: pl.handle, PreFilters: filters, Levels: levels,
		Matcher:      timedMatcher{Matcher: matcher, took: pl.counters.matches, matched: func(at time.Time) { pl.matchedAt.Store(at.UnixNano()) }},
		MatchTimeout: pl.args.MatchTimeout.Duration, ReservationSearchBudget: pl.args.MaxAsk.Duration,
		ClusterState: pl.clusterState, BlockerOf: pl.blockerOf, MayName: pl.mayName,
		PromisedTo: func(r match.Promised, reader types.NamespacedName) string { return promisedTo(pl.base, r, reader) },
		JobsOf:     func(pods []*corev1.Pod) []match.JobID { return pl.groups.JobsOf(pods, pl.occupants.jobOf) },
		Now:        func() time.Time { return pl.now() },
	})
	return nil
}

// levelsOf converts the levels to the type of package group, for annotations.
func levelsOf(levels []translate.Level) []group.Level {
	var all []group.Level
	for _, l := range levels {
		all = append(all, group.Level(l))
	}
	return all
}

// Name returns the plugin's name.
func (pl *Fluence) Name() string { return Name }

// EventsToRegister returns no events: the plugin itself activates a pod
// that it has refused, when something changes that can help the pod.
func (pl *Fluence) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// apply carries out the actions that follow from a change of
// a group's state. Invariant: nothing else carries them out.
func (pl *Fluence) apply(ctx context.Context, out gang.Output) {
	for _, uid := range out.Reject {
		if wp := pl.handle.GetWaitingPod(uid); wp != nil {
			wp.Reject(Name, out.RejectReason)
		} else {
			pl.bindQueue.deliver(uid, out.RejectReason)
		}
	}
	for _, t := range out.Transitions {
		pl.logTransition(t)
		switch t.Type {
		case gang.Started:
			usePromise(&pl.groupPlacer, t.Key)
			pl.queues.room.drop(jobOf(t.Key))
		case gang.Revoked, gang.Ended:
			pl.queues.Recheck(jobOf(t.Key))
		case gang.SeatsGivenBack:
		}
	}
	for _, r := range out.Release {
		klog.FromContext(ctx).V(4).Info("Releasing an allocation", "job", r.Job, "slots", len(r.Keys), "reason", out.RejectReason)
		pl.releases.add(r)
		pl.removeFromBindQueue(r.Keys...)
	}
	pl.releases.book(out.Book...)
	if len(out.Recheck) > 0 {
		pl.inventory.Recheck(out.Recheck...)
		endsChanged(pl.base, out.Recheck...)
	}
	pl.countSeats(out.Seats)
	for _, r := range out.Refusals {
		pl.reportRefusal(r.Pod, r.Reason, r.Message)
	}
	for _, p := range out.Placed {
		pl.reportPlaced(p)
	}
	for _, k := range out.Forget {
		pl.forget(k)
	}
	if len(out.Activate) > 0 {
		pl.activator.activateGroups(out.Activate...)
	}
}

// onEnd handles the end of a pod with this slot. The inventory calls it before the matcher knows of the end.
func (pl *Fluence) onEnd(s match.Slot) {
	pl.endedPods.add(s, pl.now())
	if !s.Shared && !pl.queues.Empty() {
		pl.queues.forJobs.add(s, pl.now())
	}
	pl.offerFreedRoom(s)
	keepAtEnd(&pl.watcher, s)
}

// onChange handles a change of the matcher's graph. The inventory calls it.
func (pl *Fluence) onChange(c inventory.Change) {
	pl.queues.Observe(c)
	switch c.Kind {
	case inventory.Lost:
		pl.breaker.trip(placement.WhyUnavailable)
	case inventory.Loaded:
		pl.counters.graphLoads.Inc()
		pl.observeEvent(gang.MatcherBack)
	case inventory.NodeAdded:
		// The event of the API may have let them ask before the matcher had the node.
		pl.askFirst()
		pl.observeEvent(gang.NodeChanged)
	case inventory.NodeChanged, inventory.NodeRemoved:
		pl.observeEvent(gang.NodeChanged)
	case inventory.Freed:
		pl.queues.forJobs.release(c.Node)
		pl.observeEvent(gang.Released)
		if c.IncludesShared {
			// Even a group that never fitted may fit now, because
			// pods that run on every node have released room.
			pl.observeEvent(gang.DaemonPodGone)
		}
	}
}

// tentativeSource reports to the inventory the assignments that the API does not show yet.
type tentativeSource struct{ groups *gang.Groups }

// Jobs implements inventory.Source.
func (t tentativeSource) Jobs() []match.Job { return t.groups.Tentative() }
