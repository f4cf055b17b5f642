package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A wrong value is refused, with the name of its field, before anything is installed.
func TestRefused(t *testing.T) {
	cases := map[string]struct {
		values string
		want   []string
	}{
		"no registry":                          {`image: {registry: ""}`, []string{"image.registry", "must be set"}},
		"a value that there is not":            {`replica: 3`, []string{"replica"}},
		"a value not known, further down":      {`scheduler: {matchPolicy: low}`, []string{"/scheduler", "matchPolicy"}},
		"an argument not known":                {`scheduler: {args: {matchtimeout: 2s}}`, []string{"/scheduler/args", "matchtimeout"}},
		"fewer replicas than none":             {`replicas: -1`, []string{"/replicas", "-1"}},
		"replicas that are no number":          {`replicas: two`, []string{"/replicas"}},
		"schedulers without a lease":           {`leaderElection: {enabled: false}`, []string{"/leaderElection", "enabled"}},
		"a lease of no time":                   {`leaderElection: {leaseDuration: 0s}`, []string{"/leaderElection/leaseDuration"}},
		"a lease of less than a second":        {`leaderElection: {leaseDuration: 500ms}`, []string{"/leaderElection/leaseDuration", "500ms"}},
		"a lease shorter than its renewal":     {`leaderElection: {renewDeadline: 15s}`, []string{"leaderElection.leaseDuration: 15s", "renewDeadline, 15s"}},
		"a controller's lease of no time":      {`controller: {leaderElection: {retryPeriod: 0s}}`, []string{"/controller/leaderElection/retryPeriod"}},
		"a controller's lease that is short":   {`controller: {leaderElection: {leaseDuration: 10s}}`, []string{"controller.leaderElection.leaseDuration: 10s", "controller.leaderElection.renewDeadline, 10s"}},
		"a controller's renewal of one try":    {`controller: {leaderElection: {retryPeriod: 9s}}`, []string{"controller.leaderElection.retryPeriod: 9s", "controller.leaderElection.renewDeadline, 10s"}},
		"an API server that is nowhere":        {`networkPolicy: {egress: {enabled: true}}`, []string{"networkPolicy.egress.apiServer", "must say where"}},
		"an API server of no network":          {`networkPolicy: {egress: {apiServer: [{ipBlock: {cidr: foo}}]}}`, []string{"/networkPolicy/egress/apiServer/0/ipBlock/cidr", "foo"}},
		"an API server at no port":             {`networkPolicy: {egress: {ports: [0]}}`, []string{"/networkPolicy/egress/ports/0", "minimum"}},
		"a way out without a policy":           {`networkPolicy: {enabled: false, egress: {enabled: true, apiServer: [{ipBlock: {cidr: 192.0.2.1/32}}]}}`, []string{"networkPolicy.egress.enabled", "networkPolicy.enabled"}},
		"users of nobody":                      {`hostUsers: none`, []string{"/hostUsers", "boolean"}},
		"a renewal of one try":                 {`leaderElection: {renewDeadline: 12s, retryPeriod: 10s}`, []string{"leaderElection.retryPeriod: 10s", "renewDeadline, 12s"}},
		"a default taken away":                 {`replicas: null`, []string{"replicas"}},
		"arguments taken away":                 {`scheduler: {args: null}`, []string{"/scheduler", "args"}},
		"an engine not known":                  {`engine: abacus`, []string{"/engine", "embedded", "fluxion"}},
		"granules of nothing":                  {`fluxion: {granule: {memory: 1024}}`, []string{"fluxion.granule", `"embedded"`}},
		"a granule of no size":                 {"engine: fluxion\nfluxion: {granule: {memory: 0}}", []string{"/fluxion/granule/memory"}},
		"a policy not known":                   {`scheduler: {args: {matchPolicy: best}}`, []string{"/scheduler/args/matchPolicy", "lonodex"}},
		"a policy that Fluxion does not offer": {"engine: fluxion\nscheduler: {args: {matchPolicy: hinodex}}", []string{"scheduler.args.matchPolicy", `"hinodex"`, "lonodex"}},
		"too long a match":                     {`scheduler: {args: {matchTimeout: 31s}}`, []string{"/scheduler/args/matchTimeout", "31s"}},
		"a match of no time":                   {`scheduler: {args: {matchTimeout: 0s}}`, []string{"/scheduler/args/matchTimeout", "0s"}},
		"too long a wait for reservations":     {`scheduler: {args: {scheduleTimeout: 16m}}`, []string{"/scheduler/args/scheduleTimeout", "16m"}},
		"a bypass that is no duration":         {`scheduler: {args: {maxBypass: "10"}}`, []string{"/scheduler/args/maxBypass", "10"}},
		"a level that is no label":             {`scheduler: {args: {topologyLevels: [rack one]}}`, []string{"/scheduler/args/topologyLevels/0", "rack one"}},
		"a level that has another meaning":     {`scheduler: {args: {topologyLevels: [example.com/node]}}`, []string{"/scheduler/args/topologyLevels/0"}},
		"two levels of one type":               {`scheduler: {args: {topologyLevels: [a.io/rack, b.io/rack]}}`, []string{"scheduler.args.topologyLevels[1]", "a.io/rack"}},
		"a profile of the same name":           {`scheduler: {extraProfiles: [{schedulerName: fluence}]}`, []string{"scheduler.extraProfiles[0].schedulerName", `"fluence"`}},
		"two profiles of one name":             {`scheduler: {extraProfiles: [{schedulerName: a}, {schedulerName: a}]}`, []string{"scheduler.extraProfiles[1].schedulerName", "extraProfiles[0]"}},
		"a profile for all pods":               {`scheduler: {extraProfiles: [{schedulerName: default-scheduler}]}`, []string{"/scheduler/extraProfiles/0/schedulerName"}},
		"a second profile with Fluence":        {`scheduler: {extraProfiles: [{schedulerName: a, plugins: {multiPoint: {enabled: [{name: Fluence}]}}}]}`, []string{"/scheduler/extraProfiles/0/plugins/multiPoint/enabled/0/name"}},
		"arguments of Fluence in another":      {`scheduler: {extraProfiles: [{schedulerName: a, pluginConfig: [{name: Fluence}]}]}`, []string{"/scheduler/extraProfiles/0/pluginConfig/0/name"}},
		"a profile's field not known":          {`scheduler: {extraProfiles: [{schedulerName: a, plugns: {}}]}`, []string{"/scheduler/extraProfiles/0", "plugns"}},
		"a profile that sorts":                 {`scheduler: {extraProfiles: [{schedulerName: a, plugins: {queueSort: {}}}]}`, []string{"/scheduler/extraProfiles/0/plugins", "queueSort"}},
		"a profile without a name":             {`scheduler: {extraProfiles: [{plugins: {}}]}`, []string{"/scheduler/extraProfiles/0", "schedulerName"}},
		"a configuration that is made":         {`scheduler: {config: {profiles: []}}`, []string{"/scheduler/config", "profiles"}},
		"a configuration not known":            {`scheduler: {config: {foo: 1}}`, []string{"/scheduler/config", "foo"}},
		"a share of nodes that is no number":   {`scheduler: {config: {percentageOfNodesToScore: x}}`, []string{"/scheduler/config/percentageOfNodesToScore"}},
		"a first wait longer than the longest": {`scheduler: {config: {podInitialBackoffSeconds: 11}}`, []string{"scheduler.config.podInitialBackoffSeconds: 11", "podMaxBackoffSeconds, 10"}},
		"no time to ask":                       {`scheduler: {args: {maxAsk: 0s}}`, []string{"/scheduler/args/maxAsk", "0s"}},
		"names of nobody":                      {`scheduler: {args: {tellNames: none}}`, []string{"/scheduler/args/tellNames", "own"}},
		"whole nodes for some":                 {`scheduler: {args: {wholeNodes: some}}`, []string{"/scheduler/args/wholeNodes", "labelled"}},
		"seats for some":                       {`scheduler: {args: {expect: some}}`, []string{"/scheduler/args/expect", "labelled"}},
		"seats that end before their time":     {`scheduler: {args: {expectTimeout: 31m}}`, []string{"scheduler.args.expectTimeout", "31m", "expectTotal", "30m"}},
		"seats for no duration":                {`scheduler: {args: {expectTotal: long}}`, []string{"/scheduler/args/expectTotal", "long"}},
		"no binds at a time":                   {`scheduler: {args: {maxBinds: 0}}`, []string{"/scheduler/args/maxBinds", "0"}},
		"less than no binds":                   {`scheduler: {args: {maxBinds: -1}}`, []string{"/scheduler/args/maxBinds", "-1"}},
		"binds that are no number":             {`scheduler: {args: {maxBinds: x}}`, []string{"/scheduler/args/maxBinds", "integer"}},
		"some events":                          {`scheduler: {args: {podEvents: some}}`, []string{"/scheduler/args/podEvents", "deferred", "always"}},
		"a reservation of no length":           {`scheduler: {args: {maxReserve: 30s}}`, []string{"scheduler.args.maxReserve", "30s", "1m"}},
		"a reservation of hardly any length":   {`scheduler: {args: {maxReserve: 59s500ms}}`, []string{"scheduler.args.maxReserve", "59s500ms", "1m"}},
		"a reservation of milliseconds":        {`scheduler: {args: {maxReserve: 0m59999ms}}`, []string{"scheduler.args.maxReserve", "59999ms", "1m"}},
		"a handover that is too long":          {`scheduler: {args: {handover: 10s1ms}}`, []string{"scheduler.args.handover", "10s1ms", "10s"}},
		"a preemption of some":                 {`scheduler: {args: {preemption: {mode: Some}}}`, []string{"/scheduler/args/preemption/mode", "LowerPriority"}},
		"a delay of evictions that is none":    {`scheduler: {args: {preemption: {delay: long}}}`, []string{"/scheduler/args/preemption/delay", "long"}},
		"a reservation that is no duration":    {`scheduler: {args: {maxReserve: long}}`, []string{"/scheduler/args/maxReserve", "long"}},
		"a time that no clock holds":           {`scheduler: {args: {maxBypass: 9999999h}}`, []string{"/scheduler/args/maxBypass"}},
		"a level with an empty part":           {`scheduler: {args: {topologyLevels: [a..b/c]}}`, []string{"/scheduler/args/topologyLevels/0", "a..b/c"}},
		"a level too long for a label":         {`scheduler: {args: {topologyLevels: [` + strings.Repeat("a", 64) + `]}}`, []string{"/scheduler/args/topologyLevels/0"}},
		"a flag without dashes":                {`scheduler: {extraArgs: [v=4]}`, []string{"/scheduler/extraArgs/0", "v=4"}},
		"a scheduler that logs keys":           {`scheduler: {verbosity: 7}`, []string{"/scheduler/verbosity", "maximum", "6"}},
		"a controller that logs keys":          {`controller: {verbosity: 8}`, []string{"/controller/verbosity", "maximum", "6"}},
		"a sidecar that logs too much":         {`sidecar: {verbosity: 7}`, []string{"/sidecar/verbosity", "maximum", "6"}},
		"less than no log":                     {`scheduler: {verbosity: -1}`, []string{"/scheduler/verbosity", "minimum"}},
		"a verbosity beside the bounded one":   {`scheduler: {extraArgs: [--profiling=false, --v=10]}`, []string{"scheduler.extraArgs[1]", `"--v=10"`, "set scheduler.verbosity"}},
		"a verbosity whose value is apart":     {`controller: {extraArgs: [--v]}`, []string{"controller.extraArgs[0]", `"--v"`, "set controller.verbosity"}},
		"a verbosity of one dash":              {`controller: {extraArgs: [-v10]}`, []string{"controller.extraArgs[0]", `"-v10"`, "set controller.verbosity"}},
		"a verbosity of the sidecar":           {`sidecar: {extraArgs: [-v=9]}`, []string{"sidecar.extraArgs[0]", `"-v=9"`, "set sidecar.verbosity"}},
		"a verbosity of single files":          {`scheduler: {extraArgs: ["--vmodule=*=10"]}`, []string{"scheduler.extraArgs[0]", "--vmodule", "set scheduler.verbosity"}},
		"the name of the default scheduler":    {`schedulerName: default-scheduler`, []string{"/schedulerName"}},
		"a scheduler's name in capitals":       {`schedulerName: Fluence`, []string{"/schedulerName", "Fluence"}},
		"an incomplete group of no time":       {`controller: {incompleteTimeout: 0s}`, []string{"/controller/incompleteTimeout"}},
		"a webhook's failure policy":           {`webhook: {failurePolicy: Retry}`, []string{"/webhook/failurePolicy", "Ignore"}},
		"a webhook that takes for ever":        {`webhook: {timeoutSeconds: 31}`, []string{"/webhook/timeoutSeconds", "30"}},
		"a webhook where the metrics are":      {`webhook: {port: 8443}`, []string{"/webhook/port"}},
		"a port that there is not":             {`webhook: {port: 70000}`, []string{"/webhook/port", "65,535"}},
		"a selector that is a list":            {`webhook: {namespaceSelector: [a]}`, []string{"/webhook/namespaceSelector"}},
		"a selector of no values":              {`webhook: {namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}`, []string{"/webhook/namespaceSelector/matchExpressions/0", "values"}},
		"a selector by what is no label":       {`webhook: {namespaceSelector: {matchLabels: {"a b": c}}}`, []string{"/webhook/namespaceSelector/matchLabels", "a b"}},
		"an amount that is none":               {`controller: {resources: {requests: {cpu: abc}}}`, []string{"/controller/resources/requests/cpu", "abc"}},
		"less than nothing":                    {`sidecar: {resources: {limits: {memory: -1}}}`, []string{"/sidecar/resources/limits/memory"}},
		"a bound that nobody keeps":            {`tenantPolicy: {maxGroupSize: 0}`, []string{"/tenantPolicy/maxGroupSize", "0"}},
		"a bound above all groups":             {`tenantPolicy: {maxGroupSize: 100001}`, []string{"/tenantPolicy/maxGroupSize", "maximum"}},
		"less than no terms":                   {`tenantPolicy: {maxAntiAffinityTerms: -1}`, []string{"/tenantPolicy/maxAntiAffinityTerms", "-1"}},
		"less than no spreads":                 {`tenantPolicy: {maxSpreadConstraints: -1}`, []string{"/tenantPolicy/maxSpreadConstraints", "-1"}},
		"bounds of no effect":                  {`tenantPolicy: {action: Ignore}`, []string{"/tenantPolicy/action", "Audit"}},
		"tenants by what is no label":          {`tenantPolicy: {namespaces: {matchLabels: {"a'b": c}}}`, []string{"/tenantPolicy/namespaces/matchLabels", "ab"}},
		"restarts by a selector of no values":  {`tenantPolicy: {restartNamespaces: {matchExpressions: [{key: a, operator: In}]}}`, []string{"/tenantPolicy/restartNamespaces/matchExpressions/0", "values"}},
		"a resource that there is not":         {`controller: {resources: {requests: {cpus: 1}}}`, []string{"/controller/resources/requests", "cpus"}},
		"a toleration of no kind":              {`tolerations: [{operator: Foo}]`, []string{"/tolerations/0/operator", "Exists"}},
		"a node's label that is none":          {`nodeSelector: {"a b": c}`, []string{"/nodeSelector", "a b"}},
		"a pod's label that is none":           {`podLabels: {a: c d}`, []string{"/podLabels/a", "c d"}},
		"an annotation that is none":           {`podAnnotations: {"a b": c}`, []string{"/podAnnotations", "a b"}},
		"a security context misspelt":          {`podSecurityContext: {runAsUsr: 5}`, []string{"/podSecurityContext", "runAsUsr"}},
		"a spread of no skew":                  {`topologySpreadConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]`, []string{"/topologySpreadConstraints/0/maxSkew"}},
		"a peer of no network":                 {`networkPolicy: {metricsFrom: [{ipBlock: {cidr: foo}}]}`, []string{"/networkPolicy/metricsFrom/0/ipBlock/cidr", "foo"}},
		"metrics for everybody":                {`metrics: {enabled: true}`, []string{"networkPolicy.metricsFrom", "metrics.enabled"}},
		"a webhook for a peer of no network":   {`networkPolicy: {webhookFrom: [{ipBlock: {cidr: foo}}]}`, []string{"/networkPolicy/webhookFrom/0/ipBlock/cidr"}},
		"alerts on nothing":                    {`prometheusRule: {enabled: true}`, []string{"prometheusRule.enabled", "metrics.enabled"}},
		"a monitor of nothing":                 {`serviceMonitor: {enabled: true}`, []string{"serviceMonitor.enabled", "metrics.enabled"}},
		"a class that Kubernetes owns":         {`priorityClass: {create: true}`, []string{"priorityClassName", "system-cluster-critical"}},
		"a class above all others":             {"priorityClassName: mine\npriorityClass: {create: true, value: 2000000000}", []string{"/priorityClass/value", "maximum"}},
		"a share of more than all":             {`podDisruptionBudget: {maxUnavailable: 101%}`, []string{"/podDisruptionBudget/maxUnavailable"}},
		"a peer that is nobody":                {`networkPolicy: {metricsFrom: [{}]}`, []string{"/networkPolicy/metricsFrom/0"}},
		"flow control switched off amiss":      {`flowSchemas: {enable: false}`, []string{"/flowSchemas", "enable"}},
		"flow control taken away":              {`flowSchemas: false`, []string{"/flowSchemas"}},
		"yes for true":                         {`crds: {install: "yes"}`, []string{"/crds/install"}},
		"an image's tag that is none":          {`image: {registry: r.example.com, tag: "a b"}`, []string{"/image/tag", "a b"}},
		"a digest that is none":                {`image: {registry: r.example.com, digest: abc}`, []string{"/image/digest", "abc"}},
		"a registry with a scheme":             {`image: {registry: "https://r.example.com"}`, []string{"/image/registry", "https://r.example.com"}},
		"a limit where requests and limits go": {`controller: {resources: {cpu: 1}}`, []string{"/controller/resources", "cpu"}},
	}
	// Not the folder of a case, because Helm takes a comma in a path for its end.
	dir := t.TempDir()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "values.yaml")
			if err := os.WriteFile(file, []byte(tc.values), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"--values", file}
			if !strings.Contains(tc.values, "registry:") {
				args = append(args, "--set", registry)
			}
			out, err := template(t, args...)
			if err == nil {
				t.Fatalf("it was rendered:\n%s", out)
			}
			says := strings.ReplaceAll(err.Error(), "'", "")
			for _, want := range tc.want {
				if !strings.Contains(says, want) {
					t.Errorf("it says nothing of %q:\n%s", want, says)
				}
			}
		})
	}
}

// A cluster that is too old, or newer than the tested versions, is refused with its version.
func TestRefusedVersions(t *testing.T) {
	for version, ok := range map[string]bool{"v1.36.9": false, "v1.37.0": true, "v1.37.1-gke.5": true, "v1.38.2": true, "v1.39.0": false} {
		_, err := template(t, "--set", registry, "--kube-version", version)
		if (err == nil) != ok {
			t.Errorf("Kubernetes %s: %v", version, err)
		}
		if err != nil && !strings.Contains(err.Error(), version) {
			t.Errorf("Kubernetes %s is refused without its version: %v", version, err)
		}
	}
}
