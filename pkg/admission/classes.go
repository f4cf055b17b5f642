package admission

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A class is what jobs ask for that ask for the same, but for how long. The jobs share it, so that it costs little memory.
type class struct {
	// name is different for each class.
	name string
	// spec is the request without a duration and without the rules for nodes. It has one slot request, with this label. Each slot
	// holds these amounts.
	spec    *jobspec.Jobspec
	label   string
	amounts translate.Amounts
	pods    int64
	policy  string
	rules   *nodeRules
	// requests are the amounts of all pods of a job together, in the units of sumOf.
	requests map[string]int64
	// err says what is wrong with the request, in words fit for a user. Nothing but name is set then.
	err error
	// users is the number of jobs that have the class.
	users int
}

// classes are the classes of all jobs.
type classes struct {
	byName map[string]*class
	rules  map[string]*nodeRules
	// rulesOf is Groups.Rules.
	rulesOf func(namespace string, placement map[string]string) (policy string, topology *jobspec.Topology, err error)
}

// take returns the class of a job. The caller gives it back with leave.
func (c *classes) take(fj *v1alpha1.FluxJob) *class {
	policy, topology, err := c.rulesOf(fj.Namespace, fj.Spec.Placement)
	key := struct {
		Jobspec, Policy, Err string
		Pods                 int32
		Topology             *jobspec.Topology
		Nodes                v1alpha1.NodeRules
		Requests             corev1.ResourceList
	}{Jobspec: fj.Spec.Jobspec, Pods: fj.Spec.Pods, Policy: policy, Topology: topology, Nodes: fj.Spec.Nodes, Requests: fj.Spec.Requests}
	if err != nil {
		key.Err = err.Error()
	}
	name := hashOf(key)
	k := c.byName[name]
	if k == nil {
		if k, err = c.read(fj, policy, topology, err); err != nil {
			k = &class{err: err}
		}
		k.name = name
		c.byName[name] = k
	}
	k.users++
	return k
}

// leave gives a class back.
func (c *classes) leave(k *class) {
	if k.users--; k.users > 0 {
		return
	}
	delete(c.byName, k.name)
	if k.rules == nil {
		return
	}
	if k.rules.users--; k.rules.users == 0 {
		delete(c.rules, k.rules.name)
	}
}

// read reads what a job asks for. An error names the field and the value. If only the placement is wrong, the class says so and has the
// rest: a job that runs keeps its room though its placement is not possible any more.
func (c *classes) read(fj *v1alpha1.FluxJob, policy string, topology *jobspec.Topology, wrong error) (*class, error) {
	spec, err := jobspec.Parse([]byte(fj.Spec.Jobspec))
	if err != nil {
		return nil, fmt.Errorf("spec.jobspec: %w", err)
	}
	if len(spec.Resources) != 1 || spec.Resources[0].Type != jobspec.SlotType {
		return nil, errors.New("spec.jobspec: resources: must be one slot request")
	}
	slot := &spec.Resources[0]
	if slot.Count != jobspec.Exactly(int64(fj.Spec.Pods)) {
		return nil, fmt.Errorf("spec.jobspec: resources[0].count: must be %d, as spec.pods", fj.Spec.Pods)
	}
	k := &class{spec: spec, label: slot.Label, amounts: translate.Amounts{}, pods: int64(fj.Spec.Pods), policy: policy, err: wrong}
	for i := range slot.With {
		r := &slot.With[i]
		if len(r.With) > 0 || r.Count != jobspec.Exactly(r.Count.Min) {
			return nil, fmt.Errorf("spec.jobspec: resources[0].with[%d]: %s: must be an amount", i, r.Type)
		}
		k.amounts[r.Type] = r.Count.Min
	}
	spec.Attributes.System.Duration, spec.Attributes.System.ZeroDuration = 0, false
	if topology != nil {
		attributes := spec.Attributes.System.Fluence[k.label]
		attributes.Topology = topology
		k.setAttributes(spec, attributes)
	}
	if k.rules, err = c.nodeRules(&fj.Spec.Nodes); err != nil {
		return nil, err
	}
	k.requests = sumOf(fj.Spec.Requests, int64(fj.Spec.Pods))
	return k, nil
}

// setAttributes sets the attributes of the slot request in a request.
func (k *class) setAttributes(spec *jobspec.Jobspec, a jobspec.SlotAttributes) {
	all := maps.Clone(spec.Attributes.System.Fluence)
	if all == nil {
		all = map[string]jobspec.SlotAttributes{}
	}
	all[k.label] = a
	spec.Attributes.System.Fluence = all
}

// request returns the request of a class with two more constraints. One holds at any time, the other holds now. Both may be nil.
func (k *class) request(always, now *jobspec.Constraint) *jobspec.Jobspec {
	if always == nil && now == nil {
		return k.spec
	}
	spec := *k.spec
	a := spec.Attributes.System.Fluence[k.label]
	a.Constraints, a.ConstraintsNow = both(a.Constraints, always), both(a.ConstraintsNow, now)
	k.setAttributes(&spec, a)
	return &spec
}

// both returns the constraint that holds where two hold. A nil one holds everywhere.
func both(a, b *jobspec.Constraint) *jobspec.Constraint {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &jobspec.Constraint{Op: jobspec.OpAnd, Args: []jobspec.Constraint{*a, *b}}
}

// sumOf returns amounts n times, by resource: cpu in thousandths, all others in their unit, rounded up. Such are the units of
// queue.Job.Requests and queue.Limits.Requests.
func sumOf(list corev1.ResourceList, n int64) map[string]int64 {
	sums := make(map[string]int64, len(list))
	for name, q := range list {
		one := q.Value()
		if name == corev1.ResourceCPU {
			one = q.MilliValue()
		}
		if one > 0 && n > math.MaxInt64/one {
			one, n = math.MaxInt64, 1
		}
		sums[string(name)] = one * n
	}
	return sums
}

// quantitiesOf is the inverse of sumOf.
func quantitiesOf(sums map[string]int64) corev1.ResourceList {
	if len(sums) == 0 {
		return nil
	}
	list := make(corev1.ResourceList, len(sums))
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		switch n := sums[name]; {
		case n == 0:
		case name == string(corev1.ResourceCPU):
			list[corev1.ResourceCPU] = *apiresource.NewMilliQuantity(n, apiresource.DecimalSI)
		case name == string(corev1.ResourceMemory), name == string(corev1.ResourceEphemeralStorage):
			list[corev1.ResourceName(name)] = *apiresource.NewQuantity(n, apiresource.BinarySI)
		default:
			list[corev1.ResourceName(name)] = *apiresource.NewQuantity(n, apiresource.DecimalSI)
		}
	}
	return list
}

// hashOf returns a short text that is different for different values.
func hashOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // the values are made of texts and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
