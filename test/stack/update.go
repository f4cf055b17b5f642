package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
)

// addressFile is the file, in the cluster's folder, of the addresses that Update needs.
const addressFile = "fluence-addresses.json"

// stopTimeout is how long an outdated process may take to end after SIGTERM.
const stopTimeout = 10 * time.Second

// addresses are the ports of a stack's processes on loopback.
type addresses struct {
	Scheduler         int    `json:"scheduler"`
	Webhook           int    `json:"webhook"`
	ControllerMetrics string `json:"controllerMetrics"`
}

// Update brings the chart and the programs of a cluster on which Start has run before to the
// present state of the repository. A process that runs the present program with the present flags
// and configuration is kept. The others are started, or started again. Jobs and nodes stay.
func Update(ctx context.Context, c *cluster.Cluster, cfg Config) (*Stack, error) {
	if cfg.Chart == nil || cfg.Standby {
		return nil, errors.New("update: only one scheduler that the chart installs can be updated")
	}
	s, err := newStack(ctx, c, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.takeAddresses(); err != nil {
		return nil, err
	}
	s.update = &update{changed: map[string]bool{}}
	return s, s.run(ctx)
}

// update is what Update knows beyond a Stack.
type update struct {
	// changed are the processes whose configuration is no longer the one that they have read.
	changed map[string]bool
}

// saveAddresses writes what takeAddresses reads.
func (s *Stack) saveAddresses() error {
	text, err := json.Marshal(addresses{Scheduler: s.instances[0].schedulerPort, Webhook: s.webhookPort, ControllerMetrics: s.controllerMetrics})
	if err != nil {
		return fmt.Errorf("encode the addresses of Fluence's programs: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir(), addressFile), text, 0o600); err != nil {
		return fmt.Errorf("write the addresses of Fluence's programs: %w", err)
	}
	return nil
}

// takeAddresses takes the addresses of the processes that run. The others get new addresses:
// another program may have taken their old ones.
func (s *Stack) takeAddresses() error {
	text, err := os.ReadFile(filepath.Join(s.Dir(), addressFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an earlier start was interrupted; all processes get new addresses
	}
	if err != nil {
		return fmt.Errorf("read the addresses of Fluence's programs: %w", err)
	}
	var a addresses
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("parse %s: %w", filepath.Join(s.Dir(), addressFile), err)
	}
	if s.Process(Scheduler) != nil {
		s.instances[0].schedulerPort = a.Scheduler
	}
	if s.Process(Controller) != nil {
		s.webhookPort, s.controllerMetrics = a.Webhook, a.ControllerMetrics
	}
	return nil
}

// keeps reports whether an Update keeps the process of a name. If the
// process runs but is outdated, keeps ends it.
func (s *Stack) keeps(ctx context.Context, name, program, path string, args []string) (bool, error) {
	p := s.Process(name)
	if s.update == nil || p == nil {
		return false, nil
	}
	select {
	case <-p.Done():
		return false, nil
	default:
	}
	if !s.update.changed[name] && p.Runs(program, path, args) {
		fmt.Fprintf(s.cfg.Log, "Keeping %s, which is up to date\n", name)
		return true, nil
	}
	fmt.Fprintf(s.cfg.Log, "Stopping %s: its program or its configuration has changed\n", name)
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return false, p.Stop(ctx)
}
