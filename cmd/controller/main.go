// Fluence-controller makes the PodGroups of Jobs and labelled pods and keeps
// their status. It writes API objects and asks no engine for anything.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	os.Exit(cli.Run(newCommand(ctrl.SetupSignalHandler)))
}
