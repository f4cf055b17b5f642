package podgroup

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// applySpec writes the fields of the spec that are this controller's. Applying
// again the fields of the creation takes nothing else over.
func (r *reconciler) applySpec(ctx context.Context, pg *scheduling.PodGroup, minMember int32) error {
	data, err := applied(pg, "spec", map[string]any{"minMember": minMember})
	if err != nil {
		return err
	}
	return r.client.Patch(ctx, pg.DeepCopy(), data, client.FieldOwner(FieldManager), client.ForceOwnership)
}

// applyStatus writes the fields of the status that are this controller's: of the
// conditions only its own. plain leaves out what scheduler-plugins does not know.
func (r *reconciler) applyStatus(ctx context.Context, pg *scheduling.PodGroup, s *scheduling.PodGroupStatus, plain bool) error {
	fields := map[string]any{"phase": s.Phase, "running": s.Running, "succeeded": s.Succeeded, "failed": s.Failed}
	if s.OccupiedBy != "" {
		fields["occupiedBy"] = s.OccupiedBy
	}
	if !plain {
		fields["scheduled"] = s.Scheduled
		fields["creationTime"] = s.CreationTime
		fields["conditions"] = []any{meta.FindStatusCondition(s.Conditions, ConditionValid)}
	}
	data, err := applied(pg, "status", fields)
	if err != nil {
		return err
	}
	return r.client.Status().Patch(ctx, pg.DeepCopy(), data, client.FieldOwner(FieldManager), client.ForceOwnership)
}

// applied is a server-side apply of one part of a PodGroup. It carries the UID:
// it must not make a PodGroup that is gone, nor change one that came after it.
func applied(pg *scheduling.PodGroup, part string, fields map[string]any) (client.Patch, error) {
	data, err := json.Marshal(map[string]any{
		"apiVersion": scheduling.GroupVersion.String(),
		"kind":       "PodGroup",
		"metadata":   map[string]any{"namespace": pg.Namespace, "name": pg.Name, "uid": pg.UID},
		part:         fields,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the %s: %w", part, err)
	}
	return client.RawPatch(types.ApplyPatchType, data), nil
}

// lacksField says that an apply was refused because the CRD lacks a field. The
// API server has no code of its own for that.
func lacksField(err error) bool {
	return err != nil && strings.Contains(err.Error(), "field not declared in schema")
}
