package webhook

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// A wholeRule says which namespaces may ask for whole nodes by annotation.
type wholeRule struct {
	// mode is one of group.WholeNodesModes.
	mode string
	// label returns the value of a namespace's label
	// group.WholeNodesLabel. It returns false if the value is not known.
	label func(ctx context.Context, namespace string) (string, bool)
}

// warnings returns a warning if the object's request for whole nodes will be
// denied. An object with a controller gets none, because controllers ignore
// warnings. A PodGroup that overrides the annotation is not considered.
func (r wholeRule) warnings(ctx context.Context, c *newObject) []string {
	annotation, value := group.ExclusiveRequest(c.pod.Annotations)
	if annotation == "" || c.controller != (group.Owner{}) {
		return nil
	}
	label := ""
	if r.mode == group.WholeNodesLabelled {
		known := false
		if label, known = r.label(ctx, c.pod.Namespace); !known {
			return nil
		}
	}
	why := group.WhyNoWholeNodes(r.mode, c.pod.Namespace, label)
	if why == "" {
		return nil
	}
	return []string{group.DeniedMessage(annotation, value, why) + "; no pod of the group starts (" + reason.NotAllowed + ")"}
}

// namespaces reads a label of namespaces. It caches nothing, because
// a user who is warned may label the namespace and retry at once.
type namespaces struct {
	live client.Reader
	// limit bounds how often a namespace is read, by a token bucket. It is separate from the limit
	// of owner lookups. No request waits for it, because a warning may be skipped, but labels
	// should not be.
	limit *rate.Limiter
	// timeout bounds a request to the API server.
	timeout time.Duration

	asking singleflight.Group
}

// wholeNodes returns the value of a namespace's label group.WholeNodesLabel. It returns
// false if the namespace cannot be read, or if ctx ends before there is an answer.
func (n *namespaces) wholeNodes(ctx context.Context, name string) (string, bool) {
	asked := n.asking.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.timeout)
		defer cancel()
		label, err := n.ask(ctx, name)
		if err != nil {
			klog.FromContext(ctx).V(4).Info("Cannot read a namespace", "namespace", name, "reason", err)
		}
		return label, err
	})
	select {
	case r := <-asked:
		return r.Val.(string), r.Err == nil
	case <-ctx.Done():
		return "", false
	}
}

// At most one namespace is read every namespaceReadInterval, after a burst of namespaceReadBurst.
const (
	namespaceReadInterval = 100 * time.Millisecond
	namespaceReadBurst    = 8
)

func newNamespaces(live client.Reader, timeout time.Duration) *namespaces {
	return &namespaces{live: live, limit: rate.NewLimiter(rate.Every(namespaceReadInterval), namespaceReadBurst), timeout: timeout}
}

func (n *namespaces) ask(ctx context.Context, name string) (string, error) {
	if !n.limit.Allow() {
		return "", errBusy
	}
	var ns metav1.PartialObjectMetadata
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := n.live.Get(ctx, client.ObjectKey{Name: name}, &ns); err != nil {
		return "", fmt.Errorf("get the namespace: %w", err)
	}
	return ns.Labels[group.WholeNodesLabel], nil
}
