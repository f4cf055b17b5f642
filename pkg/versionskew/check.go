// Package versionskew checks whether this build is made for the version of an API server.
//
// The rule is the rule of Kubernetes for kube-scheduler: never newer than the API server,
// and at most one minor version older (Version Skew Policy, kube-controller-manager,
// kube-scheduler, and cloud-controller-manager). Outside this range, fields on which filters
// depend may be missing on the server or unknown here, and no other error would show it.
package versionskew

import (
	"fmt"
	"strconv"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/version"
)

// libraries is the version (major and minor) of the Kubernetes libraries in this build.
const libraries = version.DefaultKubeBinaryVersion

// Check returns nil for an API server that this build is made for, and for an API server
// that does not give its version. Otherwise the error names both versions and what to do.
func Check(server apiversion.Info) error {
	major, minor, ok := emulated(server)
	if !ok {
		return nil
	}
	var ownMajor, ownMinor int
	if _, err := fmt.Sscanf(libraries, "%d.%d", &ownMajor, &ownMinor); err != nil {
		return fmt.Errorf("read the own version %q: %w", libraries, err)
	}
	if major == ownMajor && (minor == ownMinor || minor == ownMinor+1) {
		return nil
	}
	return fmt.Errorf("the API server is of Kubernetes %d.%d, and this build of Fluence is made for %d.%d and %d.%d: pods may wait, or be placed by rules that are not those of the cluster; install the release of Fluence for %d.%d",
		major, minor, ownMajor, ownMinor, ownMajor, ownMinor+1, major, minor)
}

// emulated returns the version that a server behaves as: the emulated version if there is one.
func emulated(server apiversion.Info) (major, minor int, ok bool) {
	if server.EmulationMajor != "" {
		server.Major, server.Minor = server.EmulationMajor, server.EmulationMinor
	}
	major, err := strconv.Atoi(server.Major)
	if err != nil {
		return 0, 0, false
	}
	// Some distributions write "37+".
	digits := 0
	for digits < len(server.Minor) && server.Minor[digits] >= '0' && server.Minor[digits] <= '9' {
		digits++
	}
	minor, err = strconv.Atoi(server.Minor[:digits])
	return major, minor, err == nil
}
