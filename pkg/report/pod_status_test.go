package report

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/flux-k8s/fluence/test/objects"
)

// ns is the namespace of the pods.
const ns = "ns"

// podStatusTest is a PodStatusWriter over an API server and a watch that the test controls.
type podStatusTest struct {
	*testing.T
	*PodStatusWriter
	kubernetes.Interface
	corev1client.CoreV1Interface
	corev1client.PodInterface

	// takes is how long a write takes. lags is how long after a write that succeeds
	// the watch shows it.
	takes, lags time.Duration
	// fails is the error of a write.
	fails error

	mu       sync.Mutex
	version  int
	pods     map[string]*corev1.Pod
	watched  cache.Indexer
	writes   []string
	failures int
}

// withPodStatusWriter runs a test in a bubble, with a pod for each of the names.
func withPodStatusWriter(t *testing.T, test func(*podStatusTest), names ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &podStatusTest{T: t, pods: map[string]*corev1.Pod{}, watched: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
		w.PodStatusWriter = NewPodStatusWriter(w, func() corelisters.PodLister { return corelisters.NewPodLister(w.watched) }, w.count)
		for _, name := range names {
			w.make(ns, name)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w.PodStatusWriter.Run(ctx)
		test(w)
		cancel()
		w.Stop()
		synctest.Wait()
	})
}

// make creates a pod, which the watch shows at once.
func (w *podStatusTest) make(namespace, name string, edit ...func(*corev1.Pod)) {
	pod := objects.Pod(name, append(edit, objects.In(namespace))...)
	w.pods[name] = pod
	w.changed(pod)
	if err := w.watched.Add(pod.DeepCopy()); err != nil {
		w.Fatal(err)
	}
}

func (w *podStatusTest) changed(pod *corev1.Pod) {
	w.version++
	pod.ResourceVersion = strconv.Itoa(w.version)
}

func unscheduledCondition(message string) []*corev1.PodCondition {
	return []*corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}}
}

// patchStatus queues a message to be written on a pod.
func (w *podStatusTest) patchStatus(name, text string) {
	w.Helper()
	w.mu.Lock()
	pod := w.pods[name]
	w.mu.Unlock()
	if _, err := w.PatchPodStatus(pod, unscheduledCondition(text), nil); err != nil {
		w.Fatal(err)
	}
}

// message returns the message that a pod has.
func (w *podStatusTest) message(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, c := podutil.GetPodCondition(&w.pods[name].Status, corev1.PodScheduled); c != nil {
		return c.Message
	}
	return ""
}

// written returns how often the API server was asked to write, and how many failures were counted.
func (w *podStatusTest) written() (writes, failures int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.writes), w.failures
}

// count counts a write that failed.
func (w *podStatusTest) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures++
}

// failWrites sets the error of all further writes.
func (w *podStatusTest) failWrites(fails error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = fails
}

func (w *podStatusTest) CoreV1() corev1client.CoreV1Interface            { return w }
func (w *podStatusTest) Pods(namespace string) corev1client.PodInterface { return w }

func (w *podStatusTest) Patch(_ context.Context, name string, _ types.PatchType, body []byte, how metav1.PatchOptions, _ ...string) (*corev1.Pod, error) {
	if how.FieldManager != FieldManager {
		return nil, fmt.Errorf("field manager %q: the command why would not know the time", how.FieldManager)
	}
	time.Sleep(w.takes) // in the time of the bubble
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, name)
	if w.fails != nil {
		return nil, w.fails
	}
	var patch corev1.Pod
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, err
	}
	if patch.ResourceVersion != w.pods[name].ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, fmt.Errorf("changed"))
	}
	pod := w.pods[name].DeepCopy()
	for _, c := range patch.Status.Conditions {
		podutil.UpdatePodCondition(&pod.Status, &c)
	}
	w.changed(pod)
	w.pods[name] = pod
	seen := pod.DeepCopy()
	time.AfterFunc(w.lags, func() { _ = w.watched.Update(seen) })
	return pod.DeepCopy(), nil
}

