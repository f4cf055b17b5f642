package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/simulate"
)

// A simulatedGroup is a group with the decision that the scheduler would make now.
type simulatedGroup struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	simulate.Decision
	// first is the index of the group's first pod among the simulated pods.
	first int
}

func (o *options) simulateCommand() *cobra.Command {
	var files resource.FilenameOptions
	cmd := &cobra.Command{
		Use:   "simulate -f FILE",
		Short: "Say where the pods of a file would go now, or why not; nothing is created",
		Long: `Say where the pods of a file would go now, or why not; nothing is created.

The scheduler's own code decides on the cluster as it is now: its filters, its matcher,
and the nodes that are reserved for groups that have waited too long. Waiting groups that
are ahead of the groups of the file in the queue are placed first. The groups of the file
follow in the order of the queue. Nodes that the scheduler has chosen for pods that are not
bound yet count as free. Changes and rejections by admission webhooks and quotas of this
cluster are not simulated. Where the scheduler would evict others for a group, the answer
says whom, and how. Nobody is evicted.

-o svg prints a picture of the cluster now and, beside it, after the groups have started.

The pods of these kinds are known: ` + strings.Join(simulate.Kinds(), ", ") + `.

Exit codes: 0 all groups would start, 1 error, 2 at least one group would not start, or only
after others have been evicted for it.`,
		Example: "  kubectl fluence simulate -f job.yaml\n  cat job.yaml | kubectl fluence simulate -f - -o json\n  kubectl fluence simulate -f job.yaml -o svg > placement.svg",
		Args:    cobra.NoArgs,
	}
	f := addOutputFlag(cmd, formatWide, formatSVG)
	addFileFlags(cmd, &files)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		if !namesFiles(&files) {
			return errors.New("--filename or --kustomize is required")
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error { return o.simulate(ctx, f, &files) })
	}
	return cmd
}

// addFileFlags adds the flags that name files with objects.
func addFileFlags(cmd *cobra.Command, files *resource.FilenameOptions) {
	cmd.Flags().StringSliceVarP(&files.Filenames, "filename", "f", nil, "files, folders or URLs, or - for the standard input")
	cmd.Flags().StringVarP(&files.Kustomize, "kustomize", "k", "", "a folder with a kustomization")
	cmd.Flags().BoolVarP(&files.Recursive, "recursive", "R", false, "search folders recursively")
}

// namesFiles reports whether the user has named files.
func namesFiles(files *resource.FilenameOptions) bool {
	return len(files.Filenames) > 0 || files.Kustomize != ""
}

// An addition is what files would add to a cluster.
type addition struct {
	cluster       simulate.Cluster
	workload      *simulate.Additions
	configuration simulate.Configuration
}

// readAddition reads files and the cluster. It fails if the files have no pods for the scheduler.
func (o *options) readAddition(ctx context.Context, r *reader, files *resource.FilenameOptions) (a addition, err error) {
	objects, err := o.readFiles(ctx, files, r.namespace)
	if err != nil {
		return a, err
	}
	if a.configuration, err = o.configuration(ctx, r); err != nil {
		return a, err
	}
	if a.cluster, err = r.readCluster(ctx); err != nil {
		return a, err
	}
	if err := o.checkLevels(ofType[*corev1.Node](a.cluster.Objects)); err != nil {
		return a, err
	}
	a.workload, err = simulate.Make(objects, a.cluster, a.configuration.Scheduler(), o.now())
	if err == nil && len(a.workload.Pods()) == 0 {
		err = fmt.Errorf("nothing to simulate: no pod has schedulerName %q%s", a.configuration.Scheduler(), strings.Join(append([]string{""}, a.workload.Notes...), "; "))
	}
	return a, err
}

// note adds the limits of the answers to the notes.
func (a addition) note(r *reader) {
	r.notePending(a.cluster, a.configuration.Scheduler())
	r.notes = append(r.notes, a.workload.Notes...)
	if queue := queueIn(a.workload.Objects); queue != "" {
		r.notes = append(r.notes, fmt.Sprintf("label %s: %q: does not count here: the answer is that of a group without a queue", v1alpha1.QueueLabel, queue))
	}
	if n := a.configuration.Extenders; n > 0 {
		r.notes = append(r.notes, fmt.Sprintf("the scheduler calls %s, simulate does not: rejections by extenders are not simulated", reason.Plural(n, "extender")))
	}
}

// queueIn returns a queue that one of some objects names. It returns "" if none does.
func queueIn(objects []runtime.Object) string {
	for _, o := range objects {
		if m, ok := o.(metav1.Object); ok && m.GetLabels()[v1alpha1.QueueLabel] != "" {
			return m.GetLabels()[v1alpha1.QueueLabel]
		}
	}
	return ""
}

