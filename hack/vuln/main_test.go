package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const begin = `{"config": {"scanner_name": "govulncheck"}}
{"progress": {"message": "Fetching vulnerabilities from the database..."}}
{"osv": {"id": "GO-1999-0001", "summary": "It falls over"}}
{"finding": {"osv": "GO-1999-0001", "fixed_version": "v1.2.0", "trace": [{"module": "example.com/m", "version": "v1.1.0"}]}}
{"finding": {"osv": "GO-1999-0001", "fixed_version": "v1.2.0", "trace": [{"module": "example.com/m", "version": "v1.1.0", "package": "example.com/m/p"}]}}
`

const called = `{"finding": {"osv": "GO-1999-0001", "fixed_version": "v1.2.0", "trace": [{"module": "example.com/m", "version": "v1.1.0", "package": "example.com/m/p", "function": "Fall"}, {"module": "example.com/us", "package": "example.com/us/cmd", "function": "main"}]}}
`

func TestOnlyWhatIsAllowedPasses(t *testing.T) {
	cases := map[string]struct {
		// writes is the output of govulncheck. says is its message when it fails.
		writes, says, allowed string
		code                  int
		want                  string
	}{
		"nothing is called":                {begin, "", "", 0, "No weakness is known"},
		"something is called":              {begin + called, "", "# none\n", exitFound, "GO-1999-0001: It falls over: example.com/m@v1.1.0 is called at example.com/m/p.Fall; fixed in v1.2.0\n"},
		"it is allowed":                    {begin + called, "", "GO-1999-0001 is elsewhere.\n", 0, "GO-1999-0001 is allowed: it is elsewhere.\nNo weakness is known"},
		"another is allowed":               {begin + called, "", "GO-1999-0002 is elsewhere.\n", exitFound, "GO-1999-0002 is allowed and not found\n"},
		"the database is away":             {"", "govulncheck: fetching vulnerabilities: no such host", "", exitNotChecked, "vuln: nothing was checked: the database of weaknesses is not reached: govulncheck: fetching vulnerabilities: no such host; -db"},
		"it fails otherwise":               {begin, "govulncheck: loading packages: no", "", exitNotChecked, "vuln: nothing was checked: "},
		"it writes nothing":                {"", "", "", exitNotChecked, "it is empty"},
		"it writes what cannot be read":    {begin + "{", "", "", exitNotChecked, "unexpected EOF"},
		"an allowance without its reason":  {begin, "", "\nGO-1999-0001\n", exitNotChecked, `line 2: "GO-1999-0001" is not a number such as GO-2025-3521 and a reason`},
		"an allowance that is there twice": {begin, "", "GO-1999-0001 a\nGO-1999-0001 b\n", exitNotChecked, "line 2: GO-1999-0001 stands there twice"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string, mode os.FileMode) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), mode); err != nil {
					t.Fatal(err)
				}
				return path
			}
			script := "#!/bin/sh\ncat " + write("out", tc.writes, 0o600) + "\n"
			if tc.says != "" {
				script += "cat " + write("says", tc.says, 0o600) + " >&2\nexit 1\n"
			}
			var out bytes.Buffer
			code := run([]string{"-govulncheck", write("govulncheck", script, 0o700), "-allowed", write("allowed", tc.allowed, 0o600), "./..."}, &out, &out)
			if code != tc.code || !strings.Contains(out.String(), tc.want) {
				t.Errorf("it ends with %d and says\n%s\nwant %d and %q", code, out.String(), tc.code, tc.want)
			}
		})
	}
}

func TestWhatIsAllowedCanBeRead(t *testing.T) {
	text, err := os.ReadFile("allowed.txt")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAllowed(string(text)); err != nil {
		t.Error(err)
	}
}
