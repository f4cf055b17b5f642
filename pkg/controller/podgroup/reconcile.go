package podgroup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// legacyRetry is the time for which the controller leaves out the status fields that an old CRD has
// rejected. Then it tries them again.
const legacyRetry = 10 * time.Minute

// reconciler carries out what decide returns.
type reconciler struct {
	config Config
	client client.Client
	// live is the API server itself, without the cache.
	live        client.Client
	ownerReader *ownerReader
	events      events.EventRecorder
	clock       clock.PassiveClock
	metrics     *controllerMetrics
	pods        *podIndex
	native      *nativeWatch
	// passing is the rate of passing statuses.
	passing *rate.Limiter

	mu       sync.Mutex
	memories map[types.NamespacedName]memory
	// ended has the pods that were ended a moment ago.
	ended map[types.UID]attempts
	creations
	olderCRD
}

// creations are the PodGroups that were created lately.
type creations struct {
	// lastCreated has the time at which this process last created each PodGroup. Entries older than
	// recreateWindow may be dropped.
	lastCreated map[types.NamespacedName]time.Time
	// sweepSize is the size of lastCreated at which old entries are dropped.
	sweepSize int
}

// An olderCRD is what the controller has found out about a CRD of PodGroup that is older than itself.
type olderCRD struct {
	// legacyUntil is the time until which the controller assumes that the CRD lacks the fields of
	// this project.
	legacyUntil time.Time
	// noTemplatesUntil is the time until which it assumes that the CRD lacks spec.templates.
	noTemplatesUntil time.Time
	// noDesiredUntil is the time until which it assumes that the CRD lacks status.desired.
	noDesiredUntil time.Time
}

// conflictDelay is the time after which a write is tried again that was decided by an old PodGroup.
const conflictDelay = 100 * time.Millisecond

// Reconcile brings one group to its wanted state.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if name, native := group.NativeName(req.NamespacedName); native {
		return r.reconcileNative(ctx, req.NamespacedName, name)
	}
	if again, ok, err := r.reconcileLone(ctx, req.NamespacedName); ok {
		return ctrl.Result{RequeueAfter: again}, err
	}
	again, failed := r.resumeOwner(ctx, req.NamespacedName)
	result, err := r.reconcileOwn(ctx, req.NamespacedName)
	result.RequeueAfter = sooner(result.RequeueAfter, again)
	return result, errors.Join(failed, err)
}

