package endpoint_test

import (
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/sidecar/endpoint"
)

func TestParse(t *testing.T) {
	long := "unix:///" + strings.Repeat("x", 106)
	cases := map[string]struct {
		text    string
		secured bool
		want    string // of the error; empty: none
	}{
		"a socket":                                    {text: "unix:///run/fluence/fluxion.sock"},
		"a socket of the longest path":                {text: long},
		"a socket of a path too long":                 {text: long + "x", want: "108 bytes"},
		"a socket of a relative path":                 {text: "unix://fluxion.sock", want: `"fluxion.sock" is not absolute`},
		"a socket without a path":                     {text: "unix://", want: `"" is not absolute`},
		"a socket with mutual TLS":                    {text: "unix:///a", secured: true, want: "tcp:// only"},
		"loopback":                                    {text: "tcp://127.0.0.1:4242"},
		"loopback by another of its addresses":        {text: "tcp://127.8.9.1:4242"},
		"loopback of version 6":                       {text: "tcp://[::1]:4242"},
		"loopback as a port of the kernel's choice":   {text: "tcp://127.0.0.1:0"},
		"a name, which may mean anything":             {text: "tcp://localhost:4242", want: `"localhost" is not a loopback address`},
		"all addresses":                               {text: "tcp://0.0.0.0:4242", want: `"0.0.0.0" is not a loopback address`},
		"all addresses by saying none":                {text: "tcp://:4242", want: `"" is not a loopback address`},
		"another machine":                             {text: "tcp://10.0.0.1:4242", want: `"10.0.0.1" is not a loopback address`},
		"another machine with mutual TLS":             {text: "tcp://10.0.0.1:4242", secured: true},
		"a name with mutual TLS":                      {text: "tcp://fluence.example:4242", secured: true},
		"a port that is none":                         {text: "tcp://127.0.0.1:http", want: `port "http"`},
		"a port that is too high":                     {text: "tcp://127.0.0.1:65536", want: `port "65536"`},
		"no port":                                     {text: "tcp://127.0.0.1", want: "missing port"},
		"a resolver of gRPC, which could go anywhere": {text: "dns:///10.0.0.1:4242", want: `scheme "dns"`},
		"an abstract socket, which has no mode":       {text: "unix-abstract:a", want: "want unix:///path or tcp://host:port"},
		"no scheme":                                   {text: "127.0.0.1:4242", want: "want unix:///path or tcp://host:port"},
		"nothing":                                     {text: "", want: "want unix:///path or tcp://host:port"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e, err := endpoint.Parse(tc.text, tc.secured)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("Parse(%q): %v", tc.text, err)
			case tc.want == "" && e.String() != tc.text:
				t.Errorf("Parse(%q) = %q", tc.text, e)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("Parse(%q): got error %v, want %q in it", tc.text, err, tc.want)
			}
		})
	}
}
