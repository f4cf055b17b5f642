package jobspec

import "testing"

// FuzzParse checks that no text makes Parse panic, and
// that what Parse accepts is valid and survives Encode.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sound().text()))
	f.Add([]byte(`{"version":1,"resources":[{"type":"slot","count":{"min":2},"label":"s"}],"tasks":[],` +
		`"attributes":{"user":{"a":[1e5,"\ud83d\ude00"]},"system":{"duration":0.5,"fluence":{"s":{"constraintsNow":{"not":[{"hostlist":["a[0-9,12]"]}]}}}}}}`))
	f.Add([]byte("version: 0x1\nresources: [&a {type: core, count: 010}, *a]\ntasks: []\nattributes: {user: {a: 1_0, b: 0o7, c: -.5, d: 2001-01-01, <<: x}}"))
	f.Add([]byte("? [a]\n: b"))
	f.Fuzz(func(t *testing.T, text []byte) {
		j, err := Parse(text)
		if err != nil {
			return
		}
		if err := j.Validate(); err != nil {
			t.Errorf("Parse accepts what Validate does not: %v", err)
		}
		roundTrip(t, j)
		if _, err := j.Attributes.System.Constraints.Compile(); err != nil {
			t.Errorf("Parse accepts constraints that do not compile: %v", err)
		}
	})
}
