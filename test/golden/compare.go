package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// compare returns an error with the field in which an answer differs from the expected one.
func (s Step) compare(want, got *Answer, format string) error {
	switch s.Op {
	case OpCancel:
		return equal("ok", want.OK, got.OK)
	case OpInfo:
		if err := equal("ok", want.OK, got.OK); err != nil || !want.OK {
			return err
		}
		return first(equal("mode", want.Mode, got.Mode), equal("reserved", want.Reserved, got.Reserved), equal("at", want.At, got.At))
	case OpSatisfy:
		if err := s.status(want, got); err != nil || wrong(want.Status) {
			return err
		}
		return equal("sat", want.Sat, got.Sat)
	}
	if err := s.status(want, got); err != nil {
		return err
	}
	if want.Status != Allocated && want.Status != Reserved {
		return nil
	}
	err := equal("at", want.At, got.At)
	if want.Alloc != nil {
		err = first(err, sameList(want.Alloc, got.Alloc))
	}
	if want.R != "" && slices.Contains([]string{"jgf", "rlite", "rv1", "rv1_nosched"}, format) {
		err = first(err, sameValue(want.R, got.R))
	}
	return err
}

func wrong(status string) bool { return status == Invalid || status == statusError }

// status compares two statuses. Three differences are allowed. NoMatch is met by any refusal or
// error. Invalid and error are equal. For Allocate and WithoutAllocating, Busy and Unsatisfiable
// are equal, because the library does not look further there.
func (s Step) status(want, got *Answer) error {
	refused := got.Status == Busy || got.Status == Unsatisfiable
	switch {
	case want.Status == got.Status:
		return nil
	case want.Status == NoMatch && (refused || wrong(got.Status)):
		return nil
	case wrong(want.Status) && wrong(got.Status):
		return nil
	case (s.MatchOp == Allocate || s.MatchOp == WithoutAllocating) && (want.Status == Busy || want.Status == Unsatisfiable) && refused:
		return nil
	}
	return fmt.Errorf("status: %s is wanted, not %s %s (%s)", want.Status, got.Status, got.ErrMsg, want.ErrMsg)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func equal[T comparable](field string, want, got T) error {
	if want != got {
		return fmt.Errorf("%s: %v is wanted, not %v", field, want, got)
	}
	return nil
}

func sameList(want, got []string) error {
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			return fmt.Errorf("alloc: differs from entry %d on:\nwanted %q\ngot    %q", i, want, got)
		}
	}
	return nil
}

// sameValue compares the values of two JSON texts. It compares integers exactly.
func sameValue(want, got string) error {
	w, err := decode(want)
	if err != nil {
		return fmt.Errorf("resources that are wanted: %w", err)
	}
	g, err := decode(got)
	if err != nil {
		return fmt.Errorf("resources: %q: %w", got, err)
	}
	if !reflect.DeepEqual(w, g) {
		return fmt.Errorf("resources: differ:\nwanted %s\ngot    %s", want, got)
	}
	return nil
}

func decode(text string) (any, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}
