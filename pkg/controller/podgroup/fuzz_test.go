package podgroup

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flux-k8s/fluence/pkg/group"
)

// For any objects, the decision is valid for the API server, the group starts
// with at least one pod, and no text of an event is empty or too long.
func FuzzDecide(f *testing.F) {
	f.Add("train", "batch/v1", "Job", "uid", "", "4", "2", "restart", "90s", int32(4), int32(0), []byte(`{"replicas":3}`), byte(0))
	f.Add("train", "jobset.x-k8s.io/v1alpha2", "JobSet", "uid", "crew", "0", "x", "panic", "", int32(-1), int32(9), []byte(`{"replicatedJobs":[{"replicas":-1}]}`), byte(255))
	f.Add("", "", "", "", "My_Group", "", "", "", "", int32(0), int32(0), []byte(nil), byte(7))
	f.Add("train", "batch/v1", "Job", "uid", "crew", "3", "2", strings.Repeat("x", 40_000), "1s", int32(4), int32(0), []byte(nil), byte(4))
	f.Fuzz(func(t *testing.T, name, apiVersion, kind, uid, label, size, least, policy, timeout string, n, succeeded int32, body []byte, bits byte) {
		member := pods(1, func(p *corev1.Pod) {
			p.UID = types.UID(uid)
			p.Labels = map[string]string{group.Label: label, group.SizeLabel: size, group.MinLabel: least}
			p.Annotations = map[string]string{group.IncompletePolicyAnnotation: policy, group.IncompleteTimeoutAnnotation: timeout, group.DefaultedAnnotation: size + "/" + least}
			if bits&1 != 0 {
				delete(p.Labels, group.SizeLabel)
			}
			if bits&2 != 0 {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: new(true)}}
			}
			if bits&4 != 0 {
				bound(p)
			}
		})
		o := observation{key: types.NamespacedName{Namespace: "ns", Name: label}, pods: each(member), now: now}
		if bits&8 != 0 {
			o = of(job(n, func(j *batchv1.Job) {
				j.Name, j.UID, j.Spec.Template.Labels, j.Status.Succeeded = name, types.UID(uid), member[0].Labels, succeeded
			})).with(nil, member)
		} else if bits&2 != 0 {
			ref := member[0].OwnerReferences[0]
			w := topOwner{topOwnerRef: topOwnerRefFrom(ref), state: ownerState(bits >> 6)}
			var err error
			if w.size, err = group.DefaultSize(w.owner, body, "fluence"); err != nil {
				w.invalid = err.Error()
			}
			o.topOwners = []topOwner{w}
			if bits&16 != 0 {
				o.key.Name = w.owner.PodGroupName()
			}
		}
		d, m := DefaultConfig().decide(o, memory{})
		mustBeValid(t, d)
		if d.create == nil {
			return
		}
		pg := d.create
		if pg.Spec.MinMember < 1 || pg.Spec.MinMember > group.MaxSize {
			t.Errorf("minMember %d", pg.Spec.MinMember)
		}
		errs := validation.ValidateObjectMeta(&pg.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
		if len(errs) > 0 {
			t.Errorf("makes %+v: %v", pg.ObjectMeta, errs)
		}
		o.podGroup = pg
		d, m = DefaultConfig().decide(o, m)
		if d.status == nil {
			t.Fatalf("no first status, but %+v", d)
		}
		mustBeValid(t, d)
		pg.Status = *d.status
		if d, _ = DefaultConfig().decide(o, m); d.status != nil {
			t.Errorf("the same is written again: %+v", d.status)
		}
		// Members that are missing for this long are reported.
		o.now = o.now.Add(time.Hour)
		d, _ = DefaultConfig().decide(o, m)
		mustBeValid(t, d)
	})
}

// For any status of a Job, the number of indexes is not negative, and one more failed index counts.
func FuzzCountIndexes(f *testing.F) {
	f.Add("")
	f.Add("1,3-5,7")
	f.Add("5-3,,x,99999999999")
	f.Fuzz(func(t *testing.T, text string) {
		n := countIndexes(text)
		if more := countIndexes(text + ",9"); n < 0 || more != n+1 {
			t.Errorf("countIndexes(%q) = %d, and with another %d", text, n, more)
		}
	})
}

// mustBeValid fails if the API server would reject what a decision writes.
func mustBeValid(t *testing.T, d decision) {
	t.Helper()
	for _, n := range d.events {
		if n.reason == "" || n.text == "" || len(n.text) > 1024 {
			t.Errorf("event %+v", n)
		}
	}
	if d.status == nil {
		return
	}
	errs := metavalidation.ValidateConditions(d.status.Conditions, field.NewPath("conditions"))
	if len(errs) > 0 || meta.FindStatusCondition(d.status.Conditions, ConditionValid) == nil {
		t.Errorf("conditions %+v: %v", d.status.Conditions, errs)
	}
}
