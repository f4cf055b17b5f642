package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// reviewQPS is how many tokens, and how many rights, the API server is asked to
	// review in a second. Whoever can reach the port may send made-up tokens, and these
	// must not slow down the controller's other requests. An answer counts for a minute.
	reviewQPS = 5
	// reviewBurst is how many reviews there may be at once.
	reviewBurst = 10
	// reviewTimeout bounds one such review.
	reviewTimeout = 10 * time.Second
)

// metricsOptions returns options by which metrics are served over HTTPS at
// an address, to users who may get the URL /metrics. The certificate is
// created at each start. The address "0" means that no metrics are served.
func metricsOptions(address string) metricsserver.Options {
	return metricsserver.Options{
		BindAddress:    address,
		SecureServing:  true,
		FilterProvider: reviewed,
		TLSOpts:        []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
}

// reviewed returns a filter that asks the API server who calls and whether
// the caller may get the URL. Its requests have a separate rate limit.
func reviewed(config *rest.Config, _ *http.Client) (metricsserver.Filter, error) {
	config = rest.CopyConfig(config)
	config.RateLimiter, config.QPS, config.Burst, config.Timeout = nil, reviewQPS, reviewBurst, reviewTimeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build the client that asks who may read metrics: %w", err)
	}
	return filters.WithAuthenticationAndAuthorization(config, client)
}
