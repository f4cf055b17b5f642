package jobspec

import (
	"fmt"

	"github.com/flux-k8s/fluence/pkg/hostlist"
)

// maxHosts is the largest number of names in all hostlists of one jobspec.
const maxHosts = 1 << 20

// checkHostlist checks a hostlist and subtracts its number of
// names from room. It returns an error if room gets negative.
func checkHostlist(text string, room *int) error {
	if hostlist.Single(text) {
		*room--
	} else {
		list, err := hostlist.Parse(text)
		if err != nil {
			return err
		}
		*room -= list.Len(maxHosts)
	}
	if *room < 0 {
		return fmt.Errorf("more than %d names in all hostlists", maxHosts)
	}
	return nil
}
