package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flux-k8s/fluence/sidecar/endpoint"
)

// dialTimeout is how long a socket may take to accept a connection. A socket
// that takes longer belongs to a process that is busy or stopped, not dead.
const dialTimeout = time.Second

// listen opens an endpoint. Only this user can open a socket. A socket that a dead
// process has left is replaced. A socket that a live process serves is an error.
func listen(ctx context.Context, e endpoint.Endpoint) (net.Listener, error) {
	var config net.ListenConfig
	if e.Network != endpoint.Unix {
		return config.Listen(ctx, e.Network, e.Address)
	}
	if err := os.MkdirAll(filepath.Dir(e.Address), 0o700); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, e.Address); err != nil {
		return nil, err
	}
	// If the mode were set afterwards, others could connect for a moment.
	before := syscall.Umask(0o177)
	defer syscall.Umask(before)
	return config.Listen(ctx, e.Network, e.Address)
}

// removeStale removes a socket at which no process listens.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, endpoint.Unix, path)
	if err == nil {
		return errors.Join(fmt.Errorf("another process already serves %s", path), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s may be in use: %w", path, err)
	}
	return os.Remove(path)
}
