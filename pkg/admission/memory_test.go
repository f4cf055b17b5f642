package admission

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

// requests are the texts of requests.
type requests map[translate.AmountsKey]map[int32]string

// of returns the request for a number of pods with these amounts.
func (r requests) of(amounts translate.Amounts, pods int32) string {
	if r[amounts.Key()] == nil {
		r[amounts.Key()] = map[int32]string{}
	}
	text, have := r[amounts.Key()][pods]
	if !have {
		b, err := translate.Jobspec([]translate.ShapeRequest{{Label: "shape0", Amounts: amounts, Min: int64(pods), Max: int64(pods)}}).EncodeYAML()
		if err != nil {
			panic(err)
		}
		text = string(b)
		r[amounts.Key()][pods] = text
	}
	return strings.Clone(text)
}

// many returns a FluxJob of many, as the API server sends it: of one of 1,000 classes.
func many(i int, texts requests) *v1alpha1.FluxJob {
	cores, pods := int64(i%10+1), int32(i%1000/10+1)
	text := texts.of(translate.Amounts{translate.TypeCore: 1000 * cores, translate.TypePods: 1}, pods)
	name, uid := fmt.Sprintf("job-solver-%06d-a1b2c3d4e5", i), fmt.Sprintf("0d9e6c1e-7b1f-4f3c-8ac1-%012d", i)
	at := metav1.NewTime(begin.Add(time.Duration(i) * time.Second))
	fj := &v1alpha1.FluxJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, UID: types.UID(uid), Generation: 1, ResourceVersion: fmt.Sprint(100_000 + i), CreationTimestamp: at,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID(uid)}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "fluence-controller", Operation: "Update", APIVersion: "fluence.flux-framework.org/v1alpha1", FieldsV1: fieldsOf(1000)},
				{Manager: "fluence-scheduler", Operation: "Apply", APIVersion: "fluence.flux-framework.org/v1alpha1", FieldsV1: fieldsOf(500)},
			},
		},
		Spec: v1alpha1.FluxJobSpec{
			Queue: "batch", Workload: v1alpha1.WorkloadReference{APIVersion: "batch/v1", Kind: "Job", Name: fmt.Sprintf("solver-%06d", i), UID: types.UID(uid)},
			Jobspec: text, Pods: pods, Requests: objects.Amounts("cpu", fmt.Sprint(cores)), Duration: fmt.Sprintf("%dm", i%240+1), Priority: int32(i % 3),
		},
		Status: v1alpha1.FluxJobStatus{
			Phase: v1alpha1.Waiting, CreationTime: &metav1.MicroTime{Time: at.Time},
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonValid, LastTransitionTime: at},
				{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotItsTurn, Message: "other jobs of Queue batch come before it", LastTransitionTime: at},
			},
		},
	}
	return fj
}

// liveHeap returns the live heap in bytes.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestMemoryOfManyJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 100,000 jobs")
	}
	const jobs, most = 100_000, 200 << 20
	r := newRig(t, 1, easy("batch"))
	texts := requests{}
	before, putting := liveHeap(), time.Duration(0)
	for i := range jobs {
		fj := many(i, texts)
		at := time.Now()
		r.must(r.d.jobs.Update(fj))
		putting += time.Since(at)
	}
	start := time.Now()
	r.now = r.now.Add(passEvery)
	r.d.loop.step(r.now)
	took := time.Since(start)
	used := liveHeap() - before
	t.Logf("%d jobs take %d MiB, %d bytes each; to record them took %s, and the first step %s", jobs, used>>20, used/jobs, putting, took)
	if used > most {
		t.Errorf("%d jobs take %d MiB, more than %d", jobs, used>>20, most>>20)
	}
	runtime.KeepAlive(r)
}

// fieldsOf are managed fields of this many bytes.
func fieldsOf(n int) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	f.SetRawBytes([]byte(`{"f:` + strings.Repeat("a", n-len(`{"f:":{}}`)) + `":{}}`))
	return f
}
