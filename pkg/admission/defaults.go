package admission

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// mostNamespaces is how many namespaces a message names.
const mostNamespaces = 3

// A defaultQueue is a queue that is the default of namespaces.
type defaultQueue struct {
	*jobQueue
	selects labels.Selector
	// lost are the namespaces that go to an older queue, by its index.
	lost map[int][]string
}

// checkDefaults sets for each queue of which namespaces an older queue is the default too: their Jobs go into the older one. The
// store has all namespaces.
func checkDefaults(queues map[string]*jobQueue, namespaces cache.Store) {
	var defaults []defaultQueue
	for _, q := range byAge(queues) {
		q.defaultTaken = ""
		if s := q.object.Spec.DefaultFor; s != nil {
			selects, _ := selectorOf("spec.defaultFor", s) // the API server takes none that is wrong
			defaults = append(defaults, defaultQueue{q, selects, map[int][]string{}})
		}
	}
	if len(defaults) < 2 {
		return
	}
	for _, obj := range namespaces.List() {
		ns, ok := obj.(metav1.Object)
		if !ok {
			continue
		}
		oldest := -1
		for i := range defaults {
			switch d := &defaults[i]; {
			case !d.selects.Matches(labels.Set(ns.GetLabels())):
			case oldest < 0:
				oldest = i
			default:
				d.lost[oldest] = append(d.lost[oldest], ns.GetName())
			}
		}
	}
	for _, d := range defaults {
		var parts []string
		for i := range defaults {
			if lost := d.lost[i]; len(lost) > 0 {
				parts = append(parts, takenBy(defaults[i].object, d.object, lost))
			}
		}
		if len(parts) > 0 {
			d.defaultTaken = translate.Shorten("spec.defaultFor: " + strings.Join(parts, "; "))
		}
	}
}

// takenBy says that the Jobs of some namespaces go into an older queue.
func takenBy(older, q *v1alpha1.Queue, namespaces []string) string {
	slices.Sort(namespaces)
	text := strings.Join(namespaces[:min(len(namespaces), mostNamespaces)], ", ")
	if more := len(namespaces) - mostNamespaces; more > 0 {
		text += " and " + reason.Plural(more, "other namespace")
	}
	why := "which is older"
	if older.CreationTimestamp.Equal(&q.CreationTimestamp) {
		why = "which is as old, and comes first by its name"
	}
	return fmt.Sprintf("Jobs of %s go into Queue %s, %s", text, older.Name, why)
}
