// Fluence-controller creates the PodGroups of Jobs and labelled pods and
// keeps their status. It writes API objects. It does not use the matcher.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-k8s/fluence/pkg/heapfloor"
)

// version is the release, set by the linker: -X main.version=v1.2.3.
var version = "devel"

// heapFloor is the size of the heap, in bytes, below which garbage is not collected.
const heapFloor = 64 << 20

func main() {
	heapfloor.Set(heapFloor)
	os.Exit(cli.Run(newCommand(ctrl.SetupSignalHandler)))
}
