package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/flux-k8s/fluence/pkg/statusmap"
)

// A versionAnswer has the versions of the programs that work together.
type versionAnswer struct {
	// Client is the release of this program.
	Client string `json:"client"`
	// Scheduler is the release of the scheduler that leads, by its report. It is empty if there is none.
	Scheduler string `json:"scheduler,omitempty"`
	// Kubernetes is the version of the API server.
	Kubernetes string `json:"kubernetes,omitempty"`
}

func (o *options) versionCommand(version string) *cobra.Command {
	client := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this program, the scheduler and the API server",
		Args:  cobra.NoArgs,
	}
	f := addOutputFlag(cmd)
	cmd.Flags().BoolVar(&client, "client", false, "only of this program: the cluster is not asked")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		a := versionAnswer{Client: version}
		if !client {
			err := o.withTimeout(cmd.Context(), func(ctx context.Context) error { return o.readVersions(ctx, &a) })
			if err != nil {
				return err
			}
		}
		return f.print(o.Out, a, func(w io.Writer) error {
			rows := [][]string{{"Client", a.Client}}
			if !client {
				rows = append(rows, []string{"Scheduler", dash(a.Scheduler)}, []string{"Kubernetes", dash(a.Kubernetes)})
			}
			return table(w, rows)
		})
	}
	return cmd
}

func (o *options) readVersions(ctx context.Context, a *versionAnswer) error {
	r, err := o.reader()
	if err != nil {
		return err
	}
	v, err := discovery.ToServerVersionInterfaceWithContext(r.client.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	if a.Kubernetes = v.GitVersion; a.Kubernetes == "" {
		a.Kubernetes = "v" + v.Major + "." + v.Minor
	}
	c, err := r.client.CoreV1().ConfigMaps(o.schedulerNamespace).Get(ctx, statusmap.Name, metav1.GetOptions{})
	switch name := o.schedulerNamespace + "/" + statusmap.Name; {
	case apierrors.IsNotFound(err):
	case apierrors.IsForbidden(err):
		r.notes = append(r.notes, fmt.Sprintf("you may not read ConfigMap %s, which has the scheduler's version", name))
	case err != nil:
		return fmt.Errorf("read ConfigMap %s: %w", name, err)
	default:
		if status, err := statusmap.Read(c.Data); err == nil {
			a.Scheduler = status.Version
		}
	}
	o.notes(r.notes)
	return nil
}

// The part of cobra's usage that lists the flags of the root at each command, and what replaces it: as with
// kubectl, another command lists them.
const (
	globalFlagsInUsage = `Global Flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}`
	optionsInUsage = `Use "{{.Root.DisplayName}} options" for the flags that all commands have.`
)

func optionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that all commands have",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "These flags may be given to any command:\n\n%s", cmd.InheritedFlags().FlagUsages())
		},
	}
}
