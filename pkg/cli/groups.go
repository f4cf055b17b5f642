package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/simulate"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A groupSummary has the properties of a group that are shown.
type groupSummary struct {
	Namespace string `json:"namespace"`
	// Name is the name of the PodGroup, as KIND/NAME if the PodGroup is native.
	Name string `json:"name"`
	// Owner is the object for which the group is named, as KIND/NAME. For a
	// unit of a LeaderWorkerSet it is the LeaderWorkerSet, and Unit is the unit.
	Owner string `json:"of,omitempty"`
	Unit  string `json:"unit,omitempty"`
	// Size is the number of pods that have not ended or are expected, and at least Minimum.
	Size int32 `json:"size"`
	// Minimum is the number of pods that the group needs to start.
	Minimum int32  `json:"minimum"`
	Bound   int32  `json:"bound"`
	Phase   string `json:"phase,omitempty"`
	// WaitingFor is the reason why the group waits. It is empty if the group does not wait.
	WaitingFor string      `json:"waitingFor,omitempty"`
	Message    string      `json:"message,omitempty"`
	Since      metav1.Time `json:"since,omitzero"`
	// Fault says what is wrong with a group that runs.
	Fault   string      `json:"fault,omitempty"`
	Created metav1.Time `json:"created"`
	// Nodes counts the pods on each node.
	Nodes map[string]int `json:"nodes,omitempty"`
	// Expecting is what the scheduler says of the pods for which it holds seats. It is empty if it
	// holds none.
	Expecting string `json:"expecting,omitempty"`
	// Seats counts the free seats on each node.
	Seats map[string]int `json:"seats,omitempty"`
}

func (o *options) groupsCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "groups",
		Aliases: []string{"group", "podgroups"},
		Short:   "List the groups: size, bound pods, phase, and what they wait for",
		Example: "  kubectl fluence groups\n  kubectl fluence groups -A -o wide",
		Args:    cobra.NoArgs,
	}
	f := addOutputFlag(cmd, formatWide)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list the groups of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error { return o.groups(ctx, f, all) })
	}
	return cmd
}

func (o *options) groups(ctx context.Context, f *outputFormat, all bool) error {
	r, err := o.reader()
	if err != nil {
		return err
	}
	if all {
		r.namespace = ""
	}
	rows, err := r.rows(ctx)
	if err != nil {
		return err
	}
	o.notes(r.notes)
	return f.print(o.Out, rows, func(w io.Writer) error {
		if len(rows) == 0 {
			where := "namespace " + r.namespace
			if all {
				where = "any namespace"
			}
			fmt.Fprintf(o.ErrOut, "No groups in %s.\n", where)
			return nil
		}
		return table(w, o.cells(rows, all, f.value == formatWide))
	})
}

func (o *options) cells(rows []groupSummary, namespaces, wide bool) [][]string {
	head := []string{"NAME", "SIZE", "BOUND", "PHASE", "WAITING FOR", "AGE"}
	if wide {
		head = append(head, "OF", "NODES")
	}
	if namespaces {
		head = slices.Insert(head, 0, "NAMESPACE")
	}
	cells := [][]string{head}
	for _, g := range rows {
		waitingFor := cmp.Or(g.WaitingFor, "-")
		if g.WaitingFor == "" && g.Expecting != "" {
			waitingFor = reason.Expecting
		}
		c := []string{g.Name, fmt.Sprint(g.Size), fmt.Sprint(g.Bound), cmp.Or(g.Phase, "<none>"), waitingFor, o.age(g.Created)}
		if wide {
			c = append(c, cmp.Or(g.Owner, "-"), cmp.Or(counts(g.Nodes, 0), "-"))
		}
		if namespaces {
			c = slices.Insert(c, 0, g.Namespace)
		}
		cells = append(cells, c)
	}
	return cells
}

// counts returns "NAME: N" for the names, sorted. After maxNames
// names it only counts the others. Zero means no limit.
func counts(of map[string]int, maxNames int) string {
	var parts []string
	for _, name := range sortedKeys(of) {
		if maxNames > 0 && len(parts) == maxNames {
			parts = append(parts, fmt.Sprintf("and %d more", len(of)-maxNames))
			break
		}
		parts = append(parts, fmt.Sprintf("%s: %d", name, of[name]))
	}
	return strings.Join(parts, ", ")
}

