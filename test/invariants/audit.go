package invariants

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
)

// auditEvery is the interval at which the audit log is read. It is shorter than judgeAfter.
const auditEvery = 100 * time.Millisecond

// A tail reads an audit log as it grows.
type tail struct {
	file  *os.File
	lines *bufio.Reader
	rest  []byte // the beginning of a line that is still being written
}

// newTail opens the log at its present end.
func newTail(path string) (*tail, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		f.Close()
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return &tail{file: f, lines: bufio.NewReaderSize(f, 1<<16)}, nil
}

// read calls see for each complete line of interest.
func (t *tail) read(see func(auditFact)) error {
	for {
		line, err := t.lines.ReadBytes('\n')
		t.rest = append(t.rest, line...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		line, t.rest = t.rest, nil
		if !ofInterest(line) {
			continue
		}
		var event cluster.AuditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		if fact, ok := auditFactOf(event); ok {
			see(fact)
		}
	}
}

// ofInterest reports whether a line has to be decoded. Most lines have not.
func ofInterest(line []byte) bool {
	for _, word := range []string{`"subresource":"binding"`, `"subresource":"eviction"`, `"verb":"delete`} {
		if bytes.Contains(line, []byte(word)) {
			return true
		}
	}
	return false
}

// readAudit follows the audit log until ctx is done.
func (c *Checker) readAudit(ctx context.Context, t *tail) {
	defer t.file.Close()
	ticker := time.NewTicker(auditEvery)
	defer ticker.Stop()
	for {
		err := t.read(func(f auditFact) { c.tell(func(j *judge) { j.seeAudit(f) }) })
		if err != nil {
			c.fail(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
