// Package served finds out which kinds an API server serves to the controller. The rate
// limit of a Mapper holds even if it is asked for ever new kinds that are not served.
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
	// askEach and askAtOnce bound how often the API server is asked for all that it serves (a
	// discovery of two requests), by a token bucket: once per askEach, after a burst of
	// askAtOnce. Anyone who may create pods can name any number of unknown kinds as their owners.
	askEach   = 5 * time.Second
	askAtOnce = 4
	// askTimeout bounds one discovery.
	askTimeout = 5 * time.Second
)

// A Mapper is a meta.RESTMapper. It answers from memory, without a wait, for a kind
// that it has once found. For any other kind it runs a discovery, if the rate limit
// allows one. It remembers only what is served, so its memory is bounded. It finds a
// kind whose CRD has just been installed within askEach. A NoMatch error means that
// the kind is not served. Any other error means that it could not be found out.
type Mapper struct {
	api   discovery.ServerResourcesInterfaceWithContext
	limit *rate.Limiter

	last atomic.Pointer[snapshot]
	// asking has an element during a discovery. Callers that miss a kind then wait for its result.
	asking chan struct{}
}

// A snapshot is what an API server served when it was last asked.
type snapshot struct {
	meta.RESTMapper
	groups map[string]*restmapper.APIGroupResources
	// unknown has the groups whose discovery failed, with the error.
	unknown map[string]error
	// err is the error if the whole discovery failed.
	err error
}

// NewMapper returns a Mapper that has asked for nothing yet. It is a MapperProvider of a manager.
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

// lookup answers from the last snapshot or, if nothing in it matches, from a new one.
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

// refresh returns a snapshot that is newer than old. It
// returns old if the rate limit allows no discovery.
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

// ask runs a discovery. Groups whose discovery fails keep their former resources.
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
		// It is not wrapped, because "not found" would count as an answer about a kind.
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
