//go:build fluxion

package fluxion

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

// The memory that a graph has used is given back to the system. By itself the C library keeps it.
static void give_back (void)
{
#ifdef __GLIBC__
    malloc_trim (0);
#endif
}
*/
import "C"

// Destroy implements Library.
func (c client) Destroy() {
	c.ReapiClient.Destroy()
	C.give_back()
}
