package main

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/cluster"
)

// metricsAreForReaders requests the metrics of a controller without a token, with a token
// that the API server does not know, for an account without the right and for one with it.
func metricsAreForReaders(ctx context.Context, t *testing.T, c *cluster.Cluster, url string) {
	t.Helper()
	for _, account := range []string{"reader", "stranger"} {
		kubectl(ctx, t, c, nil, "create", "serviceaccount", account, "-n", corev1.NamespaceDefault)
	}
	kubectl(ctx, t, c, nil, "create", "clusterrole", "metrics-reader", "--verb=get", "--non-resource-url=/metrics")
	kubectl(ctx, t, c, nil, "create", "clusterrolebinding", "metrics-reader", "--clusterrole=metrics-reader", "--serviceaccount=default:reader")
	cases := map[string]struct {
		token string
		code  int
		body  string
	}{
		"without a token": {code: http.StatusUnauthorized, body: "Unauthorized"},
		// controller-runtime takes the API server's answer
		// to such a token for a request that failed.
		"with a token of nobody": {token: "e30.e30.e30", code: http.StatusInternalServerError, body: "Authentication failed"},
		"without the right":      {token: token(ctx, t, c, "stranger"), code: http.StatusForbidden, body: "denied for user system:serviceaccount:default:stranger"},
		"with the right":         {token: token(ctx, t, c, "reader"), code: http.StatusOK, body: "\nfluence_controller_incomplete_groups 0\n"},
	}
	for name, tc := range cases {
		code, body := get(ctx, t, url, tc.token)
		if code != tc.code || !strings.Contains(body, tc.body) {
			t.Errorf("metrics are asked for %s: %d, %.300q; want %d, %q", name, code, body, tc.code, tc.body)
		}
	}
}

// token is a token of an account in the namespace default.
func token(ctx context.Context, t *testing.T, c *cluster.Cluster, account string) string {
	t.Helper()
	got, err := c.Client().CoreV1().ServiceAccounts(corev1.NamespaceDefault).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Status.Token
}

// get requests a page with a token, or without one if it is empty.
func get(ctx context.Context, t *testing.T, url, token string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the certificate is self-signed
	}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
