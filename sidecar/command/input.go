package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// stdin is the name of a file that means standard input.
const stdin = "-"

// readInput reads a regular file of at most limit bytes or, for
// "-", at most limit bytes from in. An error names the file.
func readInput(name string, in io.Reader, limit int64) ([]byte, error) {
	if name == stdin {
		b, err := readAll(in, 0, limit)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return b, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file; %q reads standard input", name, stdin)
	}
	b, err := readAll(f, info.Size(), limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// readAll reads to the end, which is expected after size bytes.
func readAll(r io.Reader, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, fmt.Errorf("has %d bytes, the limit is %d", size, limit)
	}
	var b bytes.Buffer
	b.Grow(int(size) + bytes.MinRead)
	n, err := b.ReadFrom(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("exceeds the limit of %d bytes", limit)
	}
	return b.Bytes(), nil
}
