package fluence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

const (
	// maxStage is the largest stage.
	maxStage = 127
	// maxTemplates bounds the bytes of the pods in a PodGroup's templates. Larger ones are not read.
	maxTemplates = 256 << 10
	// maxTemplateName bounds the bytes of a template's name.
	maxTemplateName = 253
	// maxSeats bounds the bytes of the seats in a PodGroup's status.
	maxSeats = 256 << 10
)

// seatsManager is the field manager of status.seats. The conditions have another,
// because an apply removes the fields of its manager that it leaves out.
const seatsManager = report.FieldManager + "-seats"

// seatRules returns the rules for seats.
func (b *base) seatRules() gang.SeatRules {
	return gang.SeatRules{
		ExpectTimeout: b.args.ExpectTimeout.Duration, ExpectTotal: b.args.ExpectTotal.Duration, ScheduleTimeout: b.args.ScheduleTimeout.Duration,
		ExpectRules: b.expectRules(),
		SlotOf: func(pod *corev1.Pod, node string) match.Slot {
			on := *pod
			on.Spec.NodeName = node
			return translate.HeldSlot(&on)
		},
	}
}

// templatesOf converts the templates of a PodGroup. It returns nil if there are none, or if one is invalid.
func templatesOf(pg *scheduling.PodGroup) *gang.Templates {
	if len(pg.Spec.Templates) == 0 || whyInvalidTemplates(pg) != "" {
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

// templatesFault returns what is wrong with the templates of a PodGroup, which any user may have written. It is
// zero if they are valid.
func templatesFault(pg *scheduling.PodGroup, read *gang.Templates) gang.Fault {
	why := whyInvalidTemplates(pg)
	if why == "" && read == nil && len(pg.Spec.Templates) > 0 {
		why = "spec.templates: the pod of a template cannot be read"
	}
	if why == "" {
		return gang.Fault{}
	}
	return gang.Fault{Reason: reason.InvalidGroupSize, Message: "PodGroup " + pg.Name + ": " + why}
}

// whyInvalidTemplates returns which field of the templates of a PodGroup is invalid, or nothing.
func whyInvalidTemplates(pg *scheduling.PodGroup) string {
	if len(pg.Spec.Templates) > group.MaxTemplates {
		return fmt.Sprintf("spec.templates: has more than %d templates", group.MaxTemplates)
	}
	pods, seen := int64(0), map[string]bool{}
	for i, t := range pg.Spec.Templates {
		switch {
		case t.Name == "" || len(t.Name) > maxTemplateName:
			return fmt.Sprintf("spec.templates[%d].name: %q: must have 1 to %d bytes", i, translate.Shorten(t.Name), maxTemplateName)
		case seen[t.Name]:
			return fmt.Sprintf("spec.templates[%d].name: %q: is there twice", i, t.Name)
		}
		for _, n := range []struct {
			field       string
			value, most int32
		}{{"coming", t.Coming, group.MaxSize}, {"expected", t.Expected, group.MaxSize}, {"stage", t.Stage, maxStage}} {
			if n.value < 0 || n.value > n.most {
				return fmt.Sprintf("spec.templates[%d].%s: %d: must be from 0 to %d", i, n.field, n.value, n.most)
			}
		}
		if pods += int64(t.Coming) + int64(t.Expected); pods > group.MaxSize {
			return fmt.Sprintf("spec.templates: %d pods: a group may have %d", pods, group.MaxSize)
		}
		seen[t.Name] = true
	}
	return ""
}

// seatsOf returns what a PodGroup's status records of its seats. It returns nil if the status says nothing,
// or more than this scheduler writes.
func seatsOf(pg *scheduling.PodGroup) gang.RecordedSeats {
	all, bytes := gang.RecordedSeats{}, 0
	for template, nodes := range pg.Status.Seats {
		bytes += len(template)
		for node, n := range nodes {
			if bytes += len(node); n <= 0 {
				continue
			}
			if all[template] == nil {
				all[template] = map[string]int{}
			}
			all[template][node] = min(int(n), group.MaxSize)
		}
	}
	if len(all) == 0 || bytes > maxSeats {
		return nil
	}
	return all
}

// recordSeats writes the seats of a pod's group into the PodGroup's status, if the group has not started and
// they are not there yet. It is called before a pod waits for its bind. It returns why the pod may not be
// bound, or nothing.
func (b *binder) recordSeats(ctx context.Context, uid types.UID) (why string) {
	key, ok := b.groups.KeyOf(uid)
	if !ok || b.groups.SeatsToRecord(key) == nil {
		return ""
	}
	if m, ok := b.groups.GroupOf(uid); !ok || m.Started {
		return "" // rewriteSeats does it
	}
	if err := b.writeSeats(ctx, key); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to record the seats of pods that are expected", "group", key)
		return fmt.Sprintf("the seats of the pods that are expected could not be recorded: %v", err)
	}
	return ""
}

// writeSeats writes the seats of a group into the PodGroup's status, if they are not there yet.
func (b *binder) writeSeats(ctx context.Context, key types.NamespacedName) error {
	b.recording.LockKey(key.String())
	defer func() { _ = b.recording.UnlockKey(key.String()) }()
	r := b.groups.SeatsToRecord(key)
	if r == nil {
		return nil
	}
	err := b.seats.applySeats(ctx, key, r, b.now())
	if scheduling.LacksField(err) {
		klog.FromContext(ctx).Info("The CRD of PodGroup is older than this scheduler: the seats of pods that are expected are not recorded, and a restart forgets them; apply manifests/crds", "crd", scheduling.CRDName, "group", key)
		err = nil
	}
	if err != nil {
		return err
	}
	b.groups.SeatsRecorded(key, r)
	return nil
}

// rewriteSeatsEvery is the time between two checks of which seats have to be written again.
const rewriteSeatsEvery = time.Second

// rewriteSeats writes the seats of groups whose seats were given back, lost or found, until ctx ends. A
// scheduler that does not lead writes none.
func (w *watcher) rewriteSeats(ctx context.Context) {
	t := time.NewTicker(rewriteSeatsEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if !w.stateCollector.leads.Load() {
			continue
		}
		for _, key := range w.groups.UnrecordedSeats() {
			if err := w.binder.writeSeats(ctx, key); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Failed to record a change of seats; it is tried again", "group", key)
				w.counters.countFailedWrite(writesPodGroup)
				break
			}
		}
	}
}

