package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// pollInterval is the interval of checks for a state that has no notification.
const pollInterval = 20 * time.Millisecond

// tailLines is the number of lines of a log that an error quotes.
const tailLines = 15

// WaitLog returns when the process has written a text to its log. It fails
// if the process ends or ctx is done before. The error quotes the log.
func (p *Process) WaitLog(ctx context.Context, text string) error {
	var unread output
	unread.from = p.from
	return p.until(ctx, fmt.Sprintf("write %q", text), func() bool {
		return unread.contains(p.record.Log, []byte(text))
	})
}

// WaitHTTP returns when a GET of url by client answers 200. It fails
// if the process ends or ctx is done before. The error quotes the log.
func (p *Process) WaitHTTP(ctx context.Context, client *http.Client, url string) error {
	return p.until(ctx, "answer on "+url, func() bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode == http.StatusOK
	})
}

// until returns when done returns true. It fails if the process ends or ctx is done before.
func (p *Process) until(ctx context.Context, what string, done func() bool) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if done() {
			return nil
		}
		select {
		case <-p.done:
			if done() { // it may have written the text just before its end
				return nil
			}
			return p.explain(fmt.Errorf("%s ended (%v) before it could %s", p.name, p.state, what))
		case <-ctx.Done():
			return p.explain(fmt.Errorf("%s did not %s: %w", p.name, what, ctx.Err()))
		case <-tick.C:
		}
	}
}

// explain adds the end of the log to an error.
func (p *Process) explain(err error) error {
	return fmt.Errorf("%w; the end of %s:\n%s", err, p.record.Log, p.Tail(tailLines))
}

// tailBytes bounds what Tail reads.
const tailBytes = 256 << 10

// Tail returns the last n lines that this process wrote.
func (p *Process) Tail(n int) string {
	f, err := os.Open(p.record.Log)
	if err != nil {
		return ""
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	from := max(p.from, size-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// output searches a growing log. It reads nothing twice.
type output struct {
	from int64
	last []byte // the end of what was read, in which a match may begin
}

func (o *output) contains(path string, text []byte) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if _, err := f.Seek(o.from, io.SeekStart); err != nil {
		return false
	}
	more, _ := io.ReadAll(f)
	o.from += int64(len(more))
	seen := slices.Concat(o.last, more)
	o.last = bytes.Clone(seen[max(0, len(seen)-len(text)+1):])
	return bytes.Contains(seen, text)
}
