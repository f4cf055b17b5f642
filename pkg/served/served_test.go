package served

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// A script is an API server that serves kinds, by their group versions, and fails with err.
type script struct {
	discovery.ServerResourcesInterfaceWithContext
	kinds map[schema.GroupVersion][]string
	err   error
	// takes is how long an answer takes.
	takes time.Duration
	asked atomic.Int32
}

func (s *script) ServerGroupsAndResourcesWithContext(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	s.asked.Add(1)
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if s.err != nil && !discovery.IsGroupDiscoveryFailedError(s.err) {
		return nil, nil, s.err
	}
	var groups []*metav1.APIGroup
	var lists []*metav1.APIResourceList
	for gv, kinds := range s.kinds {
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		groups = append(groups, &metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		l := &metav1.APIResourceList{GroupVersion: gv.String()}
		for _, kind := range kinds {
			l.APIResources = append(l.APIResources, metav1.APIResource{Name: "of-" + strings.ToLower(kind), Kind: kind, Namespaced: true})
		}
		lists = append(lists, l)
	}
	return groups, lists, s.err
}

var (
	batch  = schema.GroupVersion{Group: "batch", Version: "v1"}
	sets   = schema.GroupVersion{Group: "jobset.x-k8s.io", Version: "v1alpha2"}
	job    = schema.GroupKind{Group: "batch", Kind: "Job"}
	jobSet = schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}
)

func newScript() *script { return &script{kinds: map[schema.GroupVersion][]string{batch: {"Job"}}} }

// mapping describes in words how a kind is mapped.
func mapping(m meta.RESTMapper, kind schema.GroupKind, versions ...string) string {
	switch found, err := m.RESTMapping(kind, versions...); {
	case err == nil:
		return found.Resource.Resource + " " + found.GroupVersionKind.Version
	case meta.IsNoMatchError(err):
		return "not served"
	default:
		return "not known"
	}
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// A user who names ever new kinds that are not served causes few requests.
func TestKindsThatAreNotServedAreAskedForWithinBounds(t *testing.T) {
	for name, kind := range map[string]func(i int) (schema.GroupKind, string){
		"one kind":                func(int) (schema.GroupKind, string) { return jobSet, "v1alpha2" },
		"one without versions":    func(int) (schema.GroupKind, string) { return jobSet, "" },
		"each of another version": func(i int) (schema.GroupKind, string) { return jobSet, fmt.Sprint("v", i) },
		"each another": func(i int) (schema.GroupKind, string) {
			return schema.GroupKind{Group: fmt.Sprintf("g%d.example.com", i), Kind: "K"}, ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newScript()
				m := newMapper(api)
				begin := time.Now()
				for i := range 600 { // 20 a second
					k, version := kind(i)
					expect(t, "it", mapping(m, k, version), "not served")
					time.Sleep(50 * time.Millisecond)
				}
				if got, most := api.asked.Load(), int32(askAtOnce+time.Since(begin)/askEach); got > most {
					t.Errorf("the API server was asked %d times in %v, want at most %d", got, time.Since(begin), most)
				}
				expect(t, "a Job", mapping(m, job), "of-job v1")
				api.kinds[sets] = []string{"JobSet"}
				time.Sleep(askEach)
				expect(t, "a kind that is installed meanwhile", mapping(m, jobSet, "v1alpha2"), "of-jobset v1alpha2")
			})
		})
	}
}

// One request serves all callers that miss something. No other caller waits for it.
func TestWhatIsKnownIsFoundDuringAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newScript()
		m := newMapper(api)
		expect(t, "a Job", mapping(m, job), "of-job v1")
		api.takes = 3 * time.Second
		begin := time.Now()
		var waiting sync.WaitGroup
		for i := range 100 {
			waiting.Go(func() {
				expect(t, "another", mapping(m, schema.GroupKind{Group: "example.com", Kind: fmt.Sprint("K", i)}), "not served")
			})
		}
		synctest.Wait()
		expect(t, "a Job", mapping(m, job, "v1"), "of-job v1")
		if took := time.Since(begin); took != 0 {
			t.Errorf("what is known was found after %v, want at once", took)
		}
		waiting.Wait()
		if took := time.Since(begin); api.asked.Load() != 2 || took != api.takes {
			t.Errorf("the API server was asked %d times in %v, want one question beside the first in %v", api.asked.Load(), took, api.takes)
		}
	})
}

// What cannot be found out does not count as not served, and changes nothing.
func TestAnAPIServerThatDoesNotTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newScript()
		m := newMapper(api)
		api.takes = time.Hour
		begin := time.Now()
		expect(t, "a Job of an API server that is silent", mapping(m, job), "not known")
		if took := time.Since(begin); took != askTimeout {
			t.Errorf("it was waited for for %v, want %v", took, askTimeout)
		}
		api.takes = 0
		time.Sleep(askEach)
		api.kinds[sets] = []string{"JobSet"}
		expect(t, "a Job", mapping(m, job), "of-job v1")
		expect(t, "a JobSet", mapping(m, jobSet), "of-jobset v1alpha2")

		other := schema.GroupKind{Group: sets.Group, Kind: "Other"}
		for range 2 { // the second time the group is left out as before
			delete(api.kinds, sets)
			api.err = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{sets: errors.New("is stale")}}
			time.Sleep(askEach)
			expect(t, "a kind of a group that is not told", mapping(m, other), "not known")
			expect(t, "a kind of another group", mapping(m, schema.GroupKind{Group: "batch", Kind: "Other"}), "not served")
			expect(t, "a JobSet as before", mapping(m, jobSet), "of-jobset v1alpha2")
			expect(t, "a Job", mapping(m, job), "of-job v1")
		}
		// It names the group, without a version.
		api.kinds[schema.GroupVersion{Group: sets.Group, Version: "v2"}] = []string{"Other"}
		time.Sleep(askEach)
		expect(t, "what a version more has", mapping(m, other), "of-other v2")
		expect(t, "a JobSet as before", mapping(m, jobSet), "of-jobset v1alpha2")

		api.err = nil
		time.Sleep(askEach)
		expect(t, "a kind that misses", mapping(m, schema.GroupKind{Group: "x", Kind: "X"}), "not served")
		expect(t, "a JobSet that is uninstalled", mapping(m, jobSet), "not served")
	})
}

func TestOtherMappings(t *testing.T) {
	m := newMapper(newScript())
	jobs := batch.WithResource("of-job")
	if kind, err := m.KindFor(jobs); err != nil || kind != batch.WithKind("Job") {
		t.Errorf("KindFor() = %v, %v", kind, err)
	}
	if kinds, err := m.KindsFor(jobs); err != nil || len(kinds) != 1 {
		t.Errorf("KindsFor() = %v, %v", kinds, err)
	}
	if r, err := m.ResourceFor(jobs); err != nil || r != jobs {
		t.Errorf("ResourceFor() = %v, %v", r, err)
	}
	if r, err := m.ResourcesFor(jobs); err != nil || len(r) != 1 || r[0] != jobs {
		t.Errorf("ResourcesFor() = %v, %v", r, err)
	}
	if all, err := m.RESTMappings(job); err != nil || len(all) != 1 {
		t.Errorf("RESTMappings() = %v, %v", all, err)
	}
	if got, err := m.ResourceSingularizer("of-job"); err != nil || got == "" {
		t.Errorf("ResourceSingularizer() = %q, %v", got, err)
	}
}