// reconcileOwn brings one group that has or needs a PodGroup of Fluence to its wanted state.
func (r *reconciler) reconcileOwn(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	o, err := r.observe(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	if r.waitsForNative(o) {
		return ctrl.Result{}, nil
	}
	var annotations map[string]string
	if o.podGroup != nil {
		annotations = o.podGroup.Annotations
	}
	again := r.endOverdueOf(ctx, o, annotations)
	result, err := r.reconcileObserved(ctx, o)
	result.RequeueAfter = sooner(result.RequeueAfter, again)
	return result, err
}

// reconcileObserved brings the PodGroup of a group to its wanted state.
func (r *reconciler) reconcileObserved(ctx context.Context, o observation) (ctrl.Result, error) {
	was := r.recall(o.key)
	if lost := r.pods.takeLost(o.key); lost.pod != "" {
		// It is remembered at once: this reconcile may fail, or write something else first.
		was.members.lose(lost)
		r.remember(o.key, was)
	}
	d, m := r.config.decide(o, was)
	if d.create != nil {
		switch may, err := r.mayCreate(ctx, d.create, o.now); {
		case err != nil:
			return ctrl.Result{}, err
		case !may:
			return ctrl.Result{RequeueAfter: recreateDelay}, nil
		}
		switch err := r.client.Create(ctx, d.create, client.FieldOwner(FieldManager)); {
		case apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			// Another client created it first, and its event
			// will come. Or the namespace is being deleted.
			return ctrl.Result{}, nil
		case err != nil:
			return ctrl.Result{}, fmt.Errorf("create pod group: %w", err)
		}
		if r.rememberCreation(o.key, o.now) {
			r.sendEvents(d.create, []pendingEvent{{eventType: corev1.EventTypeNormal, reason: reason.Created, text: m.created + "; the one before is gone"}})
			m.created = ""
		}
		r.remember(o.key, m) // a write that fails below must not lose the event of the creation
		r.metrics.podGroup(actionCreated)
		klog.FromContext(ctx).V(2).Info("Created pod group", "minMember", d.create.Spec.MinMember)
		o.podGroup = d.create
		d, m = r.config.decide(o, m)
	}
	if r.defers(d, o.now) {
		// The next reconcile decides the same, unless the group runs by then. Only the time
		// since which the group lacks members must not begin anew, and lost members that were replaced
		// are forgotten.
		was.shortfall, was.members.lost = m.shortfall, m.members.lost
		r.remember(o.key, was)
		turn := min(r.config.StatusDelay, d.passingUntil.Sub(o.now))
		return ctrl.Result{RequeueAfter: sooner(turn, d.requeueAfter)}, nil
	}
	switch err := r.write(ctx, o, d); {
	case apierrors.IsConflict(err):
		// The PodGroup is newer than the cached one. Perhaps a user has set its minMember.
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	if d.remove {
		m = memory{}
	}
	r.remember(o.key, m)
	r.sendEvents(o.podGroup, d.events)
	if len(d.evict) > 0 {
		d.requeueAfter = r.evict(ctx, o, d.evict, m)
	}
	return ctrl.Result{RequeueAfter: d.requeueAfter}, nil
}

// defers reports whether a passing status has to wait for its turn.
func (r *reconciler) defers(d decision, now time.Time) bool {
	return d.passingUntil.After(now) && !r.passing.AllowN(now, 1)
}

// write carries out the writes of a decision on a PodGroup that exists.
func (r *reconciler) write(ctx context.Context, o observation, d decision) error {
	if d.remove {
		return r.remove(ctx, o)
	}
	if d.apply != nil {
		err := r.applyFields(ctx, o.podGroup, d.apply)
		if scheduling.LacksField(err) && len(d.apply.templates) > 0 {
			klog.FromContext(ctx).Info("The CRD of PodGroup is older than this controller: the pods that an owner makes later are not written, and no room is held for them; apply manifests/crds", "crd", scheduling.CRDName)
			r.mu.Lock()
			r.noTemplatesUntil = o.now.Add(legacyRetry)
			r.mu.Unlock()
			d.apply.templates = nil
			err = r.applyFields(ctx, o.podGroup, d.apply)
		}
		if err != nil {
			return ignoreGone(fmt.Errorf("apply spec of pod group: %w", err))
		}
		klog.FromContext(ctx).V(2).Info("Applied spec of pod group", "minMember", d.apply.minMember, "owners", len(d.apply.owners))
		return nil
	}
	if d.status == nil {
		return nil
	}
	err := r.applyStatus(ctx, o.podGroup, d.status, o.lacking)
	if scheduling.LacksField(err) && !o.legacyCRD && !o.noDesired {
		klog.FromContext(ctx).Info("The CRD of PodGroup is older than this controller: the number of wanted pods is not written; apply manifests/crds", "crd", scheduling.CRDName)
		r.mu.Lock()
		r.noDesiredUntil = o.now.Add(legacyRetry)
		r.mu.Unlock()
		o.noDesired = true
		err = r.applyStatus(ctx, o.podGroup, d.status, o.lacking)
	}
	if scheduling.LacksField(err) && !o.legacyCRD {
		klog.FromContext(ctx).Info("The CRD of PodGroup is older than this controller: conditions, creation time and the number of scheduled pods are not written; apply manifests/crds", "crd", scheduling.CRDName)
		r.mu.Lock()
		r.legacyUntil = o.now.Add(legacyRetry)
		r.mu.Unlock()
		err = r.applyStatus(ctx, o.podGroup, d.status, lacking{legacyCRD: true})
	}
	if err != nil {
		return ignoreGone(fmt.Errorf("apply status of pod group: %w", err))
	}
	klog.FromContext(ctx).V(2).Info("Updated status of pod group", "phase", d.status.Phase, "scheduled", d.status.Scheduled, "running", d.status.Running)
	return nil
}

// ignoreGone drops the error of a write to a PodGroup
// that is gone. The event of its removal will come.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// remove deletes a PodGroup, unless the API server has a pod of the group that is not in the cache
// yet.
func (r *reconciler) remove(ctx context.Context, o observation) error {
	var pods corev1.PodList
	err := r.live.List(ctx, &pods, client.InNamespace(o.key.Namespace), client.Limit(1),
		client.MatchingLabels{group.Label: o.key.Name}, client.MatchingFields{schedulerNameField: r.config.SchedulerName})
	if err != nil {
		return fmt.Errorf("list pods of group: %w", err)
	}
	if len(pods.Items) > 0 {
		return nil
	}
	uid, version := o.podGroup.UID, o.podGroup.ResourceVersion
	err = r.client.Delete(ctx, o.podGroup, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod group: %w", err)
	}
	if err == nil {
		r.forgetCreation(o.key)
	}
	r.metrics.podGroup(actionDeleted)
	klog.FromContext(ctx).V(2).Info("Deleted pod group without pods")
	return nil
}

// sendEvents sends each event about its pod, or about the PodGroup.
func (r *reconciler) sendEvents(pg *scheduling.PodGroup, notes []pendingEvent) {
	for _, n := range notes {
		var about runtime.Object = pg
		if n.about != nil {
			about = n.about
		}
		r.events.Eventf(about, nil, n.eventType, n.reason, n.reason, "%s", n.text)
	}
}

func (r *reconciler) recall(key types.NamespacedName) memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memories[key]
}

// remember stores a group's memory, or drops it if it
// is empty. It updates the gauge of incomplete groups.
func (r *reconciler) remember(key types.NamespacedName, m memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metrics.setIncomplete(r.memories[key].shortfall.isReported, m.shortfall.isReported)
	if m == (memory{}) {
		delete(r.memories, key)
		return
	}
	r.memories[key] = m
}