// pass lets time pass, and then waits until all goroutines block.
func (w *podStatusTest) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// The last message is written in the end, however long the watch lags behind what was
// written. It is compared with what was written, and not with what the watch shows.
func TestLastStatusIsWrittenDespiteStaleCache(t *testing.T) {
	for name, last := range map[string]string{"other words": "c", "the words that are still seen": "a"} {
		t.Run(name, func(t *testing.T) {
			withPodStatusWriter(t, func(w *podStatusTest) {
				w.patchStatus("p", "a")
				w.pass(minMessageInterval)
				w.lags = 20 * time.Second
				w.patchStatus("p", "b")
				w.pass(time.Second)
				w.patchStatus("p", last)
				w.pass(w.lags + maxMessageInterval + 2*maxStaleDelay)
				if got := w.message("p"); got != last {
					t.Errorf("it is told %q, want %q", got, last)
				}
				if writes, failures := w.written(); writes != 3 || failures > 0 {
					t.Errorf("%d writes, of which %d failed; want one for each that was said", writes, failures)
				}
			}, "p")
		})
	}
}

// Many pods may wait, and their messages change with every node. Only numbers wait, and the last ones are written.
func TestNumbersAloneAreWrittenRarely(t *testing.T) {
	withPodStatusWriter(t, func(w *podStatusTest) {
		for i := range 600 {
			w.patchStatus("p", fmt.Sprint("message ", i))
			w.pass(100 * time.Millisecond)
		}
		// At 0, 5, 15, 35 and 55 s.
		if writes, _ := w.written(); writes != 5 {
			t.Errorf("%d writes in a minute, want 5", writes)
		}
		other := unscheduledCondition("the scheduler failed")
		other[0].Reason = corev1.PodReasonSchedulerError
		if _, err := w.PatchPodStatus(w.stored(), other, nil); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		if got := w.message("p"); got != "the scheduler failed" {
			t.Errorf("a second after the reason has changed it is told %q", got)
		}
		if _, err := w.PatchPodStatus(w.stored(), nil, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		if writes, _ := w.written(); writes != 7 {
			t.Errorf("%d writes, want one for the reason and one for the nomination", writes-5)
		}
		w.patchStatus("p", "other words")
		w.pass(time.Second)
		if got := w.message("p"); got != "other words" {
			t.Errorf("a second after the words have changed it is told %q", got)
		}
		w.patchStatus("p", "still other words")
		w.pass(time.Second)
		if got := w.message("p"); got != "still other words" {
			t.Errorf("a second after the words have changed once more it is told %q", got)
		}
		w.patchStatus("p", "other words 1")
		w.pass(maxMessageInterval)
		if got := w.message("p"); got != "other words 1" {
			t.Errorf("in the end it is told %q", got)
		}
	}, "p")
}

// The numbers of many pods change at once. Their writes share one bound, and each pod is written to in the end.
func TestNumbersOfManyPodsAreWrittenSlowly(t *testing.T) {
	var names []string
	for i := range 3 * numbersBurst {
		names = append(names, fmt.Sprint("p", i))
	}
	withPodStatusWriter(t, func(w *podStatusTest) {
		tell := func(text string) {
			for _, name := range names {
				w.patchStatus(name, text)
			}
		}
		tell("room for 0")
		w.pass(2 * maxMessageInterval)
		before, _ := w.written()
		tell("room for 1")
		w.pass(10 * time.Second)
		if writes, _ := w.written(); writes-before > numbersBurst+10*numbersRate+numbersRate {
			t.Errorf("%d writes in 10 s, want at most %d and %d a second", writes-before, numbersBurst, numbersRate)
		}
		w.pass(6 * numbersBurst / numbersRate * time.Second)
		for _, name := range names {
			if got := w.message(name); got != "room for 1" {
				t.Fatalf("in the end pod %s is told %q", name, got)
			}
		}
	}, names...)
}

// The same holds for messages that come while others are being written.
func TestStatusDuringAWriteIsWritten(t *testing.T) {
	withPodStatusWriter(t, func(w *podStatusTest) {
		w.patchStatus("p", "a")
		w.pass(time.Second)
		w.takes, w.lags = time.Second, time.Second
		w.patchStatus("p", "b")
		w.pass(time.Second / 2)
		w.patchStatus("p", "a")
		w.pass(time.Minute)
		if got := w.message("p"); got != "a" {
			t.Errorf("it is told %q, want the last words", got)
		}
	}, "p")
}

// A pod that another client has changed gets its message once the watch shows the change.
func TestStatusIsRetriedAfterConflict(t *testing.T) {
	withPodStatusWriter(t, func(w *podStatusTest) {
		w.mu.Lock()
		w.changed(w.pods["p"])
		seen := w.pods["p"].DeepCopy()
		w.mu.Unlock()
		w.patchStatus("p", "a")
		w.pass(5 * time.Second)
		if writes, failures := w.written(); writes != 1 || failures > 0 {
			t.Errorf("%d writes before the change is seen, of which %d failed; want one", writes, failures)
		}
		w.must(w.watched.Update(seen))
		w.pass(2 * maxStaleDelay)
		if got := w.message("p"); got != "a" {
			t.Errorf("it is told %q once the change is seen", got)
		}
	}, "p")
}

func (w *podStatusTest) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// A pod gets its message in the end, however long the API server takes nothing. Each
// try that fails is counted, and the tries become ever rarer.
func TestStatusIsRetriedWhileWritesFail(t *testing.T) {
	withPodStatusWriter(t, func(w *podStatusTest) {
		w.failWrites(fmt.Errorf("connection refused"))
		w.patchStatus("p", "a")
		w.pass(10 * time.Minute)
		writes, failures := w.written()
		if writes < 20 || writes > 30 || failures != writes {
			t.Errorf("%d writes in ten minutes, of which %d are counted as failed; want 20 to 30, all of them", writes, failures)
		}
		// A newer message is tried at once.
		w.patchStatus("p", "b")
		w.pass(time.Second)
		if more, _ := w.written(); more < writes+4 {
			t.Errorf("newer words were tried %d times in a second", more-writes)
		}
		w.failWrites(nil)
		w.pass(maxPodStatusDelay)
		if got := w.message("p"); got != "b" {
			t.Errorf("it is told %q", got)
		}
		writes, _ = w.written()
		w.pass(10 * time.Minute)
		if more, _ := w.written(); more != writes {
			t.Errorf("%d writes more after it was told", more-writes)
		}
	}, "p")
}

// Nothing is written on a pod that has a node or is gone.
func TestStatusIsDroppedWithItsPod(t *testing.T) {
	for name, end := range map[string]func(w *podStatusTest) error{
		"gone":    func(w *podStatusTest) error { return w.watched.Delete(w.stored()) },
		"bound":   func(w *podStatusTest) error { p := w.stored(); p.Spec.NodeName = "n1"; return w.watched.Update(p) },
		"another": func(w *podStatusTest) error { p := w.stored(); p.UID = "other"; return w.watched.Update(p) },
	} {
		t.Run(name, func(t *testing.T) {
			withPodStatusWriter(t, func(w *podStatusTest) {
				w.failWrites(fmt.Errorf("connection refused"))
				w.patchStatus("p", "a")
				w.pass(time.Minute)
				w.must(end(w))
				before, _ := w.written()
				w.pass(10 * time.Minute)
				if after, _ := w.written(); after > before || len(w.items) > 0 {
					t.Errorf("%d writes more, and %d words are kept", after-before, len(w.items))
				}
			}, "p")
		})
	}
}

// stored returns the pod p as the API server has it.
func (w *podStatusTest) stored() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods["p"].DeepCopy()
}

