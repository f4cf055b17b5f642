package fluxjob

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// shapeLabel is the label of the one slot request in the jobspec of a FluxJob.
const shapeLabel = "shape0"

// maxJobspec is the largest number of bytes of spec.jobspec.
const maxJobspec = 1 << 16

// placementAnnotations are the annotations of a pod template that say where its pods may be, and in which order
// nodes are chosen. The scheduler alone knows the levels that they name.
var placementAnnotations = []string{
	group.MatchPolicyAnnotation, group.ExclusiveAnnotation,
	group.TopologyRequiredAnnotation, group.TopologyPreferredAnnotation, group.TopologyBalancedAnnotation,
}

// placementOf returns those of some annotations that are placementAnnotations. It returns nil if there are none.
func placementOf(annotations map[string]string) map[string]string {
	var own map[string]string
	for _, key := range placementAnnotations {
		if value, has := annotations[key]; has {
			if own == nil {
				own = map[string]string{}
			}
			own[key] = value
		}
	}
	return own
}

// write sets the fields of a FluxJob that follow from the pod template. What is wrong is returned, in words fit for a user; the fields are set all the same.
func (r *request) write(fj *v1alpha1.FluxJob) error {
	s := &fj.Spec
	s.Pods = min(r.pods, v1alpha1.MaxPods)
	s.Requests = requestsOf(&r.template.Spec)
	s.Nodes = nodeRulesOf(&r.template.Spec)
	s.Placement = placementOf(r.template.Annotations)
	most, together, err := r.among()
	if _, said := s.Placement[group.TopologyRequiredAnnotation]; together != "" && !said {
		if s.Placement == nil {
			s.Placement = map[string]string{}
		}
		s.Placement[group.TopologyRequiredAnnotation] = together
	}
	text, jobspecErr := r.jobspec(s.Pods, most)
	err = errors.Join(err, jobspecErr)
	if jobspecHash(text) != jobspecHash(s.Jobspec) {
		s.Jobspec = text
	}
	if r.pods > v1alpha1.MaxPods {
		err = errors.Join(err, fmt.Errorf("%d pods at a time: a job has at most %d", r.pods, v1alpha1.MaxPods))
	}
	return err
}

// jobspec returns the request for a number of pods (RFC 14), at most most of them on a node if that is not 0, as YAML. With an error it is a request for a pod that asks for
// nothing: the schema wants one.
func (r *request) jobspec(pods int32, most int64) (string, error) {
	shape := translate.ShapeRequest{
		Label: shapeLabel, Amounts: translate.Requests(&corev1.Pod{Spec: slimPodSpec(&r.template.Spec)}),
		Min: int64(pods), Max: int64(pods),
	}
	if most > 0 {
		shape.Attributes.Limits = []jobspec.Limit{{Name: "pods-per-node", Level: resource.TypeNode, Most: most}}
	}
	text, err := translate.Jobspec([]translate.ShapeRequest{shape}).EncodeYAML()
	if err == nil && len(text) > maxJobspec {
		err = fmt.Errorf("the pods ask for too many resources: the jobspec has %d bytes, and may have %d", len(text), maxJobspec)
	}
	if err != nil {
		shape.Amounts = translate.Amounts{translate.TypePods: 1}
		text, _ = translate.Jobspec([]translate.ShapeRequest{shape}).EncodeYAML()
	}
	return string(text), err
}

// hashPrefix begins what the cache has of a jobspec.
const hashPrefix = "sha256:"

// jobspecHash returns what the cache has of a jobspec: a hash of its text. A hash is its own.
func jobspecHash(text string) string {
	if strings.HasPrefix(text, hashPrefix) || text == "" {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// requestsOf returns what a pod of a template requests. The API server sets what a template leaves out only in the pods: a
// request that is missing is as large as the limit (k8s.io/kubernetes/pkg/apis/core/v1, SetDefaults_Pod).
func requestsOf(spec *corev1.PodSpec) corev1.ResourceList {
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: withLimits(spec.InitContainers), Containers: withLimits(spec.Containers), Overhead: spec.Overhead}}
	if spec.Resources != nil {
		own := *spec.Resources
		inContainers := podresource.AggregateContainerRequests(pod, podresource.PodResourcesOptions{})
		own.Requests = maps.Clone(own.Requests)
		for name, limit := range own.Limits {
			_, said := own.Requests[name]
			if _, inThem := inContainers[name]; said || inThem || !podresource.IsSupportedPodLevelResource(name) {
				continue
			}
			if own.Requests == nil {
				own.Requests = corev1.ResourceList{}
			}
			own.Requests[name] = limit
		}
		pod.Spec.Resources = &own
	}
	all := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	maps.DeleteFunc(all, func(_ corev1.ResourceName, q apiresource.Quantity) bool { return q.Sign() <= 0 })
	return all
}

// withLimits returns containers with their requests only. Where one has a limit and no request, the limit is the request.
func withLimits(containers []corev1.Container) []corev1.Container {
	var all []corev1.Container
	for _, c := range containers {
		requests := maps.Clone(c.Resources.Requests)
		for name, limit := range c.Resources.Limits {
			if _, said := requests[name]; said {
				continue
			}
			if requests == nil {
				requests = corev1.ResourceList{}
			}
			requests[name] = limit
		}
		all = append(all, corev1.Container{RestartPolicy: c.RestartPolicy, Resources: corev1.ResourceRequirements{Requests: requests}})
	}
	return all
}

// nodeRulesOf returns which nodes the pods of a template may be on.
func nodeRulesOf(spec *corev1.PodSpec) v1alpha1.NodeRules {
	rules := v1alpha1.NodeRules{Selector: spec.NodeSelector, Tolerations: spec.Tolerations}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		rules.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return rules
}

// asksTheSame reports whether two FluxJobs ask for the same. Users set the duration, and whether a job is held.
func asksTheSame(a, b *v1alpha1.FluxJob) bool {
	x, y := a.Spec, b.Spec
	for _, s := range []*v1alpha1.FluxJobSpec{&x, &y} {
		s.Jobspec, s.Duration, s.Held = jobspecHash(s.Jobspec), "", false
	}
	return equality.Semantic.DeepEqual(x, y)
}

// sameSpec reports whether two FluxJobs ask for the same, and have the same duration, hold and annotations.
func sameSpec(a, b *v1alpha1.FluxJob) bool {
	return asksTheSame(a, b) && a.Spec.Duration == b.Spec.Duration && a.Spec.Held == b.Spec.Held && maps.Equal(a.Annotations, b.Annotations)
}

// setAnnotation sets an annotation, or removes it if the value is empty.
func setAnnotation(fj *v1alpha1.FluxJob, key, value string) {
	if value == "" {
		delete(fj.Annotations, key)
		return
	}
	if fj.Annotations == nil {
		fj.Annotations = map[string]string{}
	}
	fj.Annotations[key] = value
}
