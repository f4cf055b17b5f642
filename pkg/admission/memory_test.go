package admission

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
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

// One job ends among 100,000 that wait, on 10,000 nodes. The engine is in the same process.
func BenchmarkOneJobEndsAmongMany(b *testing.B) {
	const nodes, jobs = 10_000, 100_000
	r := newRig(b, nodes, easy("batch"))
	texts := requests{}
	put := func(name string, pods int32, cores int64, minutes int, priority int32) types.NamespacedName {
		fj := many(r.made, texts)
		r.made++
		fj.Name, fj.UID = name, types.UID("fj-"+name)
		fj.Spec.Jobspec = texts.of(translate.Amounts{translate.TypeCore: 1000 * cores, translate.TypePods: 1}, pods)
		fj.Spec.Pods, fj.Spec.Duration, fj.Spec.Priority = pods, strconv.Itoa(minutes)+"m", priority
		fj.Spec.Workload.UID = types.UID("job-" + name)
		r.must(r.d.jobs.Update(r.api.create(fj)))
		return types.NamespacedName{Namespace: ns, Name: name}
	}
	var running []types.NamespacedName
	for i := range nodes {
		running = append(running, put(fmt.Sprint("r", i), 1, 4, 60+i%600, 9))
	}
	for r.d.loop.core.Pending() || r.made > 0 {
		r.made = 0
		r.now = r.now.Add(passEvery)
		r.d.loop.step(r.now)
		r.write()
	}
	r.release(running...)
	r.made = nodes
	for i := range jobs {
		put(fmt.Sprint("w", i), int32(i%100+2), int64(i%4+1), i%600+1, int32(i%3))
	}
	settle := func() (steps int) {
		for {
			r.now = r.now.Add(passEvery)
			r.d.loop.step(r.now)
			steps++
			if !r.d.loop.core.Pending() {
				return steps
			}
		}
	}
	start := time.Now()
	cold := settle()
	b.Logf("cold: %d passes, which took %s", cold, time.Since(start))
	n, steps := 0, 0
	var all []time.Duration
	for b.Loop() {
		key := running[n%len(running)]
		n++
		if n > len(running) {
			b.Fatal("all have ended")
		}
		r.must(r.d.jobs.Update(r.api.edit(key, func(fj *v1alpha1.FluxJob) { fj.Status.Phase = v1alpha1.Finished })))
		at := time.Now()
		steps += settle()
		all = append(all, time.Since(at))
	}
	b.ReportMetric(float64(steps)/float64(n), "passes/op")
	slices.Sort(all)
	b.ReportMetric(all[len(all)/2].Seconds()*1000, "ms/p50")
	b.ReportMetric(all[len(all)*99/100].Seconds()*1000, "ms/p99")
}

// fieldsOf are managed fields of this many bytes.
func fieldsOf(n int) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	f.SetRawBytes(make([]byte, n))
	return f
}
