//go:build !fluxion

package fluxion

// Available is true if this program was linked with Fluxion's library.
const Available = false

// Open returns nil: this program was built without the tag fluxion.
func Open() Library { return nil }