// A namespace with very many pods, whose messages change again and again, does not delay
// the first message of another. Within a namespace, pods without a message come first.
func TestPodStatusWritesAlternateAmongNamespaces(t *testing.T) {
	withPodStatusWriter(t, func(w *podStatusTest) {
		const many = 2000
		told := func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{*unscheduledCondition("before")[0]} }
		for i := range many {
			w.make("a", fmt.Sprint("a-", i), told)
		}
		w.make("a", "new")
		w.make("b", "b")
		w.takes = 10 * time.Millisecond
		for round := range 10 {
			for i := range many {
				w.patchStatus(fmt.Sprint("a-", i), fmt.Sprint("round ", round))
			}
			if round == 5 {
				w.patchStatus("b", "why")
				w.patchStatus("new", "why")
			}
			w.pass(time.Second)
			if round != 5 {
				continue
			}
			for _, name := range []string{"b", "new"} {
				if got := w.message(name); got != "why" {
					t.Errorf("%s is told %q within a second", name, got)
				}
			}
		}
		w.pass(4 * many / numbersRate * time.Second)
		for i := range many {
			if got := w.message(fmt.Sprint("a-", i)); got != "round 9" {
				t.Fatalf("pod %d of the others is told %q in the end", i, got)
			}
		}
		if n := w.order.Len() + len(w.items); n > 0 {
			t.Errorf("%d pods wait to be told, and nothing is left to tell", n)
		}
		w.pass(2 * podStatusMaxLag)
		w.patchStatus("b", "again")
		w.pass(time.Second)
		if n := len(w.staleness); n > 1 {
			t.Errorf("what was written of %d pods is kept", n)
		}
	})
}
