package jobspec

import (
	"encoding/json"
	"testing"
	"time"
)

func TestEncodeYAMLIsForPeople(t *testing.T) {
	j := small()
	j.Attributes.System = System{
		Duration:    90 * time.Second,
		Environment: map[string]string{"yes": "no", "N": "1"},
		Constraints: &Constraint{Op: OpProperties, Values: []string{"amd"}},
		Other:       map[string]json.RawMessage{"x": json.RawMessage(`{"a":[1,{"b":null}],"c":{},"d":[]}`)},
	}
	const want = `version: 1
resources:
  - type: "slot"
    count:
      min: 2
      max: 4
      operator: "+"
      operand: 1
    label: "s"
    with:
      - type: "core"
        count: 250
        unit: "m"
tasks:
  - command: ["app"]
    slot: "s"
    count:
      per_slot: 1
attributes:
  system:
    duration: 90
    environment:
      "N": "1"
      "yes": "no"
    constraints:
      properties: ["amd"]
    "x":
      "a":
        - 1
        - "b": null
      "c": {}
      "d": []
`
	got, err := j.EncodeYAML()
	if err != nil || string(got) != want {
		t.Errorf("EncodeYAML: %s, %v\nwant: %s", got, err, want)
	}
}

func TestEncodeYAMLFailsAsEncodeDoes(t *testing.T) {
	if _, err := (&Jobspec{Version: 1}).EncodeYAML(); err == nil || err.Error() != "resources: asks for nothing" {
		t.Errorf("EncodeYAML: %v", err)
	}
}
