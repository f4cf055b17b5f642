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
	// reviewQPS is how many tokens, and how many rights, the API server is asked about in a
	// second, and reviewBurst how many at once. Whoever can reach the port may send tokens of
	// his making, and these must take nothing from the controller's other requests. An answer
	// counts for a minute.
	reviewQPS   = 5
	reviewBurst = 10
	// reviewTimeout bounds one such question.
	reviewTimeout = 10 * time.Second
)

// metricsOptions has metrics served over HTTPS at an address, with a certificate that is
// made at each start, to who may get the URL /metrics. The address "0" is for nobody.
func metricsOptions(address string) metricsserver.Options {
	return metricsserver.Options{
		BindAddress:    address,
		SecureServing:  true,
		FilterProvider: reviewed,
		TLSOpts:        []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
}

// reviewed returns a filter that asks the API server who calls and whether he may get the URL.
// Its requests have a rate of their own.
func reviewed(config *rest.Config, _ *http.Client) (metricsserver.Filter, error) {
	config = rest.CopyConfig(config)
	config.RateLimiter, config.QPS, config.Burst, config.Timeout = nil, reviewQPS, reviewBurst, reviewTimeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build the client that asks who may read metrics: %w", err)
	}
	return filters.WithAuthenticationAndAuthorization(config, client)
}
