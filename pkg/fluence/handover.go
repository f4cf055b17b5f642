package fluence

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/statusmap"
)

// handoverEvery is how often a leader reads what standbys say, and a standby looks whether
// there is something else to say.
const handoverEvery = 5 * time.Second

// A handover has a scheduler lead whose matcher answers: while this one stands by, it says
// in the ConfigMap of package health whether its own does; while it leads and its own is
// silent, it gives up its lease to one that says so.
type handover struct {
	client    kubernetes.Interface
	namespace string
	// name is that of this process, and key what it says stands under.
	name, key string
	leading   func() bool
	// silentFor says for how long the matcher gives no answer, and well that groups can be
	// asked for.
	silentFor func() time.Duration
	ready     func() bool
	// giveUp has this process give up its lease; nil where it cannot.
	giveUp func()
	// failed is told of each write that failed.
	failed func()

	observer statusmap.Observer
	// lastWritten is what was said last, and wrong what was logged of a failure.
	lastWritten statusmap.Standby
	lastError   string
	// handedOver says that the lease was given up.
	handedOver bool

	mu     sync.Mutex
	latest standbySnapshot
}

// standbySnapshot are what a leader last read.
type standbySnapshot struct {
	// read says that it has read at all.
	read         bool
	healthy      int
	lastHandover time.Time
}

// EnableHandover has Fluence in a scheduler call giveUp, once, when this scheduler leads, its
// matcher is silent, and a standby's is well: giveUp has the process give up its lease and
// end. Without it a leader leads to its end, and a standby says nothing of itself. It is to
// be called before the scheduler runs.
func EnableHandover(sched *scheduler.Scheduler, giveUp func()) {
	for pl := range pluginsOf(sched) {
		pl.handover.giveUp = giveUp
	}
}

func newHandover(client kubernetes.Interface, namespace, name string) *handover {
	return &handover{client: client, namespace: namespace, name: name, key: statusmap.StandbyKey(name, rand.String(8))}
}

// run looks until ctx ends; without a namespace, or a lease to give up, it has nothing to do.
func (h *handover) run(ctx context.Context) {
	if h.namespace == "" || h.giveUp == nil {
		return
	}
	t := time.NewTicker(handoverEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := h.step(ctx, time.Now()); err != nil && ctx.Err() == nil {
			// It is tried again and again, and said once.
			if why := err.Error(); why != h.lastError {
				h.lastError = why
				klog.FromContext(ctx).Error(err, "Tell or read whose matcher answers", "namespace", h.namespace, "name", statusmap.Name, "again", handoverEvery)
			}
		} else if err == nil {
			h.lastError = ""
		}
	}
}

// step does what there is to do at a time.
func (h *handover) step(ctx context.Context, now time.Time) error {
	switch {
	case h.handedOver:
		return nil
	case h.leading():
		return h.lead(ctx, now)
	default:
		return h.standBy(ctx, now)
	}
}

// standBy says whether the matcher answers.
func (h *handover) standBy(ctx context.Context, now time.Time) error {
	s := statusmap.Standby{Name: h.name, MatcherAnswers: h.ready(), Updated: now.UTC().Truncate(time.Second)}
	if s.MatcherAnswers == h.lastWritten.MatcherAnswers && now.Sub(h.lastWritten.Updated) < statusmap.HeartbeatInterval {
		return nil
	}
	text, err := s.Text()
	if err == nil {
		err = h.write(ctx, h.key, text)
	}
	if err == nil {
		h.lastWritten = s
	}
	return err
}

// lead reads what standbys say, and hands over to them if it is time to.
func (h *handover) lead(ctx context.Context, now time.Time) error {
	if err := h.read(ctx, now); err != nil {
		return err
	}
	well := h.observer.HealthyStandbys(now)
	h.publish(len(well))
	if silent := h.silentFor(); silent >= statusmap.MaxSilence && len(well) > 0 && h.observer.MayHandOver(now) {
		return h.handOver(ctx, now, silent, well[0])
	}
	return h.remove(ctx, h.observer.StaleKeys(now))
}

// handOver writes down that the lease is given up before it is: who comes next is to know.
func (h *handover) handOver(ctx context.Context, now time.Time, silent time.Duration, to statusmap.Standby) error {
	text, err := statusmap.Handover{From: h.name, At: now.UTC().Truncate(time.Second)}.Text()
	if err == nil {
		err = h.write(ctx, statusmap.HandoverKey, text)
	}
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Giving up the lease: the matcher is silent, and a standby says that its own answers",
		"silent", silent.Round(time.Second), "standby", to.Name, "again", statusmap.MinHandoverInterval)
	h.handedOver = true
	h.giveUp()
	return nil
}

// publish notes for those who look on what was read.
func (h *handover) publish(well int) {
	last, _ := h.observer.LastHandover()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latest = standbySnapshot{read: true, healthy: well, lastHandover: last.At}
}

func (h *handover) standbys() standbySnapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest
}

// read has the observer read the ConfigMap.
func (h *handover) read(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Get(ctx, statusmap.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		h.observer.Update(nil, now)
	case err != nil:
		return fmt.Errorf("get ConfigMap %s/%s: %w", h.namespace, statusmap.Name, err)
	default:
		h.observer.Update(cm.Data, now)
	}
	return nil
}

// write writes one key, of which a manager of its own is the owner: all others stay as they are.
func (h *handover) write(ctx context.Context, key, text string) error {
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	_, err := h.client.CoreV1().ConfigMaps(h.namespace).Apply(ctx,
		corev1ac.ConfigMap(statusmap.Name, h.namespace).WithData(map[string]string{key: text}),
		metav1.ApplyOptions{FieldManager: report.FieldManager + "/" + key, Force: true})
	if err != nil {
		h.failed()
		return fmt.Errorf("apply %q of ConfigMap %s/%s: %w", key, h.namespace, statusmap.Name, err)
	}
	return nil
}

// remove removes keys.
func (h *handover) remove(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	none := make(map[string]any, len(keys))
	for _, key := range keys {
		none[key] = nil
	}
	body, err := json.Marshal(map[string]any{"data": none})
	if err != nil {
		return fmt.Errorf("encode the keys of standbys that are gone: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	_, err = h.client.CoreV1().ConfigMaps(h.namespace).Patch(ctx, statusmap.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: report.FieldManager})
	if err != nil {
		h.failed()
		return fmt.Errorf("remove the keys of standbys that are gone from ConfigMap %s/%s: %w", h.namespace, statusmap.Name, err)
	}
	return nil
}
