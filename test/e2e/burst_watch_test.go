package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A burstWatch sees every pod and PodGroup of a burst. It decides when a group is deleted.
type burstWatch struct {
	groups []*burstGroup
	wanted int // the number of pods of all groups
	start  time.Time
	// ended receives each group once, when it has run or its early end has come.
	ended chan *burstGroup

	mu        sync.Mutex
	records   map[string]*burstRecord
	podGroups map[string]*podGroupRecord
	gone      int                 // the number of deleted groups
	pods      sets.Set[types.UID] // the pods that exist
	failed    []string            // pods that failed
	inPart    []string            // groups that the scheduler reported as started in part
	stuck     sets.Set[string]
}

// A burstRecord is what was seen of a group.
type burstRecord struct {
	*burstGroup
	ended                      bool
	bound, running, done       sets.Set[types.UID]
	firstBound, all, lastBound time.Time // all is when the minimum was bound
}

// watchBurst begins to watch. All groups must be created after that.
func (s *story) watchBurst(groups []*burstGroup) *burstWatch {
	s.Helper()
	w := &burstWatch{
		groups: groups, start: time.Now(), ended: make(chan *burstGroup, len(groups)),
		records: map[string]*burstRecord{}, podGroups: map[string]*podGroupRecord{}, pods: sets.New[types.UID](), stuck: sets.New[string](),
	}
	for _, g := range groups {
		w.wanted += g.size
		w.records[g.name] = &burstRecord{burstGroup: g, bound: sets.New[types.UID](), running: sets.New[types.UID](), done: sets.New[types.UID]()}
	}
	client, err := dynamic.NewForConfig(s.RESTConfig())
	if err != nil {
		s.Fatal(err)
	}
	pods := informers.NewSharedInformerFactoryWithOptions(s.Client(), 0, informers.WithNamespace(s.ns)).Core().V1().Pods().Informer()
	podGroups := dynamicinformer.NewFilteredDynamicInformer(client, scheduling.PodGroups, s.ns, 0, cache.Indexers{}, nil).Informer()
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { w.podSeen(obj.(*corev1.Pod)) },
			UpdateFunc: func(_, obj any) { w.podSeen(obj.(*corev1.Pod)) },
			DeleteFunc: func(obj any) { w.podGone(obj) },
		},
		podGroups: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { w.podGroupSeen(s.T, obj.(*unstructured.Unstructured)) },
			UpdateFunc: func(_, obj any) { w.podGroupSeen(s.T, obj.(*unstructured.Unstructured)) },
			DeleteFunc: func(obj any) { w.podGroupGone(obj) },
		},
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			s.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
		s.Cleanup(cancel)
		go informer.RunWithContext(ctx)
		if !cache.WaitForCacheSync(s.Context().Done(), informer.HasSynced) {
			s.Fatal("the informers of the burst did not begin")
		}
	}
	return w
}

func (w *burstWatch) podSeen(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.records[pod.Labels[burstLabel]]
	w.pods.Insert(pod.UID)
	if pod.Spec.NodeName != "" && !g.bound.Has(pod.UID) {
		g.bound.Insert(pod.UID)
		g.lastBound = time.Now()
		if len(g.bound) == 1 {
			g.firstBound = g.lastBound
		}
		if len(g.bound) == g.minimum() {
			g.all = g.lastBound
		}
	}
	switch pod.Status.Phase {
	case corev1.PodRunning:
		g.running.Insert(pod.UID)
	case corev1.PodSucceeded:
		g.done.Insert(pod.UID)
	case corev1.PodFailed:
		if pod.DeletionTimestamp == nil {
			w.failed = append(w.failed, fmt.Sprintf("%s: %s, %s", pod.Name, pod.Status.Reason, pod.Status.Message))
		}
	case corev1.PodPending, corev1.PodUnknown:
	}
	switch {
	case g.early == "placed" && len(g.bound) > 0, g.ends() && len(g.done) >= g.size:
		w.end(g, 0)
	case !g.ends() && len(g.running) >= g.size:
		w.end(g, burstRun)
	}
}

func (w *burstWatch) podGone(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods.Delete(obj.(*corev1.Pod).UID)
}

// end makes the group be deleted after a while. The caller holds the lock.
func (w *burstWatch) end(g *burstRecord, after time.Duration) {
	if g.ended {
		return
	}
	g.ended = true
	time.AfterFunc(after, func() { w.ended <- g.burstGroup })
}

// made records that all of a group has been created.
func (w *burstWatch) made(g *burstGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.early == "made" {
		w.end(w.records[g.name], 0)
	}
}

// deleted records that a group was deleted.
func (w *burstWatch) deleted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone++
}

// wait waits until all groups have run and been deleted. If that fails, it ends the test
// and logs the groups that are left. Meanwhile it checks for groups that are partly placed.
func (w *burstWatch) wait(s *story) {
	s.Helper()
	told := time.Now()
	err := wait.PollUntilContextTimeout(s.Context(), 250*time.Millisecond, burstPatience, true, func(context.Context) (bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		bound := 0
		for _, g := range w.records {
			bound += len(g.bound)
			if g.partlyPlaced() && time.Since(g.firstBound) > restPatience && !w.stuck.Has(g.name) {
				w.stuck.Insert(g.name)
				s.Errorf("%s %s has had %d of at least %d pods on nodes for %s", g.kind, g.name, len(g.bound), g.minimum(), time.Since(g.firstBound))
			}
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			s.Logf("%.0fs: %d of %d pods were bound, %d groups are over", time.Since(w.start).Seconds(), bound, w.wanted, w.gone)
		}
		return w.gone == len(w.groups), nil
	})
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []string
	for _, g := range w.records {
		if !g.ended {
			left = append(left, fmt.Sprintf("%s %s of %d: %d bound, %d ran, %d ended", g.kind, g.name, g.size, len(g.bound), len(g.running), len(g.done)))
		}
	}
	slices.Sort(left)
	s.Fatalf("after %s %d of %d groups are deleted; %d have not run, such as %q", burstPatience, w.gone, len(w.groups), len(left), left[:min(10, len(left))])
}

// partlyPlaced reports whether only some of the minimum have nodes, for a group that has to run.
func (g *burstRecord) partlyPlaced() bool {
	return g.early == "" && len(g.bound) > 0 && len(g.bound) < g.minimum()
}

// present returns the number of pods that exist.
func (w *burstWatch) present() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pods)
}
