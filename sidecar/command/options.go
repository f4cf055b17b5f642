package command

import (
	"encoding/json"
	"errors"
)

// OptionPolicy is the option of Fluxion that sets the policy for requests without a policy.
const OptionPolicy = "matcher_policy"

// ReadOptions reads Fluxion's initialisation options. Options that the text leaves out come from
// defaults, and load_format is jgf by default. The options in overrides override the text.
func ReadOptions(text string, defaults, overrides map[string]string) (map[string]json.RawMessage, error) {
	o := map[string]json.RawMessage{}
	set := func(of map[string]string) error {
		for key, value := range of {
			text, err := json.Marshal(value)
			if err != nil {
				return err
			}
			o[key] = text
		}
		return nil
	}
	if err := errors.Join(set(map[string]string{"load_format": "jgf"}), set(defaults)); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, errors.New("not an object")
	}
	return o, set(overrides)
}
