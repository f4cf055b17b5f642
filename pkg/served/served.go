// Package served finds out which kinds an API server serves, and asks that no more often than
// it may, whatever kinds it is asked for.
package served

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// askEach and askAtOnce bound how often the API server is asked for all that it serves,
	// which is two requests: once each so often after as many at once. Whoever may create pods
	// can name kinds as the owners of these that are not served, each another one.
	askEach   = 5 * time.Second
	askAtOnce = 4
	// askTimeout bounds one answer.
	askTimeout = 5 * time.Second
)

// A Mapper is a meta.RESTMapper. What it has once seen served it finds without a question and
// without a wait. For anything else it asks for all that is served, if that is due, and answers
// all that is not among it from the same memory, which is bounded by what is served. A kind
// whose CRD is installed is found within askEach. Errors other than that there is no match say
// that it is not known now.
type Mapper struct {
	api   discovery.ServerResourcesInterfaceWithContext
	limit *rate.Limiter

	last atomic.Pointer[snapshot]
	// asking has one place, for a question: who misses something then waits for its answer.
	asking chan struct{}
}

// A view is what an API server serves, as it was last seen.
type snapshot struct {
	meta.RESTMapper
	groups map[string]*restmapper.APIGroupResources
	// unknown has the groups of which not all is known, and why. With err nothing new is known of any.
	unknown map[string]error
	err     error
}

// NewMapper makes a Mapper, which asks nothing yet. It is a MapperProvider of a manager.
func NewMapper(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	api, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	return newMapper(api), nil
}

func newMapper(api discovery.ServerResourcesInterfaceWithContext) *Mapper {
	m := &Mapper{api: api, limit: rate.NewLimiter(rate.Every(askEach), askAtOnce), asking: make(chan struct{}, 1)}
	m.last.Store(newSnapshot(nil))
	return m
}

func newSnapshot(groups map[string]*restmapper.APIGroupResources) *snapshot {
	return &snapshot{RESTMapper: restmapper.NewDiscoveryRESTMapper(slices.Collect(maps.Values(groups))), groups: groups}
}

// lookup answers from what is known or, if nothing there matches, from what is served now.
func lookup[T any](m *Mapper, group string, in func(meta.RESTMapper) (T, error)) (T, error) {
	v := m.last.Load()
	found, err := in(v)
	if !meta.IsNoMatchError(err) {
		return found, err
	}
	v = m.refresh(v)
	found, err = in(v)
	if !meta.IsNoMatchError(err) {
		return found, err
	}
	if why := errors.Join(v.err, v.unknown[group]); why != nil {
		return found, fmt.Errorf("find out what the API server serves: %w", why)
	}
	return found, err
}

// refresh returns a view that is newer than one that lacks something, or that one again if it
// is too early to ask.
func (m *Mapper) refresh(old *snapshot) *snapshot {
	m.asking <- struct{}{}
	defer func() { <-m.asking }()
	if v := m.last.Load(); v != old {
		return v
	}
	if !m.limit.Allow() {
		return old
	}
	v := m.ask(old)
	m.last.Store(v)
	return v
}

// ask asks for all that is served. What the API server does not tell is as it was.
func (m *Mapper) ask(old *snapshot) *snapshot {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	groups, lists, err := m.api.ServerGroupsAndResourcesWithContext(ctx)
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err == nil && len(groups) == 0 {
		err = errors.New("it names no group")
	}
	if err != nil && !partly {
		return &snapshot{RESTMapper: old.RESTMapper, groups: old.groups, err: err}
	}
	all := make(map[string]*restmapper.APIGroupResources, len(groups))
	for _, g := range groups {
		all[g.Name] = &restmapper.APIGroupResources{Group: *g, VersionedResources: map[string][]metav1.APIResource{}}
	}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if g := all[gv.Group]; err == nil && g != nil {
			g.VersionedResources[gv.Version] = l.APIResources
		}
	}
	unknown := map[string]error{}
	for gv, why := range failed {
		// Not wrapped: "not found" is no answer about a kind.
		unknown[gv.Group] = errors.New(gv.String() + ": " + why.Error())
		before := old.groups[gv.Group]
		if before == nil || before.VersionedResources[gv.Version] == nil {
			continue
		}
		if all[gv.Group] == nil {
			all[gv.Group] = before
			continue
		}
		g := all[gv.Group]
		g.VersionedResources[gv.Version] = before.VersionedResources[gv.Version]
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if !slices.Contains(g.Group.Versions, version) {
			g.Group.Versions = append(slices.Clip(g.Group.Versions), version)
		}
	}
	v := newSnapshot(all)
	v.unknown = unknown
	return v
}
