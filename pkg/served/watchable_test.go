package served

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// A version is an API server that serves these resources of one version, or fails.
type version struct {
	discovery.ServerResourcesInterfaceWithContext
	resources []string
	err       error
}

func (v version) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	l := &metav1.APIResourceList{}
	for _, name := range v.resources {
		l.APIResources = append(l.APIResources, metav1.APIResource{Name: name})
	}
	return l, v.err
}

func TestWhetherAllResourcesAreServed(t *testing.T) {
	cases := map[string]struct {
		api     version
		want    bool
		wantErr bool
	}{
		"all":            {api: version{resources: []string{"jobs", "jobs/status", "cronjobs"}}, want: true},
		"one of two":     {api: version{resources: []string{"jobs"}}},
		"no such group":  {api: version{err: apierrors.NewNotFound(schema.GroupResource{}, "batch")}},
		"it is not told": {api: version{err: errors.New("timeout")}, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := All(t.Context(), tc.api, batch, "jobs", "cronjobs"); got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("All() = %v, %v, want %v, an error: %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}