// applySeats writes the seats of a group, and why pods have none, into the status of its PodGroup.
func (p *podGroups) applySeats(ctx context.Context, key types.NamespacedName, r *gang.SeatRecord, now time.Time) error {
	pg := p.Get(key)
	if pg == nil {
		return fmt.Errorf("PodGroup %s does not exist", key)
	}
	status := map[string]any{}
	if len(r.Seats) > 0 {
		status["seats"] = r.Seats
	}
	if r.Reason != "" {
		status["conditions"] = []metav1.Condition{{
			Type: scheduling.ConditionSeatsHeld, Status: metav1.ConditionFalse, Reason: r.Reason, Message: translate.Shorten(r.Message),
			LastTransitionTime: metav1.NewTime(now), ObservedGeneration: pg.Generation,
		}}
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": scheduling.GroupVersion.String(),
		"kind":       "PodGroup",
		"metadata":   map[string]any{"name": pg.Name, "namespace": pg.Namespace, "uid": pg.UID},
		"status":     status,
	})
	if err != nil {
		return fmt.Errorf("encode the seats of PodGroup %s: %w", key, err)
	}
	if len(body) > maxSeats {
		return fmt.Errorf("status.seats of PodGroup %s takes %d bytes, and may have %d: the group has too many templates or nodes", key, len(body), maxSeats)
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
