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

// handoverEvery is the period at which a leader reads what standbys
// report, and a standby checks whether its own report is out of date.
const handoverEvery = 5 * time.Second

// handover moves leadership to a scheduler whose matcher answers. A standby writes to the
// ConfigMap statusmap.Name whether its matcher answers. A leader whose matcher has been
// silent for statusmap.MaxSilence gives up its lease if the matcher of a standby answers.
type handover struct {
	client    kubernetes.Interface
	namespace string
	// name is the name of this process. key is its own key in the ConfigMap.
	name, key string
	leading   func() bool
	// silentFor returns how long the matcher has not answered.
	silentFor func() time.Duration
	// ready reports whether this scheduler could place groups.
	ready func() bool
	// giveUp gives up the lease of this process; nil if the process has none to give up.
	giveUp func()
	// failed is called for each failed write.
	failed func()

	observer statusmap.Observer
	// lastWritten is what this standby wrote last.
	lastWritten statusmap.Standby
	// lastError is the last failure that was logged, so that it is logged once.
	lastError string
	// handedOver reports whether the lease was given up.
	handedOver bool

	mu sync.Mutex
	// latest is the result of the leader's last read, for metrics. mu guards it.
	latest standbySnapshot
}

// standbySnapshot is what a leader read last.
type standbySnapshot struct {
	// read reports whether the leader has read anything.
	read bool
	// healthy is the number of standbys whose matcher answers.
	healthy      int
	lastHandover time.Time
}

// EnableHandover sets giveUp, which is called at most once: when this scheduler
// leads, its matcher does not answer, and the matcher of a standby does. giveUp
// must release the lease and end the process. Without EnableHandover a leader never
// hands over, and a standby reports nothing. Call it before the scheduler runs.
func EnableHandover(sched *scheduler.Scheduler, giveUp func()) {
	for pl := range pluginsOf(sched) {
		pl.handover.giveUp = giveUp
	}
}

func newHandover(client kubernetes.Interface, namespace, name string) *handover {
	return &handover{client: client, namespace: namespace, name: name, key: statusmap.StandbyKey(name, rand.String(8))}
}

// run takes a step each handoverEvery until ctx ends. It returns at
// once if there is no namespace to write to, or no lease to give up.
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
			// Each step tries again, but a failure is logged once.
			if why := err.Error(); why != h.lastError {
				h.lastError = why
				klog.FromContext(ctx).Error(err, "Failed to write or read whose matcher answers", "namespace", h.namespace, "name", statusmap.Name, "retryAfter", handoverEvery)
			}
		} else if err == nil {
			h.lastError = ""
		}
	}
}

// step takes one step as leader or as standby.
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

// standBy writes whether the matcher answers, if that has changed or the last report is old.
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

// lead reads what standbys report, and hands over to a standby if it
// is time to. Otherwise it removes the keys of standbys that are gone.
func (h *handover) lead(ctx context.Context, now time.Time) error {
	if err := h.read(ctx, now); err != nil {
		return err
	}
	healthy := h.observer.HealthyStandbys(now)
	h.storeStandbys(len(healthy))
	if silent := h.silentFor(); silent >= statusmap.MaxSilence && len(healthy) > 0 && h.observer.MayHandOver(now) {
		return h.handOver(ctx, now, silent, healthy[0])
	}
	return h.remove(ctx, h.observer.StaleKeys(now))
}

// handOver records the handover in the ConfigMap, and then gives up the
// lease. Without that record the next leader might hand over again too soon.
func (h *handover) handOver(ctx context.Context, now time.Time, silent time.Duration, to statusmap.Standby) error {
	text, err := statusmap.Handover{From: h.name, At: now.UTC().Truncate(time.Second)}.Text()
	if err == nil {
		err = h.write(ctx, statusmap.HandoverKey, text)
	}
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Giving up the lease: the matcher is silent, and a standby says that its own answers",
		"silent", silent.Round(time.Second), "standby", to.Name, "nextHandoverAfter", statusmap.MinHandoverInterval)
	h.handedOver = true
	h.giveUp()
	return nil
}

// storeStandbys stores what was read, for metrics.
func (h *handover) storeStandbys(healthy int) {
	last, _ := h.observer.LastHandover()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latest = standbySnapshot{read: true, healthy: healthy, lastHandover: last.At}
}

// standbys returns what was read last.
func (h *handover) standbys() standbySnapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest
}

// read reads the ConfigMap into the observer.
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

// write applies one key with a field manager for that key,
// so that server-side apply leaves all other keys unchanged.
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

// remove deletes keys from the ConfigMap.
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
