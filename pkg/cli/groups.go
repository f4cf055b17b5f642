package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/simulate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A groupSummary has the properties of a group that are shown.
type groupSummary struct {
	Namespace string `json:"namespace"`
	// Name is the name of the PodGroup, as KIND/NAME if the PodGroup is native, or pod/NAME
	// in a list for a pod that is scheduled alone.
	Name string `json:"name"`
	// Owner is the object for which the group is named, as KIND/NAME. For a
	// unit of a LeaderWorkerSet it is the LeaderWorkerSet, and Unit is the unit.
	Owner string `json:"of,omitempty"`
	Unit  string `json:"unit,omitempty"`
	groupNumbers
	groupTimes
	// Status is what the group does: waiting, running, suspended, idle, terminating or finished.
	Status string `json:"status,omitempty"`
	Phase  string `json:"phase,omitempty"`
	// Result is how a finished group ended.
	Result string `json:"result,omitempty"`
	// WaitingFor is the reason why the group, or some of its pods, wait. It is empty if none waits.
	WaitingFor string `json:"waitingFor,omitempty"`
	Message    string `json:"message,omitempty"`
	// Fault says what is wrong with a group that runs.
	Fault string `json:"fault,omitempty"`
	// Nodes counts the pods on each node.
	Nodes map[string]int `json:"nodes,omitempty"`
	// Expecting is what the scheduler says of the pods for which it holds seats. It is empty if it
	// holds none.
	Expecting string `json:"expecting,omitempty"`
	// Seats counts the free seats on each node.
	Seats map[string]int `json:"seats,omitempty"`
}

// groupNumbers are the numbers of a group.
type groupNumbers struct {
	// Position is the place in the queue of all groups that ask, counted from 1. It is 0 if the group does not ask for nodes.
	Position int `json:"position,omitempty"`
	// Priority is the priority with which the group asks, or the highest of its pods if it does not.
	Priority int32 `json:"priority"`
	// Size is the number of pods that the group wants. It counts the pods that have not ended and are not being deleted, and
	// the expected ones. It is at least Minimum and status.desired of the PodGroup. It is 0 if the owners want no pods.
	Size int32 `json:"size"`
	// Minimum is the number of pods that the group needs to start.
	Minimum int32 `json:"minimum"`
	// Bound is the number of pods on nodes that have not ended, and Pending the number that wait for a node.
	Bound   int32 `json:"bound"`
	Pending int32 `json:"pending,omitempty"`
	// Succeeded and Failed are the numbers of pods that have ended.
	Succeeded int32 `json:"succeeded,omitempty"`
	Failed    int32 `json:"failed,omitempty"`
}

// groupTimes are the times of a group.
type groupTimes struct {
	Created metav1.Time `json:"created"`
	// Started is when the first of its pods got a node, or when the scheduler wrote so if that is earlier, and Ended when the group ended.
	Started metav1.Time `json:"started,omitzero"`
	Ended   metav1.Time `json:"ended,omitzero"`
	// Promised is from when room is promised to the group while it waits.
	Promised metav1.Time `json:"promised,omitzero"`
	// Since is since when the reason counts, and Decided when the scheduler last decided on the group.
	Since   metav1.Time `json:"since,omitzero"`
	Decided metav1.Time `json:"decided,omitzero"`
	// asked is since when it has asked for nodes, or asked before its start. It is zero if no pod waits, or if that is
	// not known. asks is true if some of its pods ask now.
	asked metav1.Time
	asks  bool
	// WaitSeconds is how long the group has waited for nodes now, or waited before it started. It is nil if
	// none of its pods asks for a node. RunSeconds is how long it has run.
	WaitSeconds *int64 `json:"waitSeconds,omitempty"`
	RunSeconds  *int64 `json:"runSeconds,omitempty"`
}

// A groupList is the list of groups as JSON and YAML.
type groupList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []groupSummary `json:"items"`
}

// groupListKind is the kind of a groupList.
var groupListKind = metav1.TypeMeta{Kind: "GroupList", APIVersion: "cli.fluence.flux-framework.org/v1"}

// groupsOptions are the flags of the command groups.
type groupsOptions struct {
	format    *outputFormat
	all       bool
	watch     bool
	noHeaders bool
	// sortBy is one of groupOrders.
	sortBy string
	groupFilter
}

