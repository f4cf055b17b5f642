// Command kubectl-fluence is a plugin of kubectl: it says what stands where, why a
// group waits, and where one would go.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/term"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"

	"github.com/flux-k8s/fluence/pkg/cli"
)

// version is set when the program is built.
var version = "devel"

func main() {
	// What the scheduler's code says to its log is of no use here: what it answers is.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	utilruntime.ErrorHandlers = nil
	// As the scheduler has it.
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.NominatedNodeNameForExpectation): false})
	if err != nil {
		panic(err) // the gate is one of this very version of Kubernetes
	}
	ctx, end := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, end) // a second signal ends what does not heed the first
	code := cli.Run(ctx, cli.Config{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Now:       time.Now,
		// As https://no-color.org has it.
		Terminal: term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Version:  version,
	}, os.Args[1:])
	end()
	os.Exit(code)
}
