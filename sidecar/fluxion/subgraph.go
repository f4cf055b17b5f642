//go:build fluxion && fluxion_subgraph

package fluxion

/*
#include <stdlib.h>
#include "resource/reapi/bindings/c/reapi_cli.h"
*/
import "C"

import (
	"fmt"
	"reflect"
	"unsafe"
)

var _ Grower = client{}

// AddSubgraph implements Grower.
func (c client) AddSubgraph(jgf string) error {
	text := C.CString(jgf)
	defer C.free(unsafe.Pointer(text))
	return failed("add a subgraph", C.reapi_cli_add_subgraph(c.handle(), text))
}

// RemoveSubgraph implements Grower.
func (c client) RemoveSubgraph(path string) error {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	return failed("remove a subgraph", C.reapi_cli_remove_subgraph(c.handle(), text))
}

// handle returns the library's own handle, which fluxion-go v0.39.0 keeps to itself. It panics if
// another version of fluxion-go keeps it elsewhere.
func (c client) handle() *C.reapi_cli_ctx_t {
	return (*C.reapi_cli_ctx_t)(reflect.ValueOf(c.ReapiClient).Elem().FieldByName("ctx").UnsafePointer())
}

// failed returns the error of a call. Its reason is in the error text of the library.
func failed(what string, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d", what, int(code))
}