func (o *options) groupsCommand() *cobra.Command {
	g := &groupsOptions{}
	cmd := &cobra.Command{
		Use:     "groups [NAME...]",
		Aliases: []string{"group", "podgroups"},
		Short:   "List the groups in the order of the queue: priority, size, bound pods, and what they wait for",
		Long: `List the groups: first those that wait, in the order in which they ask for nodes,
then those that run, those that are being deleted, and those that have finished. With names only these are listed;
a name is that of a PodGroup, of a pod, or of the object that makes the pods, as for why.

The order and the column # are the scheduler's own. Groups of all namespaces count, if you
may list pods and PodGroups of all namespaces.`,
		Example: `  kubectl fluence groups
  kubectl fluence groups -A -o wide
  kubectl fluence groups --status waiting --priority '>=100'
  kubectl fluence groups job/training --watch`,
		ValidArgsFunction: o.completeGroups,
	}
	g.format = addOutputFlag(cmd, formatWide, formatName, formatJSONPath, formatColumns)
	f := cmd.Flags()
	f.BoolVarP(&g.all, "all-namespaces", "A", false, "list the groups of all namespaces")
	f.BoolVarP(&g.watch, "watch", "w", false, "after the list, print the groups that change, until interrupted")
	f.BoolVar(&g.noHeaders, "no-headers", false, "print no header")
	f.StringVar(&g.sortBy, "sort-by", byPosition, "order of the list: "+strings.Join(groupOrders, ", "))
	if err := cmd.RegisterFlagCompletionFunc("sort-by", cobra.FixedCompletions(groupOrders, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was added right above
	}
	g.addFlags(cmd, o.completeNodes)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := g.validate(names); err != nil {
			return err
		}
		if g.watch {
			return o.watchGroups(cmd.Context(), g)
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error { return o.groups(ctx, g) })
	}
	return cmd
}

// validate checks the flags and the names.
func (g *groupsOptions) validate(names []string) error {
	if err := g.format.validate(); err != nil {
		return err
	}
	if g.watch && g.format.value != "" && g.format.value != formatWide {
		return fmt.Errorf("--watch: prints a table: leave --output out, or use --output %s", formatWide)
	}
	if !slices.Contains(groupOrders, g.sortBy) {
		return fmt.Errorf("--sort-by: %q: must be one of %s", g.sortBy, strings.Join(groupOrders, ", "))
	}
	return g.groupFilter.validate(names)
}

func (o *options) groups(ctx context.Context, g *groupsOptions) error {
	rows, r, err := o.listGroups(ctx, g)
	if err != nil {
		return err
	}
	if g.format.value == formatWide {
		if err := r.markGone(ctx, rows); err != nil {
			return err
		}
	}
	o.noteStopped(ctx, r, oldAnswers)
	o.notes(r.notes)
	list := groupList{groupListKind, make([]groupSummary, 0, len(rows))}
	for _, row := range rows {
		list.Items = append(list.Items, row.groupSummary)
	}
	return g.format.print(o.Out, list, func(w io.Writer) error {
		if g.format.value == formatName {
			for _, row := range rows {
				fmt.Fprintln(w, row.resource())
			}
			return nil
		}
		if len(rows) == 0 {
			fmt.Fprintln(o.ErrOut, nothingIn(r.namespace, !g.isEmpty()))
			return nil
		}
		return table(w, o.cells(rows, g))
	})
}

// nothingIn says in words that a list is empty.
func nothingIn(namespace string, filtered bool) string {
	what, where := "No groups", "any namespace"
	if filtered {
		what = "No such groups"
	}
	if namespace != "" {
		where = "namespace " + namespace
	}
	return what + " in " + where + "."
}

