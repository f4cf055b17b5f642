package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/test/cluster/process"
	"github.com/flux-k8s/fluence/test/perf/cluster/gauge"
)

// profile begins to write profiles of a run, if they are wanted.
// end stops that after the profiles that are being taken. It may be called once.
func (b *Bench) profile(ctx context.Context, name string, running map[string]*process.Process) (end func() error, err error) {
	if b.Profiles == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(b.Profiles, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of profiles: %w", err)
	}
	client, err := rest.HTTPClientFor(b.stand.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("build a client: %w", err)
	}
	addresses, err := b.stand.Profiles(running)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	g, gctx := errgroup.WithContext(ctx)
	for process, address := range addresses {
		file := func(kind string, n int) string {
			return filepath.Join(b.Profiles, fmt.Sprintf("%02d-%s-%s-%s-%03d.pprof", b.runs, name, process, kind, n))
		}
		g.Go(func() error {
			if err := gauge.WriteProfiles(gctx, client, address, file, done); err != nil {
				return fmt.Errorf("%s: %w", process, err)
			}
			return nil
		})
	}
	return func() error {
		close(done)
		defer client.CloseIdleConnections()
		return g.Wait()
	}, nil
}
