//go:build fluxion

package fluxion

import (
	"github.com/flux-framework/fluxion-go/pkg/fluxcli"
	"github.com/flux-framework/fluxion-go/pkg/types"
)

// Available says whether this program was linked with Fluxion's library.
const Available = true

// Open returns a client of the library that this program was linked with.
func Open() Library { return client{fluxcli.NewReapiClient()} }

// A client is the library's own, but for the type of an operation.
type client struct{ *fluxcli.ReapiClient }

// Match implements Library.
func (c client) Match(op int, jobspec string) (reserved bool, allocated string, at int64, overhead float64, jobid uint64, err error) {
	return c.ReapiClient.Match(types.MatchType(op), jobspec)
}
