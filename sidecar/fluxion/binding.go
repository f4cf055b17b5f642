//go:build fluxion

package fluxion

import (
	"github.com/flux-framework/fluxion-go/pkg/fluxcli"
	"github.com/flux-framework/fluxion-go/pkg/types"
)

// Available is true if this program was linked with Fluxion's library.
const Available = true

// Open returns a client of the library with which this program was linked.
func Open() Library { return client{fluxcli.NewReapiClient()} }

// A client is the library's own client, with another type for an operation.
type client struct{ *fluxcli.ReapiClient }

// Match implements Library.
func (c client) Match(op int, jobspec string) (reserved bool, allocated string, at int64, overhead float64, jobid uint64, err error) {
	return c.ReapiClient.Match(types.MatchType(op), jobspec)
}
