package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flux-k8s/fluence/test/cluster/pki"
	"github.com/flux-k8s/fluence/test/cluster/process"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// state is the content of a cluster's state file. It does not include the processes.
type state struct {
	Ready         bool                 `json:"ready"`
	Detached      bool                 `json:"detached"`
	Etcd          string               `json:"etcd"`
	Server        string               `json:"server"`
	FeatureGates  map[string]bool      `json:"featureGates,omitempty"`
	RuntimeConfig map[string]bool      `json:"runtimeConfig,omitempty"`
	Components    map[string]component `json:"components"`
	Binaries      *tools.Binaries      `json:"binaries"`
}

// save writes the state atomically.
func (c *Cluster) save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, err := json.MarshalIndent(c.state, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the cluster's state: %w", err)
	}
	path, err := c.writeFile(stateFile+".new", text)
	if err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(c.dir.path, stateFile)); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	return nil
}

// Open attaches to the detached cluster whose state is in
// dir. Processes started through the result are detached too.
func Open(dir string) (*Cluster, error) {
	c, err := read(dir)
	if err != nil {
		return nil, err
	}
	if c.group, err = process.Open(c.dir.path); err != nil {
		return nil, err
	}
	if p := c.group.Process(KubeAPIServer); p == nil {
		return nil, fmt.Errorf("the cluster in %s has ended: its API server is gone", c.dir.path)
	}
	return c, c.attach()
}

// read returns the detached cluster whose state is in dir, without its processes.
func read(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the cluster: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w runs in %s", ErrNoCluster, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open the cluster: %w", err)
	}
	c := &Cluster{dir: &stateDir{path: dir}}
	if err := json.Unmarshal(text, &c.state); err != nil {
		return nil, fmt.Errorf("parse %s: %w", filepath.Join(dir, stateFile), err)
	}
	switch {
	case !c.state.Detached:
		return nil, fmt.Errorf("the cluster in %s is not detached", dir)
	case !c.state.Ready:
		return nil, fmt.Errorf("%w: the one in %s is still starting, or its start failed", ErrNoCluster, dir)
	}
	c.bins = c.state.Binaries
	return c, nil
}

// attach makes the clients of a cluster that was read.
func (c *Cluster) attach() (err error) {
	if c.ca, err = pki.LoadAuthority(c.pkiDir(), "ca"); err != nil {
		return err
	}
	return c.connect()
}

// Down ends the detached cluster in dir and everything started in it, and removes the
// folder. It also cleans up after a start that failed or was killed. It does nothing
// if there is no cluster. It waits for a start that is running in another process.
func Down(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("stop the cluster: %w", err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if ours, err := isStateDir(dir); err != nil || !ours {
		return errors.Join(err, fmt.Errorf("stop the cluster: %s is not a cluster's", dir))
	}
	lock, err := waitLock(ctx, filepath.Join(dir, lockFile))
	if err != nil {
		return fmt.Errorf("stop the cluster: it is starting, or not detached: %w", err)
	}
	defer lock.Close()
	if err := endSupervisor(ctx, dir); err != nil {
		return fmt.Errorf("stop the cluster: %w", err)
	}
	g, err := process.Open(dir)
	if err != nil {
		return err
	}
	if err := closeGroup(ctx, g); err != nil {
		return fmt.Errorf("stop the cluster: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the cluster's state: %w", err)
	}
	return nil
}
