package apiwatch

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
)

// jailed is a user whom the flow control of the API server throttles.
const jailed = "jailed"

// The flow control of a real API server throttles all requests of a user, at first
// except /livez, which it exempts. Then its etcd does not answer for a while. Then the
// flow control throttles /livez too. The server answers all the time, until it ends.
func TestAnAPIServerThatRefusesIsThere(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{APIOnly: true, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	config, err := c.RESTConfigFor(jailed)
	if err != nil {
		t.Fatal(err)
	}
	ping, err := Livez(config)
	if err != nil {
		t.Fatal(err)
	}
	answers := func(path string, code int) {
		t.Helper()
		untilAnswered(t, config, path, code)
		if err := ping(ctx); err != nil {
			t.Errorf("%s is answered by %d, and the server is taken for gone: %v", path, code, err)
		}
	}
	answers("/version", http.StatusOK)

	imprison(ctx, t, c, config)
	takeTheSeat(ctx, t, config)
	answers("/version", http.StatusTooManyRequests)
	answers("/livez", http.StatusOK)

	etcd := c.Process(cluster.Etcd)
	if err := etcd.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	// For a moment the server repeats what it last knew of its etcd.
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for range 20 {
		<-ticker.C
		if err := pingOnce(ctx, ping); err != nil {
			t.Fatalf("etcd does not answer, and the server is taken for gone: %v", err)
		}
	}
	if err := etcd.Resume(); err != nil {
		t.Fatal(err)
	}

	// If several schemas match alike, the first by name counts. This one comes before "probes".
	before := []byte(`{"spec":{"matchingPrecedence":2}}`)
	if _, err := c.Client().FlowcontrolV1().FlowSchemas().Patch(ctx, jailed, types.MergePatchType, before, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	answers("/livez", http.StatusTooManyRequests)

	if err := c.Process(cluster.KubeAPIServer).Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if err := ping(ctx); err == nil {
		t.Error("a server that is gone is taken for one that answers")
	}
}

// imprison gives the user a priority level without a queue, where one request
// is served at a time, and waits until the API server has applied it.
func imprison(ctx context.Context, t *testing.T, c *cluster.Cluster, config *rest.Config) {
	t.Helper()
	api := c.Client().FlowcontrolV1()
	_, err := api.PriorityLevelConfigurations().Create(ctx, &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: jailed},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(0)), LendablePercent: new(int32(0)), BorrowingLimitPercent: new(int32(0)),
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := api.FlowSchemas().Create(ctx, &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: jailed},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: jailed},
			MatchingPrecedence:         3, // after that of the probes
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: jailed}}},
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, config, "/version", func(answer *http.Response) bool {
		return answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(schema.UID)
	})
}

// takeTheSeat sends a request that every user may send, and does not end it before the test
// ends. It sends the next one if the API server refuses it because another has the seat, or gives it up.
func takeTheSeat(ctx context.Context, t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			question, _ := io.Pipe() // nobody writes the other end
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Host+"/apis/authentication.k8s.io/v1/selfsubjectreviews", question)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			if answer, err := client.Do(req); err == nil {
				_ = answer.Body.Close()
			}
		}, 50*time.Millisecond)
	}()
	t.Cleanup(func() {
		leave()
		<-left
	})
}

// untilAnswered waits until a path gets this answer. It checks
// that a 429 is one for which client-go has no decoder.
func untilAnswered(t *testing.T, config *rest.Config, path string, code int) {
	t.Helper()
	contentType := ""
	until(t, config, path, func(answer *http.Response) bool {
		contentType = answer.Header.Get("Content-Type")
		return answer.StatusCode == code
	})
	if code == http.StatusTooManyRequests && !strings.HasPrefix(contentType, "text/plain") {
		t.Fatalf("%s is refused in %s, not in plain text", path, contentType)
	}
}

// until requests a path until the answer is as wanted.
func until(t *testing.T, config *rest.Config, path string, wanted func(*http.Response) bool) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t.Context(), t, "another answer to "+path, func(ctx context.Context) (bool, string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return wanted(answer), answer.Status
	})
}
