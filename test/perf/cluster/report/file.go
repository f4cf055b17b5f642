package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Append appends a result to a file of results, one a line. It creates the file if there is none.
func Append(path string, r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a result: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	return nil
}

// Read returns the results in a file, in its order. It returns none if the file does not exist.
func Read(path string) ([]Result, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	var all []Result
	n := 0
	for line := range bytes.Lines(text) {
		n++
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read results: %s:%d: %w", path, n, err)
		}
		all = append(all, r)
	}
	return all, nil
}
