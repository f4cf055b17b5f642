package webhook

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A handler answers the admission requests of the API server. It allows everything.
type handler struct {
	scheduler string
	find      func(ctx context.Context, namespace string, o group.Owner) (OwnerInfo, bool)
	whole     wholeRule
	// queues is nil if there are no queues.
	queues Queues
	now    func() time.Time
	// timeout bounds the time for looking up owners and the namespace.
	timeout time.Duration
	// outcomes counts objects by outcome. It may be nil.
	outcomes *prometheus.CounterVec
}

// Handle implements admission.Handler.
func (h *handler) Handle(ctx context.Context, req admission.Request) (resp admission.Response) {
	defer func() {
		// The API server takes an error for a denial, whatever the failure policy.
		if r := recover(); r != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("panic: %v", r), "The webhook panicked: the object is created without labels", "kind", req.Kind.Kind, "object", klog.KRef(req.Namespace, req.Name), "stack", string(debug.Stack()))
			h.count(outcomeBug)
			resp = admission.Allowed("")
		}
	}()
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		return admission.Allowed("")
	}
	c, err := readNewObject(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Namespace, req.Object.Raw)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot read an object: it is created unchanged", "kind", req.Kind.Kind, "object", klog.KRef(req.Namespace, req.Name), "reason", err)
		h.count(outcomeUnreadable)
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	l := labeller{newObject: c, find: func(namespace string, o group.Owner) (OwnerInfo, bool) { return h.find(ctx, namespace, o) }}
	edits, hold, queueWarnings := l.edits(h.scheduler), []jsonpatch.JsonPatchOperation(nil), []string(nil)
	if h.queues != nil && c.scheduler == h.scheduler {
		var more []edit
		more, hold, queueWarnings = c.enterQueue(ctx, h.queues, req.Object.Raw, h.now())
		edits = append(edits, more...)
	}
	ops := append(patch(c.fields, edits), hold...)
	klog.FromContext(ctx).V(4).Info("Handled the creation of an object", "kind", req.Kind.Kind, "object", klog.KRef(req.Namespace, req.Name), "changes", len(ops))
	if len(ops) > 0 {
		h.count(outcomeLabelled)
	} else {
		h.count(outcomeUnchanged)
	}
	resp = admission.Patched("", ops...)
	switch {
	case c.scheduler != h.scheduler && h.queues != nil:
		resp = resp.WithWarnings(c.elsewhere(h.scheduler)...)
	case c.scheduler == h.scheduler:
		resp = resp.WithWarnings(slices.Concat(h.whole.warnings(ctx, c), queueWarnings, c.keyWarnings(req.Kind.Kind))...)
	}
	return resp
}
