package jobspec

import (
	"fmt"

	"github.com/flux-k8s/fluence/pkg/hostlist"
)

// maxHosts bounds the names that the hostlists of one jobspec stand for.
const maxHosts = 1 << 20

// checkHostlist takes the number of names off the room that is left for them.
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
