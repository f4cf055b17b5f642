package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// record is what a group's folder keeps about one process.
type record struct {
	identity
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args"`
	Log  string   `json:"log"`
	// At is the time of the start. It orders the records of a group.
	At time.Time `json:"at"`
}

const recordSuffix = ".json"

// write stores the record in dir, atomically.
func (r record) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the record of %s: %w", r.Name, err)
	}
	path := filepath.Join(dir, r.Name+recordSuffix)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Name, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Name, err)
	}
	return nil
}

// readRecords returns the records in dir. It returns none if the folder does not exist.
func readRecords(dir string) ([]record, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the process records: %w", err)
	}
	var out []record
	for _, e := range entries {
		if filepath.Ext(e.Name()) != recordSuffix {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed after the folder was read
		}
		if err != nil {
			return nil, fmt.Errorf("read a process record: %w", err)
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			path := filepath.Join(dir, e.Name())
			return nil, fmt.Errorf("parse the record of a process: %w; if the process runs, end it, and remove %s", err, path)
		}
		out = append(out, r)
	}
	return out, nil
}
