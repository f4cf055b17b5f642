package gauge

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	// profileWindow is the time that one CPU profile covers.
	profileWindow = 5 * time.Second
	// profileRetry is the pause before a process that does not answer yet is asked again.
	profileRetry = 100 * time.Millisecond
	// profileGrace is how long an answer may take beyond the window.
	profileGrace = time.Minute
)

// WriteProfiles writes profiles from an address of net/http/pprof into files, until done is closed.
// The n-th files are file("cpu", n) and file("heap", n), with n from 1. A CPU profile covers a few
// seconds, and go tool pprof adds several up. The heap profile comes after it, and has what the last
// garbage collection left. WriteProfiles asks again while nobody answers, because a process needs
// time to start.
func WriteProfiles(ctx context.Context, client *http.Client, address string, file func(kind string, n int) string, done <-chan struct{}) error {
	cpu := address + "/profile?seconds=" + strconv.Itoa(int(profileWindow.Seconds()))
	var last error
	for n := 1; ; {
		select {
		case <-done:
			if n == 1 && last != nil {
				return last
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("write profiles: %w", ctx.Err())
		default:
		}
		if last = writeProfile(ctx, client, cpu, file("cpu", n)); last == nil {
			last = writeProfile(ctx, client, address+"/heap", file("heap", n))
		}
		if last == nil {
			n++
			continue
		}
		select {
		case <-time.After(profileRetry):
		case <-done:
		case <-ctx.Done():
		}
	}
}

// writeProfile writes one profile. It creates no file without one.
func writeProfile(ctx context.Context, client *http.Client, url, file string) error {
	ctx, cancel := context.WithTimeout(ctx, profileWindow+profileGrace)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("read a profile: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("read a profile: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read a profile: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("read a profile: %s answers %s: %s", url, resp.Status, text)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write a profile: %w", err)
	}
	return nil
}
