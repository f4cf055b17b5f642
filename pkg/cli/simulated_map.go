package cli

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/simulate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// drawSimulated draws the cluster now, and after the simulated groups have started.
func (o *options) drawSimulated(c simulate.Configuration, now simulate.Cluster, w *simulate.Additions, answers []simulatedGroup) error {
	levels, err := c.Levels()
	if err != nil {
		return err
	}
	draw := func(of simulate.Cluster, pods []*corev1.Pod) *tree {
		nodes := ofType[*corev1.Node](of.Objects)
		v := treeOf(nodes, pods, slices.Concat(of.PodGroups, converted(of.NativePodGroups)), nil, simulate.OwnersOf(of.Objects), levels, c)
		v.all = len(nodes)
		return v
	}
	before := draw(now, ofType[*corev1.Pod](now.Objects))
	after := now.With(w.Cluster)
	pods, marked := placed(w.Pods(), answers)
	after.PodGroups = slices.Clone(after.PodGroups)
	for i := range after.PodGroups {
		holdWhole(&after.PodGroups[i], pods, simulate.OwnersOf(after.Objects))
	}
	title, starts := "after: ", 0
	for _, a := range answers {
		if a.Starts {
			starts++
		}
	}
	switch {
	case len(answers) == 1 && len(answers[0].Evicts) > 0:
		title += answers[0].Name + " " + answers[0].Message
	case len(answers) == 1 && starts == 0:
		title += fmt.Sprintf("%s would not start: %s", answers[0].Name, answers[0].Reason)
	case len(answers) == 1:
		title += answers[0].Name + " would start"
	default:
		title += fmt.Sprintf("%d of %s would start", starts, reason.Plural(len(answers), "group"))
	}
	return writeSVG(o.Out,
		panel{title: "now: " + clusterText(before), tree: before},
		panel{title: title, tree: draw(after, append(ofType[*corev1.Pod](now.Objects), pods...)), marked: marked})
}

// placed returns copies of the simulated pods on the nodes that they would get, and the names of their groups.
func placed(pods []*corev1.Pod, answers []simulatedGroup) ([]*corev1.Pod, map[string]bool) {
	nodes, groups := map[types.NamespacedName]string{}, map[string]bool{}
	for _, a := range answers {
		name := a.Name
		if a.Kind == nativeKind {
			name = nativeKind + "/" + name
		}
		groups[a.Namespace+"/"+name] = true
		for _, p := range a.Placements {
			nodes[types.NamespacedName{Namespace: a.Namespace, Name: p.Pod}] = p.Node
		}
	}
	var on []*corev1.Pod
	for _, pod := range pods {
		if node := nodes[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]; node != "" {
			pod = pod.DeepCopy()
			pod.Spec.NodeName = node
			on = append(on, pod)
		}
	}
	return on, groups
}

// holdWhole sets the condition that a group holds its nodes as a whole if one of its placed pods asks for that, as
// the scheduler does when it has placed them.
func holdWhole(pg *scheduling.PodGroup, placed []*corev1.Pod, above group.Owners) {
	for _, pod := range placed {
		id := group.IdentityOf(pod, above)
		annotation, _ := group.ExclusiveRequest(pod.Annotations)
		if own, _ := group.ExclusiveRequest(pg.Annotations); own != "" {
			annotation = own
		}
		if id.Key.Namespace == pg.Namespace && id.Key.Name == pg.Name && annotation != "" && !strings.HasPrefix(shownName(pg.Name), nativeKind) {
			pg.Status = *pg.Status.DeepCopy()
			meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{Type: report.ConditionWholeNodes, Status: metav1.ConditionTrue, Reason: reason.Matched})
			return
		}
	}
}
