package cli

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/flux-k8s/fluence/test/objects"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A call is a command line with the objects of its cluster.
type call struct {
	args  string
	stdin string
	// in is the standard input if it is set.
	in      io.Reader
	objects []runtime.Object
	// without are resources that are not served. forbidden are resources that may not be read.
	without, forbidden []string
	// unauthorized is true if the user's credentials are not accepted.
	unauthorized bool
	// renewing is how far the user's clock is ahead of the cluster's. The leases are renewed all the time.
	renewing time.Duration
	// minor is the minor version of the API server. If it is empty it is the version of this build.
	minor    string
	terminal bool
	want     int
	// writable is true if the command may write, but for the resources in readOnly. Its writes are shown after its output.
	writable bool
	readOnly []string
	// reads, if it is set, gets the number of requests by resource.
	reads map[string]int
	// meanwhile happens to each object between a read and its change.
	meanwhile func(runtime.Object)
	// completes is true if the command line is to be completed. Its last
	// word may be empty, and KUBECONFIG in it stands for the file's name.
	completes bool
}

func (c call) run(t *testing.T) (out, errOut string, code int) {
	t.Helper()
	out, errOut, code, _ = c.runAndWrite(t)
	return out, errOut, code
}

// runAndWrite also returns the writes of the command.
func (c call) runAndWrite(t *testing.T) (out, errOut string, code int, writes []string) {
	t.Helper()
	s := serve(t, c.objects...)
	s.writable, s.meanwhile = c.writable, c.meanwhile
	if c.reads != nil {
		s.reads = c.reads
	}
	for _, r := range c.readOnly {
		s.readOnly[r] = true
	}
	for _, r := range c.without {
		s.unknown[r] = true
	}
	for _, r := range c.forbidden {
		s.forbidden[r] = true
	}
	s.unauthorized = c.unauthorized
	if c.minor != "" {
		s.minor = c.minor
	}
	args := append(strings.Fields(c.args), "--kubeconfig", s.kubeconfig())
	if c.completes {
		args = strings.Split(strings.ReplaceAll(c.args, "KUBECONFIG", s.kubeconfig()), " ")
	}
	if c.in == nil {
		c.in = strings.NewReader(c.stdin)
	}
	after := func(time.Duration) <-chan time.Time {
		for _, o := range s.objects[coordinationv1.SchemeGroupVersion.WithResource("leases")] {
			if l := o.(*coordinationv1.Lease); c.renewing > 0 {
				l.Spec.RenewTime = new(metav1.NewMicroTime(l.Spec.RenewTime.Add(3 * time.Second)))
			}
		}
		return atOnce(0)
	}
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), Config{
		IOStreams: genericiooptions.IOStreams{In: c.in, Out: &stdout, ErrOut: &stderr},
		After:     after,
		Now:       func() time.Time { return noon.Add(c.renewing) },
		Terminal:  c.terminal,
		Version:   "v1",
	}, args)
	return stdout.String(), stderr.String(), code, s.writes
}

// compare runs the command, and compares all that it says with a file.
func (c call) compare(t *testing.T, name string) {
	t.Helper()
	out, errOut, code, writes := c.runAndWrite(t)
	if code != c.want {
		t.Errorf("exit code %d, want %d", code, c.want)
	}
	got := fmt.Sprintf("$ kubectl fluence %s\n%s", c.args, out)
	if errOut != "" {
		got += "--- stderr\n" + errOut
	}
	if len(writes) > 0 {
		got += "--- writes\n" + strings.Join(writes, "\n") + "\n"
	}
	compare(t, strings.NewReplacer(" ", "-", ",", "").Replace(name), got+fmt.Sprintf("--- exit code %d\n", code))
}

// atOnce is a pause that is over at once.
func atOnce(time.Duration) <-chan time.Time {
	at := make(chan time.Time, 1)
	at <- noon
	return at
}

const levels = " --topology-levels topology.kubernetes.io/zone,example.com/rack"

