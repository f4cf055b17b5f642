package chaos

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// These are messages that Fluence's scheduler logs at verbosity 2.
const (
	lineMatched = "Group matched"
	lineFilled  = "Loaded the graph"
	lineDrift   = "The engine differs from the cluster"
)

// followEvery is the interval at which a log is read.
const followEvery = 5 * time.Millisecond

// a follower reads a log while it is written. The log outlives its process.
type follower struct {
	mu      sync.Mutex
	counts  map[string]int
	waiting map[*waiter]bool
}

type waiter struct {
	message, contains string
	tell              func() // is called once, when such a line was read
}

// follow reads the log at path until ctx is done. The file need not exist yet.
func follow(ctx context.Context, path string) *follower {
	f := &follower{counts: map[string]int{}, waiting: map[*waiter]bool{}}
	go f.read(ctx, path)
	return f
}

func (f *follower) read(ctx context.Context, path string) {
	var file *os.File
	var rest []byte
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		if file == nil {
			file, _ = os.Open(path) // a missing file will come
		}
		if file != nil {
			more, _ := io.ReadAll(file)
			rest = append(rest, more...)
			for {
				line, after, whole := bytes.Cut(rest, []byte("\n"))
				if !whole {
					break
				}
				f.line(string(line))
				rest = after
			}
		}
		select {
		case <-ctx.Done():
			if file != nil {
				file.Close()
			}
			return
		case <-tick.C:
		}
	}
}

func (f *follower) line(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range []string{lineMatched, lineFilled, lineDrift} {
		if !strings.Contains(text, `"`+m+`"`) {
			continue
		}
		f.counts[m]++
		for w := range f.waiting {
			if w.message == m && strings.Contains(text, w.contains) {
				w.tell()
				delete(f.waiting, w)
			}
		}
	}
}

// count returns how often a message was logged.
func (f *follower) count(message string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[message]
}

// next returns a channel that is closed when a line with this message
// and this text is read. The function that it returns gives up the wait.
func (f *follower) next(message, contains string) (<-chan struct{}, func()) {
	return nextOf([]*follower{f}, message, contains)
}

// nextOf does the same for several logs. The first line in any of them counts.
func nextOf(logs []*follower, message, contains string) (<-chan struct{}, func()) {
	seen := make(chan struct{})
	w := &waiter{message: message, contains: contains, tell: sync.OnceFunc(func() { close(seen) })}
	for _, f := range logs {
		f.mu.Lock()
		f.waiting[w] = true
		f.mu.Unlock()
	}
	return seen, func() {
		for _, f := range logs {
			f.mu.Lock()
			delete(f.waiting, w)
			f.mu.Unlock()
		}
	}
}