func (o *options) simulate(ctx context.Context, f *outputFormat, files *resource.FilenameOptions) error {
	r, err := o.reader()
	if err != nil {
		return err
	}
	a, err := o.readAddition(ctx, r, files)
	if err != nil {
		return err
	}
	answers, err := a.decideGroups(ctx)
	if err != nil {
		return err
	}
	if !slices.IsSortedFunc(answers, func(a, b simulatedGroup) int { return cmp.Compare(a.first, b.first) }) {
		a.workload.Notes = append(a.workload.Notes, "simulated as if all objects were created at once, so groups of a higher priority go first; when you apply the file, a group created earlier may start earlier")
	}
	o.noteStopped(ctx, r, placesNothing)
	a.note(r)
	o.notes(r.notes)
	if f.value == formatSVG {
		err = o.drawSimulated(a.configuration, a.cluster, a.workload, answers)
	} else {
		err = f.print(o.Out, answers, func(w io.Writer) error {
			for _, a := range answers {
				o.writeSimulated(w, a, f.value == formatWide)
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(answers, func(a simulatedGroup) bool { return !a.Starts }) {
		return errNo
	}
	return nil
}

// decideGroups decides on the groups of the addition, in the order of the queue.
func (a addition) decideGroups(ctx context.Context) ([]simulatedGroup, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	r, err := simulate.New(ctx, a.cluster.With(a.workload.Cluster), a.configuration)
	if err != nil {
		return nil, err
	}
	first := map[types.NamespacedName]int{}
	for i, pod := range slices.Backward(a.workload.Pods()) {
		if key, ok := r.GroupOf(pod.UID); ok {
			first[key] = i
		}
	}
	var answers []simulatedGroup
	for _, key := range r.Groups() {
		at, wanted := first[key]
		if !wanted {
			continue
		}
		d, err := r.Decide(ctx, key)
		if err != nil {
			return nil, err
		}
		answer := simulatedGroup{Namespace: key.Namespace, Decision: d, first: at}
		answer.Kind, answer.Name = kindAndName(d)
		answers = append(answers, answer)
	}
	return answers, nil
}

// kindAndName returns the kind and the name of the object that a decision is about.
func kindAndName(d simulate.Decision) (kind, name string) {
	if name, native := group.NativeName(d.Group); native {
		return nativeKind, name
	}
	if !d.Named {
		return "Pod", strings.Split(d.Group.Name, "/")[1]
	}
	return "PodGroup", d.Group.Name
}

// readFiles reads the objects of files. An object without a namespace gets the user's.
func (o *options) readFiles(ctx context.Context, files *resource.FilenameOptions, namespace string) ([]*unstructured.Unstructured, error) {
	infos, err := o.visitFiles(ctx, files)
	if err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	if len(infos) == 0 {
		return nil, errors.New("read the input: no objects found")
	}
	var objects []*unstructured.Unstructured
	for _, i := range infos {
		u, ok := i.Object.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("read %s: unexpected object of type %T", i.Source, i.Object)
		}
		switch in := u.GetNamespace(); {
		case in == "":
			u.SetNamespace(namespace)
		case *o.flags.Namespace != "" && in != namespace:
			return nil, fmt.Errorf("%s %s: metadata.namespace: %q: differs from --namespace, which is %q", u.GetKind(), u.GetName(), in, namespace)
		}
		objects = append(objects, u)
	}
	return objects, nil
}

// visitFiles reads files. A read of the standard input or of a URL does
// not end with ctx. If ctx ends, the goroutine that reads is abandoned.
func (o *options) visitFiles(ctx context.Context, files *resource.FilenameOptions) ([]*resource.Info, error) {
	named := *files
	named.Filenames = slices.DeleteFunc(slices.Clone(files.Filenames), func(f string) bool { return f == "-" })
	b := resource.NewBuilder(o.flags).Unstructured().Local().FilenameParam(false, &named).Flatten()
	if len(named.Filenames) < len(files.Filenames) {
		b = b.Stream(o.In, "the standard input")
	}
	type visited struct {
		infos []*resource.Info
		err   error
	}
	done := make(chan visited, 1)
	go func() {
		infos, err := b.Do().Infos()
		done <- visited{infos, err}
	}()
	select {
	case v := <-done:
		return v.infos, v.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (o *options) writeSimulated(w io.Writer, a simulatedGroup, wide bool) {
	fmt.Fprintf(w, "%s %s/%s\n", a.Kind, a.Namespace, o.paint(bold, a.Name))
	o.writeDecision(w, "now", a.Decision)
	if !wide {
		return
	}
	for _, p := range a.Placements {
		fmt.Fprintf(w, "    %s on %s\n", p.Pod, p.Node)
	}
}