// listGroups reads the groups that the user asks for, in the order of the list.
func (o *options) listGroups(ctx context.Context, g *groupsOptions) ([]listedGroup, *reader, error) {
	r, err := o.reader()
	if err != nil {
		return nil, nil, err
	}
	if g.all {
		r.namespace = ""
	}
	ns, whole, err := r.readQueue(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows, err := o.rowsOf(ctx, r, ns, whole, g)
	return rows, r, err
}

// rowsOf returns the groups that the user asks for, in the order of the list. whole is false if only the groups of one
// namespace were read.
func (o *options) rowsOf(ctx context.Context, r *reader, ns *namespace, whole bool, g *groupsOptions) ([]listedGroup, error) {
	quiet := r.notes
	configuration, err := o.configuration(ctx, r)
	if err != nil {
		return nil, err
	}
	order, err := ns.queue(configuration)
	if err != nil {
		return nil, err
	}
	here := ns.in(r.namespace)
	if len(order) > 0 || !here.waitForOther(configuration.Scheduler()) {
		// Only the names of schedulers and levels depend on the configuration.
		r.notes = quiet
	}
	rows := here.list(configuration.Scheduler())
	position := map[types.NamespacedName]int{}
	for i, q := range order {
		position[q.Key] = i + 1
	}
	for i := range rows {
		if at := position[rows[i].key]; at > 0 {
			rows[i].Position, rows[i].Priority = at, priorityOf(order[at-1].Pod)
		}
	}
	if err := r.checkNode(ctx, g, rows); err != nil {
		return nil, err
	}
	if rows, err = g.keep(here, r.namespace, rows); err != nil {
		return nil, err
	}
	queued := slices.ContainsFunc(rows, func(row listedGroup) bool { return row.Position > 0 })
	if queued && !whole {
		r.notes = append(r.notes, placeInNamespace("#", r.namespace))
	}
	slices.SortStableFunc(rows, func(a, b listedGroup) int {
		return cmp.Or(a.compareBy(g.sortBy, &b.groupSummary), a.compare(&b.groupSummary))
	})
	return rows, nil
}

// The values of --sort-by.
const (
	byPosition = "position"
	byName     = "name"
	byPriority = "priority"
	byWait     = "wait"
	byRun      = "run"
)

var groupOrders = []string{byPosition, byName, byPriority, byWait, byRun}

// compareBy orders groups by a value of --sort-by: names alphabetically, and numbers with the largest first. Groups
// without the number come last. It returns 0 for the order of the queue.
func (g *groupSummary) compareBy(order string, b *groupSummary) int {
	seconds := func(s *int64) int64 {
		if s == nil {
			return -1
		}
		return *s
	}
	switch order {
	case byName:
		return cmp.Or(cmp.Compare(g.Namespace, b.Namespace), cmp.Compare(g.workload(), b.workload()))
	case byPriority:
		return cmp.Compare(b.Priority, g.Priority)
	case byWait:
		return cmp.Compare(seconds(b.WaitSeconds), seconds(g.WaitSeconds))
	case byRun:
		return cmp.Compare(seconds(b.RunSeconds), seconds(g.RunSeconds))
	}
	return 0
}

// quietConfiguration returns the scheduler's configuration. If it cannot be read, it
// returns Fluence's default without a note: only names of schedulers and levels depend on it.
func (o *options) quietConfiguration(ctx context.Context, r *reader) (simulate.Configuration, error) {
	notes := r.notes
	defer func() { r.notes = notes }()
	return o.configuration(ctx, r)
}

// compareKeys orders keys by namespace and name.
func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// compare orders groups. Groups in the queue come first, by their place. Then come groups that wait for something else than
// room, suspended groups, running groups by their start, groups that are being deleted, idle groups, and finished groups. The
// group that finished last is the first of these.
func (g *groupSummary) compare(b *groupSummary) int {
	if at := cmp.Compare(uint(g.Position-1), uint(b.Position-1)); at != 0 {
		return at // a place of 0 becomes the largest number
	}
	rank := []string{statusWaiting, statusSuspended, statusRunning, statusTerminating, statusIdle, statusFinished}
	return cmp.Or(cmp.Compare(slices.Index(rank, g.Status), slices.Index(rank, b.Status)), b.Ended.Compare(g.Ended.Time),
		g.Started.Compare(b.Started.Time), cmp.Compare(b.Priority, g.Priority), cmp.Compare(g.Namespace, b.Namespace), cmp.Compare(g.Name, b.Name))
}

// resource returns the name of the group as kubectl takes it. It names the Job that was created suspended, and has no
// PodGroup yet.
func (g *listedGroup) resource() string {
	if name, ok := strings.CutPrefix(g.Owner, "Job/"); ok && g.podGroup == nil && g.Status == statusSuspended {
		return "job.batch/" + name
	}
	if strings.Contains(g.Name, "/") {
		return g.Name
	}
	return ownKind + "/" + g.Name
}

// workload returns the name of the object for which the group was made, as the command why takes it. It is
// the PodGroup's own name if the group was made for no other object.
func (g *groupSummary) workload() string {
	switch {
	case g.Unit != "":
		return g.Unit
	case g.Owner != "" && !strings.Contains(g.Name, "/"):
		return g.Owner
	}
	return g.Name
}

// printable returns the group as the text shows it.
func (g groupSummary) printable() groupSummary {
	g.Owner, g.Unit = printableName(g.Owner), printableName(g.Unit)
	for _, text := range []*string{&g.Phase, &g.Result, &g.WaitingFor, &g.Message, &g.Fault, &g.Expecting} {
		*text = printable(*text)
	}
	return g
}

// reasonText is the reason as it stands in the table: with the number of pods if only some wait.
func (o *options) reasonText(g *groupSummary) string {
	switch {
	case g.Status == statusFinished:
		return o.ended(g)
	case g.WaitingFor != "" && g.Status == statusRunning && g.Pending > 0:
		return fmt.Sprintf("%s (%d)", g.WaitingFor, g.Pending)
	case g.WaitingFor == "" && g.Expecting != "":
		return reason.Expecting
	case g.WaitingFor == "" && g.Pending > 0 && g.Status == statusRunning:
		return fmt.Sprintf("nodes (%d)", g.Pending)
	}
	return cmp.Or(g.WaitingFor, "-")
}

// cells returns the table of groups.
func (o *options) cells(rows []listedGroup, f *groupsOptions) [][]string {
	wide := f.format.value == formatWide
	head := []string{"#", "NAME", "PRIO", "SIZE", "MIN", "BOUND", o.paint(plain, "PHASE"), "WAIT", "RUN", "START", "WAITING FOR"}
	if wide {
		head = append(head, "ENDED", "PODGROUP", "OF", "NODES")
	}
	if f.all {
		head = slices.Insert(head, 1, "NAMESPACE")
	}
	var cells [][]string
	if !f.noHeaders {
		cells = append(cells, head)
	}
	for _, g := range rows {
		cells = append(cells, o.row(&g, f.all, wide))
	}
	return cells
}

// row returns the row of a group.
func (o *options) row(g *listedGroup, namespaces, wide bool) []string {
	g = &listedGroup{groupSummary: g.printable(), podGroup: g.podGroup, pods: g.pods, gone: g.gone}
	place := "-"
	if g.Position > 0 {
		place = fmt.Sprint(g.Position)
	}
	why := o.reasonText(&g.groupSummary)
	if colour := g.colour(); colour != plain && !wide {
		why = o.paint(colour, why)
	}
	row := []string{
		place, g.workload(), fmt.Sprint(g.Priority), fmt.Sprint(g.Size), fmt.Sprint(g.Minimum), fmt.Sprint(g.Bound),
		o.paint(g.colour(), cmp.Or(g.Phase, "<none>")), lasted(g.WaitSeconds), lasted(g.RunSeconds), o.startText(g, wide), why,
	}
	if wide {
		name := g.Name
		if g.podGroup == nil {
			name = "-"
		}
		row = append(row, clock(g.Ended), name, cmp.Or(g.Owner, "-"), cmp.Or(g.nodesText(), "-"))
	}
	if namespaces {
		row = slices.Insert(row, 1, g.Namespace)
	}
	return row
}

// startText returns when a group started, or will start by its promise. A time of today has no date, unless wide is set.
func (o *options) startText(g *listedGroup, wide bool) string {
	at := g.start()
	if at.IsZero() || wide {
		return clock(at)
	}
	return reason.Time(at.Time, o.now())
}

// colour returns the colour of a group: yellow for one that waits, green for one that
// runs or has succeeded, and red for one that can never start or has failed.
func (g *listedGroup) colour() paint {
	switch {
	case g.WaitingFor == reason.NeverFits, g.Phase == string(scheduling.PodGroupFailed):
		return red
	case g.WaitingFor != "" || g.Status == statusWaiting:
		return yellow
	case g.Status == statusRunning || g.Status == statusFinished:
		return green
	}
	return plain
}

// lasted returns a time in seconds as kubectl writes ages.
func lasted(s *int64) string {
	if s == nil {
		return "-"
	}
	return duration.HumanDuration(time.Duration(*s) * time.Second)
}

// clock returns a time as text.
func clock(t metav1.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
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