func TestCommands(t *testing.T) {
	silence, talks := io.Pipe()
	t.Cleanup(func() { _ = talks.Close() })
	stale := well()
	stale.Updated = noon.Add(-time.Hour)
	another := well()
	another.Leader, another.MatcherAnswers = "fluence-scheduler-1", false
	unwell := well()
	unwell.MatcherAnswers, unwell.LastMatch = false, nil
	just := unwell
	just.Updated = noon.Add(-2 * time.Second)
	unloaded := well()
	unloaded.Epoch, unloaded.WhyNotLoaded = 0, "make the engine ready for requests: ready: load the graph into Fluxion: no such type"
	outdated := well()
	outdated.WhyNotLoaded = "ready: load the graph into Fluxion: no memory"
	configured := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fluence-system", Name: configMap},
		Data: map[string]string{"config.yaml": strings.Join([]string{
			"apiVersion: kubescheduler.config.k8s.io/v1", "kind: KubeSchedulerConfiguration", "profiles:", "- schedulerName: fluence",
			"  plugins: {multiPoint: {enabled: [{name: Fluence}]}, queueSort: {enabled: [{name: Fluence}], disabled: [{name: '*'}]}}",
			"  pluginConfig: [{name: Fluence, args: {topologyLevels: [example.com/rack]}}]",
		}, "\n")},
	}
	promising := configured.DeepCopy()
	promising.Data["config.yaml"] = strings.Replace(promising.Data["config.yaml"], "topologyLevels: [example.com/rack]", "promises: {depth: 1}", 1)
	cases := map[string]call{
		"groups are listed":                                    {args: "groups", objects: cluster()},
		"groups with their nodes":                              {args: "groups -o wide", objects: cluster()},
		"groups of all namespaces":                             {args: "groups -A", objects: cluster()},
		"groups as yaml":                                       {args: "groups -o yaml", objects: cluster()},
		"no groups":                                            {args: "groups"},
		"groups without the CRD":                               {args: "groups", without: []string{"podgroups"}, want: ExitError},
		"groups that may not be read":                          {args: "groups", forbidden: []string{"podgroups"}, want: ExitError},
		"groups of pods whose owners may not be read":          {args: "groups -o wide", objects: cluster(), forbidden: []string{"jobs"}},
		"an output that there is not":                          {args: "groups -o xml", want: ExitError},
		"a colour that there is not":                           {args: "groups --color blue", want: ExitError},
		"a topology level that is no label":                    {args: "graph --topology-levels a/b/c", want: ExitError},
		"why a group waits, named for its job":                 {args: "why training", objects: cluster(), want: ExitNo},
		"why a group waits, as json":                           {args: "why job/training -o json", objects: cluster(), want: ExitNo},
		"why a group waits, asked now":                         {args: "why training --now", objects: cluster(), want: ExitNo},
		"why of a group that has started":                      {args: "why solver --now", objects: cluster()},
		"why a pod of a group waits":                           {args: "why training-3", objects: cluster(), want: ExitNo},
		"why a lone pod waits":                                 {args: "why pod/huge --now", objects: cluster(), want: ExitNo},
		"why of a CronJob":                                     {args: "why cj/nightly", objects: nightly(), want: ExitError},
		"why of a CronJob without Jobs":                        {args: "why cronjob/weekly", objects: nightly(), want: ExitError},
		"groups of a CronJob":                                  {args: "groups nightly", objects: nightly(), want: ExitError},
		"why of what is not there":                             {args: "why nothing", objects: cluster(), want: ExitError},
		"why of a LeaderWorkerSet":                             {args: "why vllm", objects: served(), want: ExitNo},
		"why of a LeaderWorkerSet by its short name, as yaml":  {args: "why lws/vllm -o yaml", objects: served(), want: ExitNo},
		"why of a unit of a LeaderWorkerSet":                   {args: "why vllm-0", objects: served()},
		"groups of a LeaderWorkerSet":                          {args: "groups -o wide", objects: served()},
		"groups that hold seats":                               {args: "groups", objects: seated()},
		"groups whose seats were given back":                   {args: "groups", objects: withoutSeats()},
		"why of a group that holds seats":                      {args: "why vllm", objects: seated()},
		"why of a group that holds seats, as yaml":             {args: "why vllm -o yaml", objects: seated()},
		"the graph with seats":                                 {args: "graph", objects: seated()},
		"the graph after seats were given back":                {args: "graph", objects: withoutSeats()},
		"nodes with seats":                                     {args: "nodes", objects: seated()},
		"nodes with seats, as json":                            {args: "nodes -o json", objects: seated()},
		"groups that are in trouble":                           {args: "groups", objects: troubled()},
		"why of a name that two things have":                   {args: "why dup", objects: troubled(), want: ExitError},
		"why of a job as kubectl prints it":                    {args: "why job.batch/dup", objects: troubled()},
		"why of a pod by its short name":                       {args: "why po/unheard", objects: troubled(), want: ExitNo},
		"why of a PodGroup as kubectl prints it":               {args: "why podgroup.scheduling.x-k8s.io/job-dup-8d765ce38c", objects: troubled()},
		"why of what is in another namespace":                  {args: "why other/job-dup", objects: troubled(), want: ExitError},
		"a job of another namespace":                           {args: "simulate -f - -n other", stdin: strings.Replace(manifest("x", 1, "1"), "name: x", "name: x\n  namespace: lab", 1), objects: cluster(), want: ExitError},
		"groups of labelled pods whose owners may not be read": {args: "groups", objects: []runtime.Object{pod("a", "", "1", objects.InGroup("g"))}, forbidden: []string{"jobs", "replicasets", "statefulsets"}},
		"nodes of a cluster without any, as json":              {args: "nodes -o json"},
		"why a pod waits where groups may not be read":         {args: "why pod/band-1", objects: troubled(), forbidden: []string{"podgroups"}, want: ExitNo},
		"why a job waits where groups may not be read":         {args: "why job/dup", objects: troubled(), forbidden: []string{"podgroups"}, want: ExitError},
		"why of no name":                                       {args: "why pod/", objects: troubled(), want: ExitError},
		"why of nothing":                                       {args: "why", objects: troubled(), want: ExitError},
		"why a pod of another scheduler waits":                 {args: "why alone --now", objects: troubled(), want: ExitNo},
		"why a job of another scheduler waits":                 {args: "why stranger", objects: troubled(), want: ExitNo},
		"why a suspended job waits":                            {args: "why susp -o yaml", objects: troubled(), want: ExitNo},
		"why a job without pods waits":                         {args: "why empty", objects: troubled(), want: ExitNo},
		"why of a job that has ended":                          {args: "why done", objects: troubled()},
		"why labelled pods without a PodGroup wait":            {args: "why band", objects: troubled(), want: ExitNo},
		"why one of labelled pods without a PodGroup waits":    {args: "why band-1", objects: troubled(), want: ExitNo},
		"why a gated pod waits":                                {args: "why pod/gated --now", objects: troubled(), want: ExitNo},
		"why a gated job waits":                                {args: "why job/gated --now", objects: troubled(), want: ExitNo},
		"why a group that lost members waits":                  {args: "why lost", objects: troubled(), want: ExitNo},
		"why of a group that is larger than its minimum":       {args: "why wide", objects: troubled(), want: ExitNo},
		"why of a label that is no name":                       {args: "why My_Band", objects: troubled(), want: ExitNo},
		"why of a group with misspelt annotations":             {args: "why typo", objects: misspelt(), want: ExitNo},
		"why of a pod with a misspelt annotation, as yaml":     {args: "why single -o yaml", objects: misspelt(), want: ExitNo},
		"why of a group that runs with a fault":                {args: "why odd", objects: troubled()},
		"groups that may not be asked for any more":            {args: "groups", unauthorized: true, want: ExitError},
		"an API server that is away":                           {args: "groups --server http://127.0.0.1:1", want: ExitError},
		"a job that nobody types":                              {args: "simulate -f - --timeout 20ms", in: silence, want: ExitError},
		"a file without objects":                               {args: "simulate -f -", stdin: "# nothing\n", want: ExitError},
		"why of a pod that is being deleted":                   {args: "why going", objects: troubled()},
		"why of a pod that has ended":                          {args: "why odd-1", objects: troubled()},
		"nodes beside what is in trouble":                      {args: "nodes", objects: troubled()},
		"a job that is there twice in the file":                {args: "simulate -f -", stdin: manifest("x", 1, "1") + "---\n" + manifest("x", 1, "1"), objects: cluster(), want: ExitError},
		"a large job of another scheduler":                     {args: "simulate -f -", stdin: strings.Replace(manifest("x", 300, "1"), "schedulerName: fluence", "schedulerName: other", 1), objects: cluster(), want: ExitError},
		"a job whose pods would be called like others":         {args: "simulate -f -", stdin: manifest("training", 3, "1"), objects: append(cluster(), pod("training-#0", "", "1"))[2:], want: ExitYes},
		"when a group starts":                                  {args: "when training", objects: timed("16m")},
		"when a group starts, as json":                         {args: "when job/training -o json", objects: timed("16m")},
		"when a group starts that is promised room":            {args: "when training", objects: append(timed("16m"), promising)},
		"when a group starts of which no time is known":        {args: "when training", objects: timed(""), want: ExitNo},
		"when a group starts that has started":                 {args: "when solver", objects: cluster()},
		"when a pod starts that never fits":                    {args: "when pod/huge", objects: cluster(), want: ExitNo},
		"when a suspended job starts":                          {args: "when paused", objects: queued(), want: ExitNo},
		"when a native PodGroup starts":                        {args: "when podgroup.scheduling.k8s.io/ring", objects: natives(), want: ExitNo},
		"why a group waits that is promised room":              {args: "why training", objects: timed("16m"), want: ExitNo},
		"groups of which one is promised room":                 {args: "groups", objects: timed("16m")},
		"the graph at a time":                                  {args: "graph --at +30m", objects: append(timed("16m"), promising)},
		"the graph in a part of a day":                         {args: "graph --at 0.02d", objects: append(timed("16m"), promising)},
		"the graph before an end":                              {args: "graph --at 12:05", objects: append(timed("16m"), promising)},
		"the graph after a promised group":                     {args: "graph --at 2026-03-01T13:00:00Z -o json", objects: append(timed("16m"), promising)},
		"the graph at a time without promises":                 {args: "graph --at 12:30:00Z", objects: timed("16m")},
		"the graph at a time over an engine without promises":  {args: "graph --at 30m", objects: append(unpromised(), promising)},
		"the graph at a time that is over":                     {args: "graph --at 11:59", want: ExitError},
		"the graph at no time":                                 {args: "graph --at noon", want: ExitError},
		"when a group and a file start":                        {args: "when training -f -", objects: cluster(), want: ExitError},
		"when a job starts behind another":                     {args: "when -f -", stdin: manifest("large", 4, "6"), objects: timed("16m")},
		"when a job starts that would start now":               {args: "when -f -", stdin: manifest("small", 3, "2"), objects: cluster()},
		"when a job starts for which others are evicted":       {args: "when -f -", stdin: urgent(4, "8"), objects: cluster()},
		"groups of both kinds":                                 {args: "groups -o wide", objects: natives()},
		"groups of both kinds as yaml":                         {args: "groups -o yaml", objects: natives()[13:]},
		"why a native PodGroup waits":                          {args: "why podgroup.scheduling.k8s.io/ring --now", objects: natives(), want: ExitNo},
		"why a PodGroup of either kind waits":                  {args: "why ring", objects: natives(), want: ExitNo},
		"why a pod of a native PodGroup waits":                 {args: "why ring-2", objects: natives(), want: ExitNo},
		"why the job of a native PodGroup waits":               {args: "why job/plain", objects: natives(), want: ExitNo},
		"why pods without their native PodGroup wait":          {args: "why gone", objects: natives(), want: ExitNo},
		"why of the other kind of PodGroup":                    {args: "why fpg/ring", objects: natives(), want: ExitError},
		"why of a native PodGroup that has started":            {args: "why podgroups.scheduling.k8s.io/pair", objects: natives()},
		"a native PodGroup that would start":                   {args: "simulate -f - -o wide", stdin: nativeManifest("{schedulingPolicy: {gang: {minCount: 2}}}", 2, "2"), objects: cluster()},
		"a native PodGroup that has to wait":                   {args: "simulate -f -", stdin: nativeManifest("{schedulingPolicy: {gang: {minCount: 3}}}", 2, "2"), objects: cluster(), want: ExitNo},
		"a native PodGroup that is not supported":              {args: "simulate -f -", stdin: nativeManifest("{schedulingPolicy: {gang: {minCount: 2}}, resourceClaims: [{name: gpus, resourceClaimName: g}]}", 2, "2"), objects: cluster(), want: ExitNo},
		"a job in a native PodGroup of the policy basic":       {args: "simulate -f -", stdin: nativeManifest("{schedulingPolicy: {basic: {}}}", 0, "") + "---\n" + strings.Replace(manifest("small", 4, "7"), "schedulerName: fluence", "schedulerName: fluence\n      schedulingGroup: {podGroupName: new}", 1), objects: cluster(), want: ExitNo},
		"a native PodGroup without a policy":                   {args: "simulate -f -", stdin: nativeManifest("{schedulingPolicy: {}}", 2, "2"), objects: cluster(), want: ExitError},
		"groups in the order of the queue":                     {args: "groups", objects: queued()},
		"groups in the order of the queue, with times":         {args: "groups -o wide", objects: queued()},
		"groups on a terminal":                                 {args: "groups", objects: queued(), terminal: true},
		"groups by name":                                       {args: "groups job/high low-1 single", objects: queued()},
		"groups by a name that there is not":                   {args: "groups job/none", objects: queued(), want: ExitError},
		"groups by labels":                                     {args: "groups -l app=solver --no-headers", objects: queued()},
		"groups by what they do":                               {args: "groups --status finished,suspended", objects: queued()},
		"groups by node":                                       {args: "groups --node node-0", objects: queued()},
		"groups by a node that there is not":                   {args: "groups --node nope", objects: queued(), want: ExitError},
		"groups by a node that is gone":                        {args: "groups --node node-9", objects: queued()},
		"groups by a node that has none":                       {args: "groups --node node-7", objects: cluster()},
		"groups by a node where nodes may not be read":         {args: "groups --node nope", objects: queued(), forbidden: []string{"nodes"}},
		"groups sorted by name":                                {args: "groups --sort-by name", objects: queued()},
		"groups sorted by priority":                            {args: "groups --sort-by priority", objects: queued()},
		"groups sorted by wait":                                {args: "groups --sort-by wait", objects: queued()},
		"groups sorted by run":                                 {args: "groups --sort-by run", objects: queued()},
		"groups sorted by what there is not":                   {args: "groups --sort-by size", objects: queued(), want: ExitError},
		"groups by priority":                                   {args: "groups --priority >=10", objects: queued()},
		"groups by the priority with which they ask":           {args: "groups --priority <100", objects: mixed()},
		"groups of a workload that wants no pods":              {args: "groups --status idle", objects: resting()},
		"why of a workload that wants no pods":                 {args: "why deploy/web", objects: resting()},
		"the cluster with a workload that wants no pods":       {args: "cluster", objects: resting()},
		"groups whose pods wait for another scheduler":         {args: "groups", objects: []runtime.Object{podGroup(job("dflt"), 1, 0, "Pending"), job("dflt"), pod("dflt-0", "", "1", ofJob(job("dflt")), ofDefaultScheduler)}},
		"why of a group whose pods are gone":                   {args: "why past", objects: past()},
		"a scheduler whose clock differs from the user's":      {args: "status", objects: healthy(well()), renewing: 20 * time.Second},
		"groups with control characters":                       {args: "groups -o wide", objects: malicious()},
		"why of a group with control characters":               {args: "why evil", objects: malicious(), want: ExitNo},
		"the cluster with control characters":                  {args: "cluster", objects: malicious()},
		"groups of which none is kept":                         {args: "groups --priority <-5", objects: queued()},
		"groups as names":                                      {args: "groups -o name", objects: queued()},
		"groups by a path":                                     {args: "groups -o jsonpath={.items[*].of}", objects: queued()},
		"groups in columns":                                    {args: "groups -o custom-columns=PLACE:.position,JOB:.of,RAN:.runSeconds", objects: queued()},
		"groups that do what there is not":                     {args: "groups --status sleeping", want: ExitError},
		"groups of a priority that is no number":               {args: "groups --priority high", want: ExitError},
		"groups by a selector that is none":                    {args: "groups -l a==b==c", want: ExitError},
		"groups by a path that is none":                        {args: "groups -o jsonpath={.items[", objects: queued(), want: ExitError},
		"groups in columns without a path":                     {args: "groups -o custom-columns=NAME", objects: queued(), want: ExitError},
		"groups that are watched as json":                      {args: "groups -w -o json", want: ExitError},
		"why of a group that has finished":                     {args: "why done", objects: queued()},
		"why of a group whose time ran out":                    {args: "why cut", objects: queued()},
		"why of a group some pods of which wait":               {args: "why elastic", objects: queued(), want: ExitNo},
		"why a group has waited for long":                      {args: "why low", objects: queued(), want: ExitNo},
		"why a pod waits where others may not be listed":       {args: "why pod/b", objects: []runtime.Object{pod("a", "", "1"), pod("b", "", "1")}, forbidden: []string{"jobs"}, want: ExitNo},
		"why of a paused group":                                {args: "why paused", objects: queued(), want: ExitNo},
		"why of a job of another scheduler that runs":          {args: "why dflt", objects: foreign()},
		"why a new group waits":                                {args: "why fresh", objects: fresh(), want: ExitNo},
		"why a new group waits after a wait":                   {args: "why fresh --wait 1ms", objects: fresh(), want: ExitNo},
		"why a new group waits after a wait, asked now":        {args: "why fresh --wait 1ms --now", objects: append(fresh(), node("node-0", "a", "r0")), want: ExitNo},
		"why a group waits beside a frozen controller":         {args: "why band", objects: append(troubled(), lease("fluence-controller", 40*time.Second)), want: ExitNo},
		"a wait below nothing":                                 {args: "why fresh --wait -1s", objects: fresh(), want: ExitError},
		"nodes are listed":                                     {args: "nodes", objects: cluster()},
		"nodes with their levels":                              {args: "nodes -o wide" + levels, objects: cluster()},
		"nodes that may not be read":                           {args: "nodes", forbidden: []string{"nodes"}, want: ExitError},
		"the graph without levels":                             {args: "graph", objects: cluster()},
		"the graph by the levels that are configured":          {args: "graph", objects: append(cluster(), configured)},
		"the graph by levels":                                  {args: "graph" + levels, objects: cluster()},
		"the graph on a terminal":                              {args: "graph" + levels, objects: cluster(), terminal: true},
		"the graph as json":                                    {args: "graph -o json", objects: cluster()[:6]},
		"the graph as jgf":                                     {args: "graph -o jgf" + levels, objects: cluster()[:6]},
		"a scheduler that is well":                             {args: "status", objects: healthy(well())},
		"a scheduler that has not written for long":            {args: "status", objects: healthy(stale), want: ExitNo},
		"a scheduler whose matcher is silent":                  {args: "status", objects: healthy(unwell), want: ExitNo},
		"a scheduler whose graph is not loaded":                {args: "status", objects: healthy(unloaded), want: ExitNo},
		"a scheduler whose latest graph is not loaded":         {args: "status", objects: healthy(outdated), want: ExitNo},
		"a scheduler that has lost its lease":                  {args: "status", objects: []runtime.Object{figures(unwell), lease("fluence-scheduler", 40*time.Second), lease("fluence-controller", time.Second)}, want: ExitNo},
		"a scheduler that has taken over":                      {args: "status", objects: []runtime.Object{figures(another), lease("fluence-scheduler", time.Second), lease("fluence-controller", time.Second)}, want: ExitNo},
		"a scheduler that was started again":                   {args: "status", objects: []runtime.Object{figures(unloaded), acquired(lease("fluence-scheduler", time.Second), 3*time.Second), lease("fluence-controller", time.Second)}, want: ExitNo},
		"a scheduler that was started after an hour":           {args: "status", objects: []runtime.Object{figures(stale), acquired(lease("fluence-scheduler", time.Second), 3*time.Second), lease("fluence-controller", time.Second)}, want: ExitNo},
		"a scheduler that has led for long":                    {args: "status", objects: []runtime.Object{figures(well()), acquired(lease("fluence-scheduler", time.Second), 10*time.Minute), lease("fluence-controller", time.Second)}},
		"a scheduler that reports in the second of its lease":  {args: "status", objects: []runtime.Object{figures(well()), acquired(lease("fluence-scheduler", time.Second), time.Minute-time.Millisecond), lease("fluence-controller", time.Second)}},
		"a scheduler that has just reported a silent matcher":  {args: "status", objects: healthy(just), want: ExitNo},
		"a scheduler that has given its lease up":              {args: "status", objects: []runtime.Object{figures(well()), free("fluence-scheduler"), lease("fluence-controller", time.Second)}, want: ExitNo},
		"a controller that is frozen":                          {args: "status", objects: []runtime.Object{figures(well()), lease("fluence-scheduler", time.Second), lease("fluence-controller", 40*time.Second)}, want: ExitNo},
		"a controller that never was":                          {args: "status", objects: []runtime.Object{figures(well()), lease("fluence-scheduler", time.Second)}, want: ExitNo},
		"a matcher that is frozen since the report":            {args: "status", objects: append(healthy(well()), unanswered(noon.Add(-time.Second))), want: ExitNo},
		"a matcher that was frozen before the report":          {args: "status", objects: append(healthy(well()), unanswered(noon.Add(-2*time.Minute)))},
		"a scheduler whose lease may not be read":              {args: "status", objects: healthy(well()), forbidden: []string{"leases", "podgroups"}},
		"the graph by a label that no node has":                {args: "graph --topology-levels nope", objects: cluster(), want: ExitError},
		"a job by a label that no node has":                    {args: "simulate -f - --topology-levels nope", stdin: manifest("small", 1, "1"), objects: cluster(), want: ExitError},
		"the graph where some nodes lack a label":              {args: "graph" + levels, objects: append(cluster(), objects.ReadyNode("stray", 8, objects.Having("cpu", "8")))},
		"nodes of which some lack a label":                     {args: "nodes" + levels, objects: append(cluster(), objects.ReadyNode("stray", 8, objects.Having("cpu", "8")))},
		"the graph with an exclusive node":                     {args: "graph", objects: wholly()},
		"nodes of which one is exclusive":                      {args: "nodes", objects: wholly()},
		"the graph as a picture":                               {args: "graph -o svg" + levels, objects: append(cluster(), wholly()[3:]...)},
		"seats as a picture":                                   {args: "graph -o svg", objects: seated()},
		"a job as a picture":                                   {args: "simulate -f - -o svg" + levels, stdin: manifest("small", 3, "2"), objects: cluster()},
		"a job with whole nodes, as a picture":                 {args: "simulate -f - -o svg", stdin: strings.Replace(manifest("small", 2, "2"), "    spec:\n      scheduler", "    metadata: {annotations: {fluence.flux-framework.org/exclusive: 'true'}}\n    spec:\n      scheduler", 1), objects: append(cluster(), lab())},
		"a job that has to wait, as a picture":                 {args: "simulate -f - -o svg", stdin: manifest("large", 4, "6"), objects: cluster(), want: ExitNo},
		"the cluster on one screen":                            {args: "cluster" + levels, objects: append(cluster(), lab())},
		"the cluster with an array larger than it":             {args: "cluster", objects: oversized()},
		"groups that wait beside an array":                     {args: "groups --status waiting", objects: oversized()},
		"why a group waits behind an array, asked now":         {args: "why behind --now", objects: oversized(), want: ExitNo},
		"the cluster with seats":                               {args: "cluster", objects: seated()},
		"the cluster as json":                                  {args: "cluster -o json" + levels, objects: cluster()},
		"a cluster without nodes":                              {args: "cluster"},
		"a cluster where PodGroups may not be read":            {args: "cluster", objects: cluster(), forbidden: []string{"podgroups"}},
		"the graph, watched":                                   {args: "graph -w", objects: cluster(), want: ExitError},
		"a rack of the graph":                                  {args: "graph r1 rack/r3" + levels, objects: cluster()},
		"a domain that there is not":                           {args: "graph r9" + levels, objects: cluster(), want: ExitError},
		"a level that there is not":                            {args: "graph block/r1" + levels, objects: cluster(), want: ExitError},
		"the graph down to the racks":                          {args: "graph --depth rack" + levels, objects: cluster()},
		"the graph down to a level that there is not":          {args: "graph --depth block" + levels, objects: cluster(), want: ExitError},
		"the graph with the pods of others":                    {args: "graph --others r2" + levels, objects: cluster()},
		"some nodes":                                           {args: "nodes node/node-1 node-[5-6]", objects: cluster()},
		"a node that there is not":                             {args: "nodes node-1 node-9", objects: cluster(), want: ExitError},
		"nodes by label":                                       {args: "nodes -l example.com/rack=r3 --no-headers", objects: cluster()},
		"nodes in columns":                                     {args: "nodes -o custom-columns=NODE:.name,CPU:.size.cpu,RACK:.domains.rack node-[0-1]" + levels, objects: cluster()},
		"a number of the graph":                                {args: "graph -o jsonpath={.size.cpu}", objects: cluster()},
		"nodes by what is no selector":                         {args: "nodes -l a=b=c", objects: cluster(), want: ExitError},
		"names of nodes":                                       {args: "nodes -o name -l example.com/rack=r3", objects: cluster()},
		"nodes on a terminal":                                  {args: "nodes", objects: wholly(), terminal: true},
		"nodes with their levels as json":                      {args: "nodes node-6 -o json" + levels, objects: cluster()},
		"versions":                                             {args: "version", objects: healthy(well())},
		"versions without a scheduler, as json":                {args: "version -o json"},
		"the version of the client":                            {args: "version --client", unauthorized: true},
		"no scheduler":                                         {args: "status", want: ExitNo},
		"schedulers that stand by alone":                       {args: "status", objects: []runtime.Object{standingBy()}, want: ExitNo},
		"a scheduler that may not be seen":                     {args: "status", forbidden: []string{"configmaps"}, want: ExitError},
		"a scheduler beside an API server of another version":  {args: "status", objects: healthy(well()), minor: "39", want: ExitNo},
		"a scheduler as json":                                  {args: "status -o json", objects: healthy(well())},
		"a graph beside a group that may have been given room": {args: "graph", objects: append(cluster(), promised()...)},
		"a job that would start":                               {args: "simulate -f - -o wide", stdin: manifest("small", 3, "2"), objects: cluster()},
		"a job that has to wait":                               {args: "simulate -f -", stdin: manifest("large", 4, "6"), objects: cluster(), want: ExitNo},
		"a job that never fits":                                {args: "simulate -f -", stdin: manifest("huge", 2, "64"), objects: cluster(), want: ExitNo},
		"a job as json":                                        {args: "simulate -f - -o json", stdin: manifest("small", 2, "2"), objects: cluster()},
		"two jobs of one file, for one of which there is room": {args: "simulate -f -", stdin: manifest("one", 3, "6") + "---\n" + manifest("two", 3, "6"), objects: cluster(), want: ExitNo},
		"two jobs of one file, of which the second is urgent":  {args: "simulate -f -", stdin: manifest("one", 3, "6") + "---\n" + strings.Replace(manifest("two", 3, "6"), "schedulerName: fluence", "schedulerName: fluence\n      priorityClassName: urgent", 1), objects: cluster(), want: ExitNo},
		"a job for which others are evicted":                   {args: "simulate -f -", stdin: urgent(7, "6"), objects: append(cluster(), neighbours()...), want: ExitNo},
		"a job for which others are evicted, as yaml":          {args: "simulate -f - -o yaml", stdin: urgent(5, "6"), objects: append(cluster(), neighbours()...), want: ExitNo},
		"a job for which others are evicted, as a picture":     {args: "simulate -f - -o svg", stdin: urgent(5, "6"), objects: append(cluster(), neighbours()...), want: ExitNo},
		"a job for which many are evicted":                     {args: "simulate -f -", stdin: urgent(6, "8"), objects: crowd(), want: ExitNo},
		"a job for which a JobSet is suspended":                {args: "simulate -f -", stdin: urgent(7, "6"), objects: inJobSet(), want: ExitNo},
		"a job for which a JobSet is evicted that is unknown":  {args: "simulate -f -", stdin: urgent(7, "6"), objects: inJobSet(), forbidden: []string{"jobsets"}, want: ExitNo},
		"a job that fits no better after evictions":            {args: "simulate -f -", stdin: urgent(7, "8"), objects: cluster(), want: ExitNo},
		"a job for which others are evicted of unknown owners": {args: "simulate -f -", stdin: urgent(7, "6"), objects: cluster(), forbidden: []string{"jobs", "namespaces", "poddisruptionbudgets", "jobsets", "trainjobs", "mpijobs"}, want: ExitNo},
		"why a group waits for which others would be evicted":  {args: "why now --now", objects: preempting(), want: ExitNo},
		"why of a group that is being evicted":                 {args: "why solver", objects: evicted()},
		"why of a group that was evicted and waits":            {args: "why solver", objects: wasEvicted(), want: 2},
		"why of a native PodGroup that is being evicted":       {args: "why podgroup.scheduling.k8s.io/pair", objects: evicted()},
		"why of a pod alone that is being evicted":             {args: "why pod/alone", objects: evicted()},
		"why others would be evicted for a group, as json":     {args: "why now --now -o json", objects: preempting(), want: ExitNo},
		"a job of another scheduler":                           {args: "simulate -f -", stdin: strings.Replace(manifest("x", 1, "1"), "schedulerName: fluence", "schedulerName: other", 1), objects: cluster(), want: ExitError},
		"a job with a field that there is not":                 {args: "simulate -f -", stdin: strings.Replace(manifest("x", 1, "1"), "parallelism", "paralellism", 1), objects: cluster(), want: ExitError},
		"a job that is there already":                          {args: "simulate -f -", stdin: manifest("training", 1, "1"), objects: cluster(), want: ExitError},
		"a job of a priority that there is not":                {args: "simulate -f -", stdin: strings.Replace(manifest("x", 1, "1"), "schedulerName: fluence", "schedulerName: fluence\n      priorityClassName: none", 1), objects: cluster(), want: ExitError},
		"a kind that is not known":                             {args: "simulate -f -", stdin: "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: js}\n---\n" + manifest("small", 1, "1"), objects: cluster()},
		"a file that is not there":                             {args: "simulate -f /nowhere.yaml", objects: cluster(), want: ExitError},
		"no file":                                              {args: "simulate", want: ExitError},
		"a configuration that is none":                         {args: "simulate -f - --config testdata/world.txt", stdin: manifest("small", 1, "1"), objects: cluster(), want: ExitError},
		"a job where volumes may not be read":                  {args: "simulate -f -", stdin: manifest("small", 1, "1"), objects: cluster(), forbidden: []string{"persistentvolumes"}},
		"a job on an API server of another version":            {args: "simulate -f -", stdin: manifest("small", 1, "1"), objects: cluster(), minor: "36"},
		"a job where pods may not be read":                     {args: "simulate -f -", stdin: manifest("small", 1, "1"), objects: cluster(), forbidden: []string{"pods"}, want: ExitError},
		"a job where jobs may not be read":                     {args: "simulate -f -", stdin: manifest("small", 1, "1"), objects: cluster(), forbidden: []string{"jobs"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.compare(t, name) })
	}
}

func TestWithoutAKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere")
	var errOut bytes.Buffer
	code := Run(t.Context(), Config{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: &errOut}, Now: time.Now}, []string{"groups"})
	if code != ExitError || !strings.Contains(errOut.String(), "set --kubeconfig") {
		t.Errorf("exit code %d with %q, want an error that says what to do", code, &errOut)
	}
}

func TestAFaultIsAnError(t *testing.T) {
	var errOut bytes.Buffer
	o := call{objects: cluster()}
	code := Run(t.Context(), Config{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: &errOut},
		Now:       func() time.Time { panic("no time") },
	}, []string{"groups", "--kubeconfig", serve(t, o.objects...).kubeconfig()})
	if code != ExitError || !strings.HasPrefix(errOut.String(), "error: internal error in kubectl fluence: no time; please report it") {
		t.Errorf("exit code %d with %q, want an error", code, &errOut)
	}
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// urgent is the manifest of the Job now of a high priority.
func urgent(n int, cpu string) string {
	return strings.Replace(manifest("now", n, cpu), "schedulerName: fluence", "schedulerName: fluence\n      priorityClassName: urgent", 1)
}

// manifest is the manifest of a Job.
func manifest(name string, n int, cpu string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata:
  name: %s
spec:
  parallelism: %d
  completions: %d
  template:
    spec:
      schedulerName: fluence
      restartPolicy: Never
      containers:
      - name: c
        image: i
        resources: {requests: {cpu: %q, memory: 1Gi}}
`, name, n, n, cpu)
}
