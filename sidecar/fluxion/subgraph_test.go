//go:build fluxion && fluxion_subgraph

package fluxion

import "testing"

func TestTheHandleOfTheBindingIsFound(t *testing.T) {
	c, ok := Open().(client)
	if !ok {
		t.Fatalf("Open() is a %T", Open())
	}
	defer c.Destroy()
	if c.handle() == nil {
		t.Error("the binding's client has no handle of the library")
	}
}
