package cli

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

func TestFluxJobsAreListedOnce(t *testing.T) {
	promised := func() []runtime.Object {
		return append(timed("16m"), fluxJob("Job", "other", time.Hour, func(fj *v1alpha1.FluxJob) {
			fj.Status.Promise = &v1alpha1.JobPromise{At: ago(-time.Hour), Nodes: 4, Since: ago(time.Minute)}
		}))
	}
	for args, objects := range map[string][]runtime.Object{
		"when sweep":              batch(),
		"why sweep --now":         batch(),
		"when training":           promised(),
		"why job/training --now":  promised(),
		"cluster":                 batch(),
		"when sweep -n elsewhere": batch(),
	} {
		reads := map[string]int{}
		call{args: args, objects: objects, reads: reads}.run(t)
		if n := reads["fluxjobs"]; n != 1 {
			t.Errorf("%s: fluxjobs were listed %d times", args, n)
		}
	}
}
