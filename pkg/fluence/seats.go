package fluence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// maxTemplates bounds the bytes of the pods in a PodGroup's templates. Larger ones are not read.
const maxTemplates = 256 << 10

// maxSeats bounds the bytes of the seats in a PodGroup's status.
const maxSeats = 256 << 10

// seatsManager is the field manager of status.seats. The conditions have another,
// because an apply removes the fields of its manager that it leaves out.
const seatsManager = report.FieldManager + "-seats"

// seatRules returns the rules for seats.
func (b *base) seatRules() gang.SeatRules {
	return gang.SeatRules{
		ExpectTimeout: b.args.ExpectTimeout.Duration, ExpectTotal: b.args.ExpectTotal.Duration, ScheduleTimeout: b.args.ScheduleTimeout.Duration,
		ExpectRules: b.expectRules(),
		SlotOf: func(pod *corev1.Pod, node string) match.Slot {
			on := pod.DeepCopy()
			on.Spec.NodeName = node
			return translate.HeldSlot(on)
		},
	}
}

// templatesOf converts the templates of a PodGroup. It returns nil if there are none, or if one cannot be read.
func templatesOf(pg *scheduling.PodGroup) *gang.Templates {
	if len(pg.Spec.Templates) == 0 {
		return nil
	}
	h := sha256.New()
	all := &gang.Templates{}
	for _, t := range pg.Spec.Templates {
		pod := &corev1.Pod{}
		if t.Pod != nil {
			if err := json.Unmarshal(t.Pod.Raw, pod); err != nil {
				return nil
			}
			h.Write(t.Pod.Raw)
		}
		fmt.Fprintln(h, t.Name, t.Coming, t.Expected, t.After, t.Leader, t.Stage)
		all.List = append(all.List, gang.Template{
			Name: t.Name, Coming: int(t.Coming), Expected: int(t.Expected), AfterReady: t.After == string(group.AfterReady),
			Leader: t.Leader, Stage: int(t.Stage), Pod: pod,
		})
	}
	all.Hash = hex.EncodeToString(h.Sum(nil))
	return all
}

// seatsOf returns what a PodGroup's status records of its seats.
func seatsOf(pg *scheduling.PodGroup) gang.RecordedSeats {
	if len(pg.Status.Seats) == 0 {
		return nil
	}
	all := gang.RecordedSeats{}
	for template, nodes := range pg.Status.Seats {
		all[template] = map[string]int{}
		for node, n := range nodes {
			all[template][node] = int(n)
		}
	}
	return all
}

// recordSeats writes the seats of a pod's group into the PodGroup's status, if they are not there yet. It is
// called before a pod waits for its bind. It returns why the pod may not be bound, or nothing.
func (b *binder) recordSeats(ctx context.Context, uid types.UID) (why string) {
	key, ok := b.groups.KeyOf(uid)
	if !ok || b.groups.SeatsToRecord(key) == nil {
		return ""
	}
	b.recording.LockKey(key.String())
	defer func() { _ = b.recording.UnlockKey(key.String()) }()
	seats := b.groups.SeatsToRecord(key)
	if seats == nil {
		return ""
	}
	err := b.seats.applySeats(ctx, key, seats)
	if scheduling.LacksField(err) {
		klog.FromContext(ctx).Info("The CRD of PodGroup is older than this scheduler: the seats of pods that are expected are not recorded, and a restart forgets them; apply manifests/crds", "crd", scheduling.CRDName, "group", key)
		err = nil
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to record the seats of pods that are expected", "group", key)
		return fmt.Sprintf("the seats of the pods that are expected could not be recorded: %v", err)
	}
	b.groups.SeatsRecorded(key)
	return ""
}

// applySeats writes the seats of a group into the status of its PodGroup.
func (p *podGroups) applySeats(ctx context.Context, key types.NamespacedName, seats gang.RecordedSeats) error {
	pg := p.Get(key)
	if pg == nil {
		return fmt.Errorf("PodGroup %s does not exist", key)
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": scheduling.GroupVersion.String(),
		"kind":       "PodGroup",
		"metadata":   map[string]any{"name": pg.Name, "namespace": pg.Namespace, "uid": pg.UID},
		"status":     map[string]any{"seats": seats},
	})
	if err != nil {
		return fmt.Errorf("encode the seats of PodGroup %s: %w", key, err)
	}
	if len(body) > maxSeats {
		return fmt.Errorf("the seats of PodGroup %s take %d bytes, and a status may have %d", key, len(body), maxSeats)
	}
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	err = p.client.Patch(types.ApplyPatchType).
		Namespace(pg.Namespace).Resource(scheduling.PodGroups.Resource).Name(pg.Name).SubResource("status").
		Param("fieldManager", seatsManager).Param("force", "true").
		Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("apply the seats of PodGroup %s: %w", key, err)
	}
	return nil
}

// expireSeats gives back the seats of groups that have expected pods for too long.
func (w *watcher) expireSeats(ctx context.Context, now time.Time) {
	w.apply(ctx, w.groups.ExpireSeats(now))
}
