package store

import "testing"

func TestPathBelow(t *testing.T) {
	cases := map[string]struct{ path, node, want string }{
		"a pool":                          {"/cluster0/n1/core0", "n1", "core0"},
		"a pool with a slash in its name": {"/cluster0/n1/nvidia.com/gpu0", "n1", "nvidia.com/gpu0"},
		"deeper down":                     {"/cluster0/r1/n1/socket0/core0", "n1", "socket0/core0"},
		"the name is part of another":     {"/cluster0/n10/n1/core0", "n1", "core0"},
		"the node itself":                 {"/cluster0/n1", "n1", ""},
		"another node":                    {"/cluster0/n2/core0", "n1", ""},
		"no path":                         {"", "n1", ""},
		"no name":                         {"/cluster0//core0", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pathBelow(tc.path, tc.node); got != tc.want {
				t.Errorf("pathBelow(%q, %q) = %q, want %q", tc.path, tc.node, got, tc.want)
			}
		})
	}
}
