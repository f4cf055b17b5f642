// Command kubectl-fluence is a plugin of kubectl. It shows where
// pods and groups are, why a group waits, and where one would go.
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

// version is the release, set when the program is built.
var version = "devel"

func main() {
	// The log of the scheduler's code is of no use here. Only its answers are.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	utilruntime.ErrorHandlers = nil
	// The scheduler sets the same.
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.NominatedNodeNameForExpectation): false})
	if err != nil {
		panic(err) // the gate exists in this version of Kubernetes
	}
	ctx, end := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, end) // a second signal ends what ignores the first
	code := cli.Run(ctx, cli.Config{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Now:       time.Now,
		// See https://no-color.org.
		Terminal: term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Version:  version,
	}, os.Args[1:])
	end()
	os.Exit(code)
}
