package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"
)

// auditPolicy records each request once, when it has been answered, with
// its caller but without its body. A watch is recorded when it begins too.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// auditLogMegabytes returns the size at which the audit log is rotated. Within a test it is
// never rotated, because the test reads one file. A detached cluster must not fill the disk.
func auditLogMegabytes(detached bool) int {
	if detached {
		return 100
	}
	return 1 << 20
}

// auditFlags returns the flags that make the API server
// write the audit log. It returns none with NoAudit.
func (c *Cluster) auditFlags(cfg Config) ([]string, error) {
	if cfg.NoAudit {
		return nil, nil
	}
	policy, err := c.writeFile("audit-policy.yaml", []byte(auditPolicy))
	if err != nil {
		return nil, err
	}
	return []string{
		"--audit-policy-file=" + policy,
		"--audit-log-path=" + c.AuditLog(),
		fmt.Sprintf("--audit-log-maxsize=%d", auditLogMegabytes(cfg.Detached)),
		"--audit-log-maxbackup=1",
	}, nil
}

// AuditLog returns the path of the API server's audit log: JSON, one event a
// line, in the order of the answers. With Config.NoAudit there is no such file.
func (c *Cluster) AuditLog() string { return filepath.Join(c.dir.path, "audit.log") }

// AuditEvent is the part of an audit log's line that tests need.
type AuditEvent struct {
	// Stage is ResponseComplete. For a watch that begins it is ResponseStarted.
	Stage string `json:"stage"`
	// Verb is a verb of RBAC: get, list, watch, create, update, patch, delete...
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	// ObjectRef is the object of the request. It is nil for paths such as /healthz.
	ObjectRef *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// Annotations hold, among others, the decision of the authorizer.
	Annotations map[string]string `json:"annotations"`
	Received    time.Time         `json:"requestReceivedTimestamp"`
	Answered    time.Time         `json:"stageTimestamp"`
}

// AuditEvents yields the events of the audit log from its
// beginning to its present end. After an error it yields no more.
func (c *Cluster) AuditEvents() iter.Seq2[AuditEvent, error] {
	return func(yield func(AuditEvent, error) bool) {
		f, err := os.Open(c.AuditLog())
		if err != nil {
			yield(AuditEvent{}, fmt.Errorf("read the audit log: %w", err))
			return
		}
		defer f.Close()
		lines := bufio.NewReader(f)
		for {
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) { // a line without its end is still being written
				return
			}
			var event AuditEvent
			if err == nil {
				err = json.Unmarshal(line, &event)
			}
			if err != nil {
				yield(AuditEvent{}, fmt.Errorf("read the audit log: %w", err))
				return
			}
			if !yield(event, nil) {
				return
			}
		}
	}
}
