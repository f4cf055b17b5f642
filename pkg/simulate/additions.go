package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// Additions are the objects that controllers would create for objects that do not exist yet.
type Additions struct {
	Cluster
	// Notes name what was left out, or differs from what the real controllers do.
	Notes []string

	existing  Cluster
	scheduler string
	now       time.Time
	owners    Owners
	names     names
	// namespaces are the namespaces that exist. It is empty if they could not be read.
	namespaces map[string]bool
	// about is the object of the file that is being read, as KIND NAME.
	about string
	// sizes are the sizes that owners give their groups, by the owner's UID.
	sizes map[types.UID]group.Size
	pods  []*corev1.Pod
	last  int
}

// Kinds returns the kinds of objects that Make reads, by name.
func Kinds() []string {
	kinds := []string{"CronJob", "Deployment", "Job", "Pod", "PodGroup", "RayJob", "RayService", "ReplicaSet", "StatefulSet"}
	for _, k := range group.Kinds() {
		if ofOperator(k) {
			kinds = append(kinds, k.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// Make returns the pods and PodGroups that the controllers of Kubernetes and of
// Fluence would create for objects, if the pods ask for this scheduler. there is the
// cluster as it was read. Objects of other kinds are left out, with a note if they
// may have pods. So are objects that make pods and exist already, with a note; if no
// pods are left, that is an error. An error names the object, the field and the value that is wrong.
func Make(objects []*unstructured.Unstructured, there Cluster, scheduler string, now time.Time) (*Additions, error) {
	w := &Additions{existing: there, scheduler: scheduler, now: now, owners: OwnersOf(there.Objects), names: names{}, namespaces: map[string]bool{}, sizes: map[types.UID]group.Size{}}
	for _, o := range there.Objects {
		if m, ok := o.(metav1.Object); ok {
			w.names[nameOf(m)] = errExists
		}
		if n, ok := o.(*corev1.Namespace); ok {
			w.namespaces[n.Name] = true
		}
	}
	for i := range there.PodGroups {
		w.names[nameOf(&there.PodGroups[i])] = errExists
	}
	for i := range there.NativePodGroups {
		w.names[nameOf(&there.NativePodGroups[i])] = errExists
	}
	for _, u := range objects {
		if len(w.namespaces) > 0 && u.GetKind() == "Namespace" {
			w.namespaces[u.GetName()] = true
		}
	}
	var leftOut error
	for _, u := range referencedFirst(objects) {
		w.about = u.GetKind() + " " + u.GetName()
		err := w.add(u)
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
		if !errors.Is(err, errExists) {
			return nil, err
		}
		leftOut = cmp.Or(leftOut, err)
		w.note("left out: %s", err)
	}
	if len(w.pods) == 0 && leftOut != nil {
		return nil, leftOut
	}
	if err := errors.Join(w.addPodGroups(), w.addNativeMinimums()); err != nil {
		return nil, err
	}
	return w, nil
}

// Pods returns the pods that Make has created.
func (w *Additions) Pods() []*corev1.Pod { return w.pods }

// add adds what the controllers would create for an object.
func (w *Additions) add(u *unstructured.Unstructured) error {
	w.noteKeys(u)
	u, err := rayClusterOf(u)
	if err != nil {
		return err
	}
	if k := group.KindOf(ownerOf(u)); ofOperator(k) {
		return w.addWorkload(u, k)
	}
	switch gk := u.GroupVersionKind().GroupKind().String(); gk {
	case "Pod":
		pod := &corev1.Pod{}
		if err := w.read(u, pod); err != nil {
			return err
		}
		return w.addPod(pod, "spec")
	case "Job.batch":
		job := &batchv1.Job{}
		if err := w.read(u, job); err != nil {
			return err
		}
		return w.addJob(job, "spec.template.spec")
	case "CronJob.batch":
		cron := &batchv1.CronJob{}
		if err := w.read(u, cron); err != nil {
			return err
		}
		job := &batchv1.Job{ObjectMeta: cron.Spec.JobTemplate.ObjectMeta, Spec: cron.Spec.JobTemplate.Spec}
		job.Namespace, job.Name = cron.Namespace, madeUp(cron.Name, "next")
		w.setOwner(job, cron, "batch/v1", "CronJob")
		return w.addJob(job, "spec.jobTemplate.spec.template.spec")
	case "StatefulSet.apps":
		set := &appsv1.StatefulSet{}
		if err := w.read(u, set); err != nil {
			return err
		}
		return w.addStatefulSet(set)
	case "ReplicaSet.apps":
		set := &appsv1.ReplicaSet{}
		if err := w.read(u, set); err != nil {
			return err
		}
		return w.addReplicaSet(set, group.Owner{Group: "apps", Kind: "ReplicaSet", Name: set.Name, UID: set.UID})
	case "Deployment.apps":
		return w.addDeployment(u)
	case "PodGroup." + scheduling.GroupVersion.Group:
		return w.addPodGroup(u)
	case "PodGroup." + nativegroup.GroupVersion.Group:
		return w.addNativePodGroup(u)
	default:
		if i := referencedIndex(u); i < len(referencedKinds) {
			return w.addReferenced(u, referencedKinds[i])
		}
		if !slices.Contains(podless, u.GetKind()) {
			w.note("%s %s: this kind is not known, and its pods, if any, are not simulated; simulate what it makes, such as a Job (known kinds: %s)", u.GetKind(), u.GetName(), strings.Join(Kinds(), ", "))
		}
		return nil
	}
}

// podless are kinds that create no pods and do not affect where pods go.
var podless = []string{"ConfigMap", "Namespace", "Secret", "Service", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "PodDisruptionBudget"}

// note adds a note, once.
func (w *Additions) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(w.Notes, n) {
		w.Notes = append(w.Notes, n)
	}
}

// read converts an object to its type, and sets the metadata that the API
// server would set. It fails if the object has a field that does not exist.
func (w *Additions) read(u *unstructured.Unstructured, into metav1.Object) error {
	text, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	strict, err := kjson.UnmarshalStrict(text, into)
	if err := cmp.Or(err, errors.Join(strict...)); err != nil {
		return err
	}
	return w.admit(into)
}

// admit checks the names of an object, and sets the metadata that the API server would set.
func (w *Additions) admit(into metav1.Object) error {
	if in := into.GetNamespace(); in != "" && len(w.namespaces) > 0 && !w.namespaces[in] {
		return fmt.Errorf("metadata.namespace: %q: there is no such namespace", in)
	}
	name := cmp.Or(into.GetName(), into.GetGenerateName()+"x")
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return fmt.Errorf("metadata.name: %q: %s", into.GetName(), wrong[0])
	}
	w.setMetadata(into)
	return w.names.take(into)
}

// setMetadata sets the metadata that the API server sets at creation: name, UID and creation time.
func (w *Additions) setMetadata(o metav1.Object) {
	w.last++
	if o.GetName() == "" {
		o.SetName(madeUp(o.GetGenerateName(), w.last))
	}
	o.SetUID(types.UID("simulated-" + strconv.Itoa(w.last)))
	// The creation times keep the order of the objects in the file.
	o.SetCreationTimestamp(metav1.NewTime(w.now.Add(time.Duration(w.last) * time.Microsecond)))
	o.SetManagedFields(nil)
}

// setOwner sets the controller of an object.
func (w *Additions) setOwner(o, owner metav1.Object, version, kind string) {
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}})
}
