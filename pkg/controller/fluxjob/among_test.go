package fluxjob

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// The request of a job has the rules that its pods have for each other, also as the cache keeps the Job. Otherwise it would be given nodes
// on which its pods cannot be.
func TestRulesAmongThePodsOfAJob(t *testing.T) {
	const zone = corev1.LabelTopologyZone
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	term := func(key string, s *metav1.LabelSelector) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: s}}
	}
	apart := func(terms []corev1.PodAffinityTerm) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		}
	}
	together := func(terms []corev1.PodAffinityTerm) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		}
	}
	spread := func(key string, skew int32, when corev1.UnsatisfiableConstraintAction) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: key, MaxSkew: skew, WhenUnsatisfiable: when, LabelSelector: own}}
		}
	}
	in := func(t corev1.PodAffinityTerm, edit func(*corev1.PodAffinityTerm)) []corev1.PodAffinityTerm {
		edit(&t)
		return []corev1.PodAffinityTerm{t}
	}
	host := term(corev1.LabelHostname, own)[0]
	cases := map[string]struct {
		edit func(*corev1.PodTemplateSpec)
		pods int32
		// most is the largest number on a node, and level the required topology.
		most  int64
		level string
		// invalid is a part of the message of the condition Valid.
		invalid string
	}{
		"no rule":                    {edit: func(*corev1.PodTemplateSpec) {}},
		"apart on nodes":             {edit: apart(term(corev1.LabelHostname, own)), most: 1},
		"one pod":                    {edit: apart(term(corev1.LabelHostname, own)), pods: 1},
		"apart from others":          {edit: apart(term(corev1.LabelHostname, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "y"}}))},
		"apart from nobody":          {edit: apart(term(corev1.LabelHostname, nil))},
		"apart in another namespace": {edit: apart(in(host, func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"other"} }))},
		"apart in each namespace":    {edit: apart(in(host, func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} })), most: 1},
		"apart from other jobs":      {edit: apart(in(host, func(t *corev1.PodAffinityTerm) { t.MismatchLabelKeys = []string{"app"} }))},
		"apart in zones":             {edit: apart(term(zone, own)), invalid: `podAntiAffinity with topologyKey "topology.kubernetes.io/zone"`},
		"spread over nodes":          {edit: spread(corev1.LabelHostname, 2, corev1.DoNotSchedule), most: 2},
		"spread over zones":          {edit: spread(zone, 1, corev1.DoNotSchedule), invalid: `topologySpreadConstraints with topologyKey "topology.kubernetes.io/zone"`},
		"spread if possible":         {edit: spread(zone, 1, corev1.ScheduleAnyway)},
		"a port of the host": {edit: func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
		}, most: 1},
		"a port of the pod": {edit: func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
		}},
		"a port, on the host's network": {edit: func(p *corev1.PodTemplateSpec) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
		}, most: 1},
		"together in a zone":           {edit: together(term(zone, own)), level: zone},
		"together on a node":           {edit: together(term(corev1.LabelHostname, own)), level: corev1.LabelHostname},
		"as many on a node as it says": {edit: func(p *corev1.PodTemplateSpec) { p.Annotations = map[string]string{group.PodsPerNodeAnnotation: "3"} }, most: 3},
		"fewer on a node than it says": {edit: func(p *corev1.PodTemplateSpec) {
			p.Annotations = map[string]string{group.PodsPerNodeAnnotation: "3"}
			apart(term(corev1.LabelHostname, own))(p)
		}, most: 1},
		"a topology that is asked for": {edit: func(p *corev1.PodTemplateSpec) {
			p.Annotations = map[string]string{group.TopologyRequiredAnnotation: "rack"}
			together(term(zone, own))(p)
		}, level: "rack"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(j *batchv1.Job) {
				j.Spec.Template.Labels = map[string]string{"app": "x"}
				tc.edit(&j.Spec.Template)
				if tc.pods > 0 {
					j.Spec.Parallelism, j.Spec.Completions = &tc.pods, &tc.pods
				}
			})
			w.settle()
			spec, err := jobspec.Parse([]byte(w.fluxJob.Spec.Jobspec))
			if err != nil {
				t.Fatal(err)
			}
			var most int64
			for _, l := range spec.Attributes.System.Fluence[shapeLabel].Limits {
				most = l.Most
			}
			if level := w.fluxJob.Spec.Placement[group.TopologyRequiredAnnotation]; most != tc.most || level != tc.level {
				t.Errorf("at most %d pods on a node, all in one %q, want %d and %q", most, level, tc.most, tc.level)
			}
			valid := meta.FindStatusCondition(w.fluxJob.Status.Conditions, v1alpha1.ConditionValid)
			if isValid := valid.Status == metav1.ConditionTrue; isValid != (tc.invalid == "") || !strings.Contains(valid.Message, tc.invalid) {
				t.Errorf("Valid is %s: %s, want %q", valid.Status, valid.Message, tc.invalid)
			}
			// The cache has no labels of the template.
			kept, err := keeping("fluence", nil)(w.job.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			job := kept.(*batchv1.Job)
			job.Spec.Template.Labels = nil
			fromCache := &v1alpha1.FluxJob{}
			_ = ofJob(job, "fluence").asked.write(fromCache)
			if fromCache.Spec.Jobspec != w.fluxJob.Spec.Jobspec {
				t.Errorf("from the cache it asks for\n%s\nwant\n%s", fromCache.Spec.Jobspec, w.fluxJob.Spec.Jobspec)
			}
		})
	}
}
