package podgroup

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// applyFields applies (server-side) the fields of metadata and spec that this controller owns.
// Server-side apply removes the controller from the managers of a field that it leaves out. So old
// owner references disappear, and a minMember that a user has set stays. Only fields that the
// creation also wrote are applied.
func (r *reconciler) applyFields(ctx context.Context, pg *scheduling.PodGroup, s *fieldsToApply) error {
	fields := map[string]any{}
	if s.minMember > 0 {
		fields["minMember"] = s.minMember
	}
	if len(s.templates) > 0 {
		fields["templates"] = s.templates
	}
	metadata := map[string]any{"resourceVersion": pg.ResourceVersion}
	if len(s.owners) > 0 {
		metadata["ownerReferences"] = s.owners
	}
	data, err := applyPatch(pg, metadata, "spec", fields)
	if err != nil {
		return err
	}
	return r.client.Patch(ctx, pg.DeepCopy(), data, client.FieldOwner(FieldManager), client.ForceOwnership)
}

// applyStatus writes the fields of the status that belong to this
// controller. Of the conditions it writes only its own. It leaves out
// the fields that the CRD lacks.
func (r *reconciler) applyStatus(ctx context.Context, pg *scheduling.PodGroup, s *scheduling.PodGroupStatus, crd lacking) error {
	fields := map[string]any{"phase": s.Phase, "running": s.Running, "succeeded": s.Succeeded, "failed": s.Failed}
	if s.OccupiedBy != "" {
		fields["occupiedBy"] = s.OccupiedBy
	}
	if !crd.legacyCRD && !crd.noDesired {
		fields["desired"] = s.Desired
	}
	if !crd.legacyCRD {
		fields["scheduled"] = s.Scheduled
		fields["creationTime"] = s.CreationTime
		fields["conditions"] = ownConditions(s)
	}
	data, err := applyPatch(pg, map[string]any{}, "status", fields)
	if err != nil {
		return err
	}
	return r.client.Status().Patch(ctx, pg.DeepCopy(), data, client.FieldOwner(FieldManager), client.ForceOwnership)
}

func ownConditions(s *scheduling.PodGroupStatus) []metav1.Condition {
	var own []metav1.Condition
	for _, c := range s.Conditions {
		switch c.Type {
		case ConditionValid, ConditionIncomplete, ConditionFinished, scheduling.ConditionMembersExpected:
			own = append(own, c)
		}
	}
	return own
}

// applyPatch is a server-side apply of one section of a PodGroup,
// "spec" or "status". It carries the UID, so that it neither creates
// a deleted PodGroup again nor changes a later one of the same name.
func applyPatch(pg *scheduling.PodGroup, metadata map[string]any, section string, fields map[string]any) (client.Patch, error) {
	metadata["namespace"], metadata["name"], metadata["uid"] = pg.Namespace, pg.Name, pg.UID
	data, err := json.Marshal(map[string]any{
		"apiVersion": scheduling.GroupVersion.String(),
		"kind":       "PodGroup",
		"metadata":   metadata,
		section:      fields,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the %s: %w", section, err)
	}
	return client.RawPatch(types.ApplyPatchType, data), nil
}
