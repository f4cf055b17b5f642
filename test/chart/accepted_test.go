package chart_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/flux-k8s/fluence/pkg/fluence"
)

// Values just within their bounds are accepted by the chart, by
// the plugin as arguments, and by the scheduler as configuration.
func TestAccepted(t *testing.T) {
	cases := map[string]string{
		"the shortest times":                 `scheduler: {args: {matchTimeout: 1ms, scheduleTimeout: 1s, maxBypass: 0s, maxReserve: 0s, handover: 0s, expectTimeout: 0s, expectTotal: 0s, expect: none}}`,
		"a reservation in odd parts":         `scheduler: {args: {maxReserve: 0h59s1000ms}}`,
		"the longest times":                  `scheduler: {args: {matchTimeout: 30s, maxAsk: 30s, tellNames: all, wholeNodes: all, scheduleTimeout: 15m, maxBypass: 1000h, maxReserve: 1000h, handover: 10s, expectTimeout: 60m, expectTotal: 1h, expect: labelled}}`,
		"one bind at a time, with its event": `scheduler: {args: {maxBinds: 1, podEvents: always}}`,
		"the longest in small units":         `scheduler: {args: {matchTimeout: 30000ms, scheduleTimeout: 900s, maxBypass: 1h30m10s5ms}}`,
		"the first policy":                   `scheduler: {args: {matchPolicy: first}}`,
		"whole nodes":                        `scheduler: {args: {matchPolicy: firstnodex}}`,
		"levels with and without a prefix":   `scheduler: {args: {topologyLevels: [topology.kubernetes.io/zone, rack, example.com/Block_1.a]}}`,
		"levels that begin as reserved ones": `scheduler: {args: {topologyLevels: [nodes, corerack, example.com/cpus]}}`,
		"nothing runs":                       `replicas: 0`,
		"granules":                           "engine: fluxion\nfluxion: {granule: {memory: 4294967296}}",
		"everybody may go":                   `podDisruptionBudget: {maxUnavailable: 100%}`,
		"the closest times of the other":     `controller: {leaderElection: {leaseDuration: 14s, renewDeadline: 13s, retryPeriod: 10s}}`,
		"the closest times of the lease":     `leaderElection: {leaseDuration: 14s, renewDeadline: 13s, retryPeriod: 10s}`,
		"names of digits":                    "imagePullSecrets: [\"123\"]\npriorityClassName: \"123\"\nschedulerName: \"123\"",
		"an annotation of the chart's own":   `podAnnotations: {checksum/config: mine}`,
		"what is empty taken away":           "podLabels: null\npodAnnotations: null\naffinity: null\nscheduler: {config: null, extraProfiles: null, args: {topologyLevels: null}}",
		"amounts in all their forms":         `controller: {resources: {requests: {cpu: 0.5, memory: 1e8, ephemeral-storage: .5Gi, hugepages-2Mi: 4Mi, example.com/nic: "1"}, limits: {cpu: 1500m}}}`,
		"a user that the cluster chooses":    `podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}`,
		"metrics for nobody in particular":   `{metrics: {enabled: true}, networkPolicy: {enabled: false}}`,
		"an API server's address":            `networkPolicy: {webhookFrom: [{ipBlock: {cidr: 10.0.0.1/32}}]}`,
		"bounds at their ends":               `tenantPolicy: {enabled: true, action: Audit, maxGroupSize: 100000, maxAntiAffinityTerms: 0, maxSpreadConstraints: 1000}`,
		"networks":                           `networkPolicy: {metricsFrom: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}, {ipBlock: {cidr: "fd00::/8"}}]}`,
		"all fields of a profile":            `scheduler: {extraProfiles: [{schedulerName: a, percentageOfNodesToScore: 50, plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit, weight: 2}]}}, pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]}`,
		"all fields of the configuration":    `scheduler: {config: {parallelism: 8, clientConnection: {qps: 50, burst: 100, contentType: application/json, acceptContentTypes: application/json}, enableProfiling: false, enableContentionProfiling: false, percentageOfNodesToScore: 0, podInitialBackoffSeconds: 10, podMaxBackoffSeconds: 10, extenders: [{urlPrefix: "http://x", filterVerb: f}]}}`,
		"the most that may be logged":        "scheduler: {verbosity: 6, extraArgs: [--version=false]}\nsidecar: {verbosity: 6}\ncontroller: {verbosity: 6}",
		"values of a chart above it":         `global: {region: north}`,
		"a port of the registry":             `image: {registry: "localhost:5000"}`,
	}
	dir := t.TempDir()
	for name, values := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "values.yaml")
			if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"--values", file}
			if !strings.Contains(values, "registry:") {
				args = append(args, "--set", registry)
			}
			text, err := template(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			rendered := objects(t, text)
			for _, name := range []string{"fluence-scheduler", "fluence-controller"} {
				deployment(t, rendered, name)
			}
			var m corev1.ConfigMap
			find(t, rendered, "ConfigMap", "fluence-scheduler-config").into(t, &m)
			isConfiguration(t, m.Data["config.yaml"])
			raw, err := json.Marshal(pluginArgs(t, rendered))
			if err != nil {
				t.Fatal(err)
			}
			// Without a framework the plugin fails only after it has accepted its arguments.
			_, err = fluence.Factory(nil, nil)(t.Context(), &runtime.Unknown{Raw: raw}, nil)
			if err == nil || !strings.Contains(err.Error(), "framework") {
				t.Errorf("the plugin says of %s: %v", raw, err)
			}
		})
	}
}

// pluginArgs returns the plugin's arguments in the chart's ConfigMap.
func pluginArgs(t *testing.T, rendered []object) map[string]any {
	t.Helper()
	profile := schedulerConfig(t, rendered)["profiles"].([]any)[0].(map[string]any)
	return profile["pluginConfig"].([]any)[0].(map[string]any)["args"].(map[string]any)
}

// isConfiguration reads a configuration as the scheduler does.
func isConfiguration(t *testing.T, text string) {
	t.Helper()
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(decoded.(*config.KubeSchedulerConfiguration)); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}