// rows reads the groups of the reader's namespace.
func (r *reader) rows(ctx context.Context) ([]groupSummary, error) {
	groups, err := r.readGroups(ctx, r.namespace)
	if err != nil {
		return nil, err
	}
	pods, err := r.readPods(ctx, r.namespace)
	if err != nil {
		return nil, err
	}
	owners, err := r.readOwners(ctx, pods)
	if err != nil {
		return nil, err
	}
	members := membersOf(pods, simulate.OwnersOf(owners))
	rows := make([]groupSummary, 0, len(groups))
	for i := range groups {
		rows = append(rows, summaryOf(&groups[i], members[types.NamespacedName{Namespace: groups[i].Namespace, Name: groups[i].Name}]))
	}
	slices.SortFunc(rows, func(a, b groupSummary) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return rows, nil
}

// The kinds of PodGroups, of Kubernetes and of Fluence, with their API groups. nativeKind
// begins the names of native PodGroups where they are shown.
const (
	nativeKind = "podgroup.scheduling.k8s.io"
	ownKind    = "podgroup.scheduling.x-k8s.io"
)

// shownName returns the name in the key of a group as it is shown, and as
// the command why takes it: KIND/NAME for a native PodGroup.
func shownName(name string) string {
	if name, native := group.NativeName(types.NamespacedName{Name: name}); native {
		return nativeKind + "/" + name
	}
	return name
}

// addNativeState sets what the status of a PodGroup says of its pods, and
// what the status of a native one does not say.
func (g *groupSummary) addNativeState(pods []*corev1.Pod) {
	var running, succeeded, failed int32
	for _, pod := range pods {
		if translate.Holds(pod) {
			g.Bound++
		}
		switch pod.Status.Phase {
		case corev1.PodRunning:
			running++
		case corev1.PodSucceeded:
			succeeded++
		case corev1.PodFailed:
			failed++
		case corev1.PodPending, corev1.PodUnknown:
		}
	}
	phase := scheduling.PodGroupPending
	switch ended := succeeded + failed; {
	case len(pods) > 0 && failed > 0 && int(ended) == len(pods):
		phase = scheduling.PodGroupFailed
	case len(pods) > 0 && int(ended) == len(pods):
		phase = scheduling.PodGroupFinished
	case running+succeeded >= max(1, g.Minimum):
		phase = scheduling.PodGroupRunning
	case g.Bound > 0:
		phase = scheduling.PodGroupScheduling
	}
	g.Phase = string(phase)
}

func summaryOf(pg *scheduling.PodGroup, pods []*corev1.Pod) groupSummary {
	g := groupSummary{
		Namespace: pg.Namespace, Name: shownName(pg.Name), Minimum: pg.Spec.MinMember, Bound: pg.Status.Scheduled,
		Phase: string(pg.Status.Phase), Created: metav1.NewTime(scheduling.CreationTime(pg).Time), Nodes: map[string]int{},
	}
	if refs := pg.OwnerReferences; len(refs) == 1 {
		g.Owner = refs[0].Kind + "/" + refs[0].Name
		if set := leaderWorkerSetOf(pg, pods); set != "" {
			g.Owner, g.Unit = leaderWorkerSet+"/"+set, refs[0].Name
		}
	}
	pods = ofScheduler(pg, pods)
	for _, pod := range pods {
		if translate.Holds(pod) {
			g.Nodes[pod.Spec.NodeName]++
		}
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			g.Size++
		}
	}
	g.addExpected(pg, pods)
	g.Size = max(g.Size, g.Minimum)
	if shownName(pg.Name) != pg.Name {
		g.addNativeState(pods)
	}
	if pg.Status.Phase == scheduling.PodGroupFinished || pg.Status.Phase == scheduling.PodGroupFailed {
		return g
	}
	switch c, held := waitingCondition(pg), whyGated(pods); {
	case c != nil && c.Type == podgroup.ConditionValid && g.Bound >= g.Minimum && !slices.ContainsFunc(pods, waits):
		g.Fault = c.Reason + ": " + c.Message
	case c != nil:
		g.WaitingFor, g.Message, g.Since = c.Reason, c.Message, c.LastTransitionTime
	case pg.Status.Phase == scheduling.PodGroupUnknown:
		missing := max(1, g.Minimum-g.Bound)
		g.WaitingFor, g.Message = reason.MembersMissing, fmt.Sprintf("%d of the %d pods that it needs are missing: they ended or were deleted", missing, g.Minimum)
	case held != "":
		g.WaitingFor, g.Message = corev1.PodReasonSchedulingGated, held
	}
	return g
}

const (
	// leaderWorkerSet is a kind. leaderWorkerSetLabel is the label with its name on the pods of its units.
	leaderWorkerSet      = "LeaderWorkerSet"
	leaderWorkerSetLabel = "leaderworkerset.sigs.k8s.io/name"
)

// leaderWorkerSetOf returns the name of the LeaderWorkerSet of which the group is a unit. It returns "" if
// the group is none: the owner of a unit's PodGroup is the leader pod.
func leaderWorkerSetOf(pg *scheduling.PodGroup, pods []*corev1.Pod) string {
	if refs := pg.OwnerReferences; len(refs) != 1 || refs[0].Kind != "Pod" {
		return ""
	}
	for _, pod := range pods {
		if set := pod.Labels[leaderWorkerSetLabel]; set != "" {
			return set
		}
	}
	return ""
}

// ofScheduler leaves out the pods of other schedulers, which the group does not count. If the controller
// did not make the PodGroup, its scheduler is not known, and no pod is left out.
func ofScheduler(pg *scheduling.PodGroup, pods []*corev1.Pod) []*corev1.Pod {
	scheduler := pg.Annotations[podgroup.SchedulerAnnotation]
	if scheduler == "" {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.Spec.SchedulerName != scheduler })
}

// waitingCondition returns the condition that says why a group waits: Valid if it is False, else
// Scheduled if it is False, else MembersExpected if it is False, else Incomplete if it is True. It
// returns nil if there is none.
func waitingCondition(pg *scheduling.PodGroup) *metav1.Condition {
	for _, c := range []struct {
		kind string
		when metav1.ConditionStatus
	}{
		{podgroup.ConditionValid, metav1.ConditionFalse},
		{report.ConditionScheduled, metav1.ConditionFalse},
		{scheduling.ConditionMembersExpected, metav1.ConditionFalse},
		{podgroup.ConditionIncomplete, metav1.ConditionTrue},
	} {
		if found := meta.FindStatusCondition(pg.Status.Conditions, c.kind); found != nil && found.Status == c.when {
			return found
		}
	}
	return nil
}
