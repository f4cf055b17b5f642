// Fluence-controller creates the PodGroups of Jobs and labelled pods and
// keeps their status. It writes API objects. It does not use the matcher.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	ctrl "sigs.k8s.io/controller-runtime"
)

// version is the release, set by the linker: -X main.version=v1.2.3.
var version = "devel"

func main() {
	os.Exit(cli.Run(newCommand(ctrl.SetupSignalHandler)))
}
