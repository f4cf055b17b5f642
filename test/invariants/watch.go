package invariants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

const (
	// retryEvery is how long after a failure the API server gets the next request.
	retryEvery = 200 * time.Millisecond
	// listTimeout bounds one list.
	listTimeout = time.Minute
	// longestDeaf is how long a kind may go without a watch. It is longer than any outage.
	longestDeaf = 2 * time.Minute
)

var (
	podGroups       = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	fluxJobs        = schema.GroupVersionResource{Group: "fluence.flux-framework.org", Version: "v1alpha1", Resource: "fluxjobs"}
	jobQueues       = schema.GroupVersionResource{Group: "fluence.flux-framework.org", Version: "v1alpha1", Resource: "queues"}
	nativePodGroups = schema.GroupVersionResource{Group: nativeAPI, Version: "v1beta1", Resource: "podgroups"}
)

// A source is the lists and watches of one kind, and
// the functions that take its objects to the rules.
type source struct {
	what  string
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// see takes an object to the rules.
	see func(j *judge, o runtime.Object, s seen)
	// lose takes to the rules an object that is missing from a new list.
	lose func(j *judge, key types.NamespacedName, uid types.UID, s seen)
	// gap takes to the rules a range of versions in which
	// changes were missed. It is nil if that does no harm.
	gap func(j *judge, after, to uint64, at time.Time)

	// optional reports whether the kind is not watched if the API server does not serve it at the start.
	optional bool

	known   map[types.UID]types.NamespacedName
	version string
}

// lister is the part of a typed client that is used.
type lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

func sourceOf[L runtime.Object](what string, l lister[L], see func(*judge, runtime.Object, seen)) *source {
	return &source{
		what:  what,
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return l.List(ctx, o) },
		watch: l.Watch,
		see:   see,
		lose:  func(*judge, types.NamespacedName, types.UID, seen) {},
	}
}

// sources returns the sources of all kinds that the rules need.
func (c *Checker) sources() ([]*source, error) {
	plain, err := metadata.NewForConfig(c.cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	pods := sourceOf("pods", c.client.CoreV1().Pods(""), func(j *judge, o runtime.Object, s seen) { j.seePod(podFactOf(o.(*corev1.Pod)), s) })
	nodes := sourceOf("nodes", c.client.CoreV1().Nodes(), func(j *judge, o runtime.Object, s seen) { j.seeNode(nodeFactOf(o.(*corev1.Node)), s) })
	pods.gap, nodes.gap = (*judge).seeGap, (*judge).seeGap
	pods.lose = func(j *judge, _ types.NamespacedName, uid types.UID, s seen) { j.lostPod(uid, s) }
	nodes.lose = func(j *judge, key types.NamespacedName, _ types.UID, s seen) { j.lostNode(key.Name, s) }
	seeGroup := func(j *judge, o runtime.Object, s seen) { j.seeGroup(groupFactOf(o.(*unstructured.Unstructured)), s) }
	groups := sourceOf[*unstructured.UnstructuredList]("podgroups", c.dynamic.Resource(podGroups), seeGroup)
	groups.lose = func(j *judge, key types.NamespacedName, uid types.UID, s seen) {
		s.gone = true
		j.seeGroup(groupFact{key: key, uid: uid}, s)
	}
	native := sourceOf[*unstructured.UnstructuredList]("native podgroups", c.dynamic.Resource(nativePodGroups), seeGroup)
	native.optional = true
	native.lose = func(j *judge, key types.NamespacedName, uid types.UID, s seen) {
		groups.lose(j, nativeKey(key), uid, s)
	}
	forget := func(j *judge, _ types.NamespacedName, uid types.UID, s seen) {
		s.gone = true
		j.seeOwner(ownerFact{uid: uid}, s)
	}
	owner := func(j *judge, o runtime.Object, s seen) { j.seeOwner(ownerFactOf(o.(metav1.Object)), s) }
	apps := func(resource string) *source {
		s := sourceOf(resource, plain.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}), owner)
		s.lose = forget
		return s
	}
	jobs := sourceOf[*batchv1.JobList]("jobs", c.client.BatchV1().Jobs(""), owner)
	jobs.lose = forget
	inQueues := sourceOf[*unstructured.UnstructuredList]("fluxjobs", c.dynamic.Resource(fluxJobs), func(j *judge, o runtime.Object, s seen) {
		j.seeFluxJob(fluxJobFactOf(o.(*unstructured.Unstructured)), s)
	})
	inQueues.lose = func(j *judge, _ types.NamespacedName, uid types.UID, s seen) { j.lostFluxJob(uid, s) }
	queues := sourceOf[*unstructured.UnstructuredList]("queues", c.dynamic.Resource(jobQueues), func(j *judge, o runtime.Object, s seen) {
		j.seeQueue(queueFactOf(o.(*unstructured.Unstructured)), s)
	})
	queues.lose = func(j *judge, key types.NamespacedName, _ types.UID, s seen) {
		s.gone = true
		j.seeQueue(queueFact{name: key.Name}, s)
	}
	inQueues.optional, queues.optional = true, true
	return []*source{
		nodes,
		queues,
		inQueues,
		jobs,
		apps("replicasets"),
		apps("statefulsets"),
		groups,
		native,
		pods,
		sourceOf("events", c.client.EventsV1().Events(""), func(j *judge, o runtime.Object, s seen) {
			j.seeEvent(eventFactOf(o.(*eventsv1.Event)), s)
		}),
		sourceOf("leases", c.client.CoordinationV1().Leases(leaseNamespace), func(j *judge, o runtime.Object, s seen) {
			if l := o.(*coordinationv1.Lease); l.Name == controllerName && l.Spec.HolderIdentity != nil {
				j.seeLease(*l.Spec.HolderIdentity, s)
			}
		}),
	}, nil
}

