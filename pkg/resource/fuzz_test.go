package resource

import (
	"encoding/json"
	"testing"
)

// FuzzReadJGF checks that no text makes ReadJGF panic,
// and that what it accepts is JSON and survives JGF.
func FuzzReadJGF(f *testing.F) {
	f.Add([]byte(jgf(toNode, item("0", rootMeta), item("1", nodeMeta))))
	f.Add([]byte(jgf(toNode+`,{"source":"1","target":"0","metadata":{"subsystem":"power","name":{"a":[1.5e3,null]}}}`, item("0", rootMeta),
		item("1", `"type":"node","basename":"","name":"a\u00e417","uniq_id":-4,"size":0,"unit":"GB","exclusive":true,"status":1,"properties":{"a":"\ud83d\ude00"},"paths":{"containment":"/a/b","power":"/p"}`))))
	f.Add([]byte(`{"graph":{"edges":[{"source":"0","target":"0"}],"nodes":[{"metadata":{` + rootMeta + `},"id":"0"}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := ReadJGF(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Errorf("ReadJGF accepts what is not JSON: %s", text)
		}
		graphRoundTrip(t, g)
	})
}

// FuzzParseSet checks the same for ParseSet and Encode.
func FuzzParseSet(f *testing.F) {
	of := func(execution, graph string) []byte {
		return []byte(`{"version":1,"execution":` + execution + `,"scheduling":` + graph + `}`)
	}
	f.Add(of(`{"R_lite":[],"starttime":0,"expiration":3600.5}`, jgf(toNode, item("0", rootMeta), item("1", nodeMeta))))
	f.Add(of(`{"starttime":1e9}`, jgf("", item("0", `"type":"core","name":"","size":250,"unit":"m","paths":{},"fluence":{"size":64000,"exclusive":true}`))))
	f.Add(of(`{}`, jgf("", item("0", `"type":"node","name":"a08","rank":3,"properties":{"a":"b"},"paths":{}`), item("1", `"type":"node","name":"a09","rank":4,"paths":{}`))))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSet(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Errorf("ParseSet accepts what is not JSON: %s", text)
		}
		if again := setRoundTrip(t, s); !json.Valid([]byte(again)) {
			t.Errorf("Encode writes what is not JSON: %s", again)
		}
	})
}
