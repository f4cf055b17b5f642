package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// compactTimeout bounds one request to etcd. It takes seconds to free the space of a long history.
const compactTimeout = time.Minute

// alreadyCompacted is etcd's refusal if nothing was written since the last compaction, which may be the API server's.
const alreadyCompacted = "required revision has been compacted"

// Compact makes etcd drop all earlier states of all objects, and free their space.
// A watch or a list that continues from an earlier state ends with an error.
func (c *Cluster) Compact(ctx context.Context) error {
	var now struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	const anyKey = "AA==" // one zero byte: the answer's header is what counts
	if err := c.askEtcd(ctx, "/v3/kv/range", map[string]any{"key": anyKey}, &now); err != nil {
		return err
	}
	err := c.askEtcd(ctx, "/v3/kv/compaction", map[string]any{"revision": now.Header.Revision, "physical": true}, nil)
	if err != nil && !strings.Contains(err.Error(), alreadyCompacted) {
		return err
	}
	return c.askEtcd(ctx, "/v3/maintenance/defragment", map[string]any{}, nil)
}

// askEtcd posts a request to the gateway of etcd's
// API. It decodes the answer, unless answer is nil.
func (c *Cluster) askEtcd(ctx context.Context, path string, request, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, compactTimeout)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("ask etcd for %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.state.Etcd+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask etcd for %s: %w", path, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask etcd for %s: %w", path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("ask etcd for %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask etcd for %s: %s: %s", path, resp.Status, text)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("read etcd's answer to %s: %w", path, err)
	}
	return nil
}