// watchAll sees all objects that exist, and then follows them until ctx is done.
func (c *Checker) watchAll(ctx context.Context) error {
	sources, err := c.sources()
	if err != nil {
		return err
	}
	for _, s := range sources {
		if err := c.relist(ctx, s); err != nil {
			return fmt.Errorf("list %s: %w", s.what, err)
		}
	}
	c.tell(func(j *judge) { j.begin(time.Now()) })
	for _, s := range sources {
		if s.optional && s.version == "" {
			continue
		}
		c.done.Go(func() { c.follow(ctx, s) })
	}
	return nil
}

// relist sees all objects of a kind, and finds which known objects are gone.
func (c *Checker) relist(ctx context.Context, s *source) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := s.list(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil // a kind that the API server does not know yet has no objects
	}
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("read a list: %w", err)
	}
	how := deliveredNow(about.GetResourceVersion())
	how.listed = true
	found := map[types.UID]types.NamespacedName{}
	c.tell(func(j *judge) {
		if s.known != nil && s.gap != nil {
			s.gap(j, versionOf(s.version), how.version, how.at)
		}
		var objects []metav1.Object
		err = meta.EachListItem(list, func(o runtime.Object) error {
			m, err := meta.Accessor(o)
			if err != nil {
				return fmt.Errorf("read an object: %w", err)
			}
			found[m.GetUID()] = nameOf(m)
			objects = append(objects, m)
			return nil
		})
		for uid, key := range s.known {
			if _, there := found[uid]; !there {
				s.lose(j, key, uid, how)
			}
		}
		for _, o := range objects {
			s.see(j, o.(runtime.Object), seen{version: versionOf(o.GetResourceVersion()), at: how.at, listed: true})
		}
	})
	s.known, s.version = found, about.GetResourceVersion()
	return err
}

// follow watches a kind until ctx is done. A watch that ends is continued where
// it was. Everything is listed again only if the API server cannot continue it.
// The time without a watch is excused. After longestDeaf the checker fails.
func (c *Checker) follow(ctx context.Context, s *source) {
	var sees func() // nil while it watches, or is about to begin at the list's version
	if s.version == "" {
		sees = c.Excuse("no watch of " + s.what)
	}
	defer func() {
		if sees != nil {
			sees()
		}
	}()
	blind, failed := time.Now(), false
	for ctx.Err() == nil {
		err := errNoVersion
		if s.version != "" {
			err = c.watchFrom(ctx, s, func() {
				if sees != nil {
					sees()
				}
				sees = nil
			})
			if sees == nil {
				sees = c.Excuse("no watch of " + s.what)
				blind = time.Now()
			}
		}
		if errors.Is(err, errNoVersion) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			err = c.relist(ctx, s)
			if err == nil && s.version == "" {
				err = errUnknown
			}
		}
		if without := time.Since(blind); without > longestDeaf && !failed {
			failed = true
			c.fail(fmt.Errorf("watch %s: not possible for %v: %w", s.what, without.Round(time.Second), cmp.Or(err, errNoVersion)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

// errNoVersion means that there is no version from which a watch could continue.
var errNoVersion = errors.New("no version to watch from")

// errUnknown means that the API server has neither objects nor a watch of a kind.
var errUnknown = errors.New("the API server does not know this kind")

// watchFrom follows a kind until the watch ends. It calls begun when the watch has begun.
func (c *Checker) watchFrom(ctx context.Context, s *source, begun func()) error {
	w, err := s.watch(ctx, metav1.ListOptions{ResourceVersion: s.version, AllowWatchBookmarks: true})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer w.Stop()
	begun()
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return apierrors.FromObject(e.Object)
		}
		m, ok := e.Object.(metav1.Object)
		if !ok {
			return fmt.Errorf("watch %s: %T is no object", s.what, e.Object)
		}
		s.version = m.GetResourceVersion()
		if e.Type == watch.Bookmark {
			continue
		}
		how := deliveredNow(s.version)
		how.gone = e.Type == watch.Deleted
		c.tell(func(j *judge) { s.see(j, e.Object, how) })
		if how.gone {
			delete(s.known, m.GetUID())
		} else {
			s.known[m.GetUID()] = nameOf(m)
		}
	}
	return nil
}
