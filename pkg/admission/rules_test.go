package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// unreserving is an engine that has no reservations, as Fluxion.
type unreserving struct{ match.Engine }

func (e unreserving) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	if r.Op == match.AllocateOrElseReserve || r.Op == match.WithoutAllocatingFuture {
		return nil, fmt.Errorf("operation %d: %w", r.Op, match.ErrInvalid)
	}
	return e.Engine.Match(ctx, r)
}

func TestAnEngineWithoutReservations(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	r.engine = unreserving{r.engine}
	r.d.cfg.Engine = r.engine
	a := r.submit("a", "batch", 1, 4, "10m")
	r.step()
	r.release(a)
	r.submit("b", "batch", 2, 4, "10m")
	r.submit("c", "batch", 1, 4, "10m")
	for range 3 {
		r.after(tick)
	}
	r.shows("a: Running Admitted n1*1", "b: Waiting NoRoom", "c: Ready Admitted n2*1")
	c := meta.FindStatusCondition(r.api.statuses["batch"].Conditions, v1alpha1.ConditionReady)
	if c.Reason != v1alpha1.ReasonCannotReserve || !strings.Contains(c.Message, "use fcfs") {
		t.Errorf("the condition Ready is %+v", c)
	}
	r.d.Observe(inventory.Change{Kind: inventory.Loaded})
	r.finish(a)
	r.finish(keyOf(ns, "c"))
	r.shows("a: Finished Admitted n1*1", "b: Ready Admitted n[1-2]*1", "c: Finished Admitted n2*1")
}

func TestWholeNodesAreHeldBeforeThePodsCome(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	r.policy = match.PolicyLonodex
	a := r.submit("a", "batch", 1, 1, "10m")
	b := r.submit("b", "batch", 1, 1, "10m")
	r.submit("c", "batch", 1, 1, "10m")
	r.step()
	r.shows("a: Ready Admitted n1*1", "b: Ready Admitted n2*1", "c: Waiting Promised 1 from 10m1s")
	for _, key := range []string{a.Name, b.Name} {
		if got := r.d.jobs.byKey[keyOf(ns, key)].room.holder; got != ns+"/"+key {
			t.Errorf("the nodes of %s are held whole by %q", key, got)
		}
	}
	r.build()
	r.putQueue(easy("batch"))
	r.reload()
	r.step()
	r.shows("a: Ready Admitted n1*1", "b: Ready Admitted n2*1", "c: Waiting Promised 1 from 10m1s")
}

func TestATopologyIsAskedFor(t *testing.T) {
	r := newRig(t, 3, easy("batch"))
	r.topology = &jobspec.Topology{Required: "node"}
	r.submit("a", "batch", 4, 1, "10m")
	r.submit("b", "batch", 5, 1, "10m")
	r.submit("c", "batch", 1, 1, "10m", func(fj *v1alpha1.FluxJob) {
		fj.Spec.Placement = map[string]string{"wrong": "annotation topology-required: \"rack\": no such level"}
	})
	r.step()
	r.shows("a: Ready Admitted n1*4", "b: Waiting NeverFits", "c: Requested InvalidJobspec")
	// What a namespace may ask for can change.
	r.api.edit(keyOf(ns, "c"), func(fj *v1alpha1.FluxJob) { fj.Spec.Placement = nil })
	before := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	now := before.DeepCopy()
	now.Labels = map[string]string{"a": "b"}
	r.must(r.d.cfg.Cluster.Namespaces.GetStore().Update(now))
	r.d.namespaceChanged(before, now)
	r.step()
	r.shows("a: Ready Admitted n1*4", "b: Waiting NeverFits", "c: Ready Admitted n2*1")
}

// Without an end in its way there is no promise, and the first job could wait for ever.
func TestAJobIsReadAgainUntilThatSucceeds(t *testing.T) {
	r := newRig(t, 1, easy("batch"))
	wrong := errors.New("annotation topology-required: \"rack\": no such level")
	r.d.jobs.classes.rulesOf = func(string, map[string]string) (string, *jobspec.Topology, error) { return "", nil, wrong }
	r.submit("a", "batch", 1, 4, "1h")
	r.step()
	r.shows("a: Requested InvalidJobspec")
	wrong = nil
	r.d.writer.api = &unreadable{memory: r.api}
	r.d.namespaceChanged(nil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	r.step()
	r.shows("a: Ready Admitted n1*1")
}

// The levels of a topology may change while a job runs. It keeps its room, also after a restart.
func TestAJobThatRunsKeepsItsRoomThoughItsPlacementIsNotPossibleAnyMore(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	a := r.submit("a", "batch", 2, 4, "1h")
	r.step()
	r.release(a)
	r.build()
	r.putQueue(easy("batch"))
	r.d.jobs.classes.rulesOf = func(string, map[string]string) (string, *jobspec.Topology, error) {
		return "", nil, errors.New("annotation topology-required: \"rack\": no such level")
	}
	for _, fj := range r.api.objects { // they are read with these rules
		r.must(r.d.jobs.Delete(fj))
		r.must(r.d.jobs.Update(fj.DeepCopy()))
	}
	r.reload()
	r.step()
	r.shows("a: Running Admitted n[1-2]*1")
	r.holds("a@n1,n2")
	if got, ok := r.d.Allocation(a); !ok || got.Pods != 2 {
		t.Errorf("Allocation() = %+v, %v; want that it may have 2 pods", got, ok)
	}
	b := r.submit("b", "batch", 1, 1, "1h")
	r.step()
	if r.job(b).Status.Allocation != nil {
		t.Error("a job was admitted whose placement is not possible")
	}
}

// unreadable is an API server that does not answer the first read.
type unreadable struct {
	*memory
	asked bool
}

func (u *unreadable) get(ctx context.Context, key types.NamespacedName) (*v1alpha1.FluxJob, error) {
	if !u.asked {
		u.asked = true
		return nil, errors.New("connection refused")
	}
	return u.memory.get(ctx, key)
}

func TestAnOverdueJobKeepsItsNodes(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	r.maxBypass = 10 * time.Minute
	r.build()
	r.putQueue(easy("batch"))
	r.reload()
	a := r.submit("a", "batch", 1, 4, "inf")
	r.step()
	r.release(a)
	r.submit("b", "batch", 2, 4, "10m")
	c := r.submit("c", "batch", 1, 4, "10m")
	r.step()
	r.shows("a: Running Admitted n1*1", "b: Waiting NoRoom", "c: Ready Admitted n2*1")
	r.release(c)
	r.after(11 * time.Minute)
	r.finish(c)
	r.submit("d", "batch", 1, 4, "10m")
	r.after(tick)
	r.shows("a: Running Admitted n1*1", "b: Waiting NoRoom", "c: Finished Admitted n2*1", "d: Waiting NoRoom")
	r.finish(a)
	r.shows("a: Finished Admitted n1*1", "b: Ready Admitted n[1-2]*1", "c: Finished Admitted n2*1", "d: Waiting Promised 1 from 21m2s")
}
