package v1alpha1_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/fsd"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
)

// manifests is the folder of manifests, from here.
var manifests = filepath.Join("..", "..", "..", "..", "manifests")

// An env is an API server with the CRDs of this package.
type env struct {
	*testing.T
	*cluster.Cluster
	ctx context.Context
}

// An object is one of a type of this package, as YAML.
type object struct{ resource, name, body string }

// A Queue and a FluxJob with what a test adds to their specs.
func queue(name, spec string) object {
	return object{"queues", name, fmt.Sprintf("apiVersion: fluence.flux-framework.org/v1alpha1\nkind: Queue\nmetadata: {name: %s}\nspec: %s\n", name, spec)}
}

func fluxJob(name, spec string) object {
	return object{"fluxjobs", name, fmt.Sprintf("apiVersion: fluence.flux-framework.org/v1alpha1\nkind: FluxJob\nmetadata: {name: %s, namespace: default}\nspec: {%s}\n", name, spec)}
}

// asks is what every FluxJob needs.
const asks = "queue: batch, jobspec: x, pods: 2, workload: {apiVersion: batch/v1, kind: Job, name: solver, uid: u1}"

// edited is asks with one field that is another, or one more.
func edited(field, value string) string {
	spec := map[string]string{"queue": "batch", "jobspec": "x", "pods": "2", "workload": "{apiVersion: batch/v1, kind: Job, name: solver, uid: u1}"}
	spec[field] = value
	var fields []string
	for name, value := range spec {
		fields = append(fields, name+": "+value)
	}
	return strings.Join(fields, ", ")
}

// as returns a client of a user. It is one with all rights if user is empty.
func (e *env) as(user string) rest.Interface {
	e.Helper()
	config := e.RESTConfig()
	if user != "" {
		var err error
		if config, err = e.RESTConfigFor(user); err != nil {
			e.Fatal(err)
		}
	}
	client, err := v1alpha1.RESTClientFor(config)
	if err != nil {
		e.Fatal(err)
	}
	return client
}

// request fills in which object a request is for.
func (o object) request(r *rest.Request, part ...string) *rest.Request {
	return r.NamespaceIfScoped("default", o.resource == "fluxjobs").Resource(o.resource).SubResource(part...)
}

// create creates an object, or asks whether it could be.
func (e *env) create(o object, dry bool) error {
	r := o.request(e.as("").Post())
	if dry {
		r.Param("dryRun", "All")
	}
	return r.SetHeader("Content-Type", "application/yaml").Param("fieldValidation", "Strict").Body([]byte(o.body)).Do(e.ctx).Error()
}

// patch merges JSON into an object, or into a part of it, as a user.
func (e *env) patch(user string, o object, body string, part ...string) error {
	return o.request(e.as(user).Patch(types.MergePatchType), part...).Name(o.name).Body([]byte(body)).Do(e.ctx).Error()
}

// mustCreate creates an object.
func (e *env) mustCreate(o object) {
	e.Helper()
	if err := e.create(o, false); err != nil {
		e.Fatal(err)
	}
}

// get reads an object.
func (e *env) get(o object, into runtime.Object) {
	e.Helper()
	if err := o.request(e.as("").Get()).Name(o.name).Do(e.ctx).Into(into); err != nil {
		e.Fatal(err)
	}
}

func (e *env) kubectl(args ...string) {
	e.Helper()
	if _, _, err := e.Kubectl(e.ctx, args...); err != nil {
		e.Fatal(err)
	}
}

// until waits until there is no error. The authorizer of the API server learns of new roles by a watch.
func (e *env) until(what string, try func() error) {
	e.Helper()
	eventually.True(e.ctx, e, what, func(context.Context) (bool, string) {
		err := try()
		return err == nil, fmt.Sprint(err)
	})
}

// json encodes an object as JSON, which is YAML too.
func (e *env) json(of any) string {
	e.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		e.Fatal(err)
	}
	return string(text)
}

// refused checks that an error has a text.
func (e *env) refused(what string, err error, want string) {
	e.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		e.Errorf("%s: %v, want an error with\n%s", what, err, want)
	}
}

func TestOnAnAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // the first start builds
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
	for _, path := range []string{"crds", "viewer.yaml"} {
		if _, _, err := c.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(manifests, path)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitCRDs(ctx); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*env){
		"bad Queues":                         badQueues,
		"good Queues":                        goodQueues,
		"bad FluxJobs":                       badFluxJobs,
		"durations":                          durations,
		"what of a FluxJob stays":            stays,
		"defaults":                           defaults,
		"all fields are kept":                kept,
		"columns":                            columns,
		"what users may do with FluxJobs":    rightsToFluxJobs,
		"what users may do with Queues":      rightsToQueues,
		"a status is written as such":        statuses,
		"the example of a queue can be made": example,
	} {
		t.Run(name, func(t *testing.T) { test(&env{t, c, ctx}) })
	}
}

func badQueues(e *env) {
	for name, tc := range map[string]struct{ spec, want string }{
		"an unknown policy":        {"{policy: hybrid}", `spec.policy: Unsupported value: "hybrid": supported values: "fcfs", "easy"`},
		"a priority out of bounds": {"{priority: 1000000001}", "spec.priority: Invalid value: 1000000001"},
		"an unknown field":         {"{limits: {jobSize: {max: {pod: 1}}}}", `unknown field "spec.limits.jobSize.max.pod"`},
		"a default over the limit": {"{defaults: {duration: 1.5h}, limits: {duration: 80m}}",
			`spec.defaults.duration: Invalid value: "1.5h": must not be more than spec.limits.duration, "80m"`},
		"no limit by default, where there is one": {"{defaults: {duration: infinity}, limits: {duration: 36500d}}",
			`spec.defaults.duration: Invalid value: "infinity": must not be more than spec.limits.duration, "36500d"`},
		"a negative limit of jobs":          {"{limits: {pending: -1}}", "spec.limits.pending: Invalid value: -1"},
		"a limit of too many jobs":          {"{limits: {pending: 1000001}}", "spec.limits.pending: Invalid value: 1000001"},
		"a negative limit of running jobs":  {"{limits: {running: -1}}", "spec.limits.running: Invalid value: -1"},
		"a negative limit of a namespace":   {"{limits: {perNamespace: {running: -1}}}", "spec.limits.perNamespace.running: Invalid value: -1"},
		"jobs of no pod":                    {"{limits: {jobSize: {max: {pods: 0}}}}", "spec.limits.jobSize.max.pods: Invalid value: 0"},
		"a negative amount":                 {"{limits: {requests: {memory: 1Gi, cpu: -1}}}", "spec.limits.requests: Invalid value: cpu: must not be negative"},
		"a negative amount of a job":        {"{limits: {jobSize: {max: {requests: {cpu: -500m}}}}}", "spec.limits.jobSize.max.requests: Invalid value: cpu: must not be negative"},
		"an amount that is none":            {"{limits: {requests: {cpu: many}}}", `spec.limits.requests.cpu: Invalid value: "many"`},
		"an unknown operator":               {"{requires: {matchExpressions: [{key: a, operator: Like}]}}", "spec.requires: Invalid value: matchExpressions: an operator must be In"},
		"an operator without values":        {"{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}", "spec.namespaceSelector: Invalid value: matchExpressions: an operator must be In"},
		"an operator with values":           {"{defaultFor: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}", "spec.defaultFor: Invalid value: matchExpressions: an operator must be In"},
		"a grace that is longer than a day": {"{grace: 25h}", `spec.grace: Invalid value: "25h": must be a Flux Standard Duration such as 30s or 2m, at most 1d`},
		"a negative grace":                  {"{grace: -1s}", `spec.grace: Invalid value: "-1s": must be a Flux Standard Duration`},
		"a grace without an end":            {"{grace: inf}", `spec.grace: Invalid value: "inf": must be a Flux Standard Duration`},
	} {
		e.refused(name, e.create(queue("q", tc.spec), true), tc.want)
	}
	long := strings.Repeat("q", 64)
	e.refused("a name that is no value of a label", e.create(queue(long, "{}"), true), `metadata.name: "`+long+`": must be at most 63 characters`)
	e.refused("no spec", e.create(object{"queues", "q", strings.Replace(queue("q", "").body, "spec: ", "", 1)}, true), "spec: Required value")
}

func goodQueues(e *env) {
	for name, spec := range map[string]string{
		"all by default":          "{}",
		"no limit of time":        "{limits: {duration: inf}, defaults: {duration: 400d}}",
		"a default of the limit":  "{limits: {duration: 1d}, defaults: {duration: 24h}}",
		"no grace":                "{grace: 0s}",
		"no job is taken or runs": "{limits: {pending: 0, running: 0}}",
		"selectors": "{requires: {matchLabels: {a: b}}, namespaceSelector: {}, defaultFor: {matchExpressions: " +
			"[{key: a, operator: In, values: [b, c]}, {key: b, operator: NotIn, values: [c]}, {key: c, operator: Exists}, {key: d, operator: DoesNotExist}]}}",
	} {
		if err := e.create(queue("q", spec), true); err != nil {
			e.Errorf("%s: %v", name, err)
		}
	}
	if err := e.create(queue(strings.Repeat("q", 63), "{}"), true); err != nil {
		e.Errorf("a name of 63 characters: %v", err)
	}
}

func badFluxJobs(e *env) {
	for name, tc := range map[string]struct{ field, value, want string }{
		"no queue":                        {"queue", `""`, "spec.queue: Invalid value"},
		"a queue with a long name":        {"queue", strings.Repeat("q", 64), "spec.queue: Too long: may not be more than 63"},
		"no jobspec":                      {"jobspec", `""`, "spec.jobspec: Invalid value"},
		"a jobspec over 64 KiB":           {"jobspec", strings.Repeat("x", 65537), "spec.jobspec: Too long: may not be more than 65536"},
		"no pod":                          {"pods", "0", "spec.pods: Invalid value: 0"},
		"too many pods":                   {"pods", "100001", "spec.pods: Invalid value: 100001"},
		"a priority above the highest":    {"priority", "2000001001", "spec.priority: Invalid value: 2000001001"},
		"a priority below the lowest":     {"priority", "-2147483649", "spec.priority: Invalid value: -2147483649"},
		"a negative duration":             {"duration", "-1s", `spec.duration: Invalid value: "-1s": must be a Flux Standard Duration`},
		"a duration that is none":         {"duration", "x", `spec.duration: Invalid value: "x": must be a Flux Standard Duration`},
		"a duration of 30,000 years":      {"duration", "'1e12'", `spec.duration: Invalid value: "1e12": must be a Flux Standard Duration`},
		"a workload of another kind":      {"workload", "{apiVersion: apps/v1, kind: Deployment, name: d, uid: u1}", `kind: "Deployment" of "apps/v1": must be Job of batch/v1 or Pod of v1`},
		"a workload of another group":     {"workload", "{apiVersion: v1, kind: Job, name: d, uid: u1}", `kind: "Job" of "v1": must be Job of batch/v1 or Pod of v1`},
		"a workload without a UID":        {"workload", "{apiVersion: v1, kind: Pod, name: p}", "spec.workload.uid: Required value"},
		"a workload with an empty UID":    {"workload", "{apiVersion: v1, kind: Pod, name: p, uid: ''}", "spec.workload.uid: Invalid value"},
		"a request that is no amount":     {"requests", "{cpu: many}", `spec.requests.cpu: Invalid value: "many"`},
		"more resources than there are":   {"requests", "{" + strings.TrimPrefix(manyKeys(65), ", ") + "}", "spec.requests: Too many: 65: must have at most 64 items"},
		"more annotations than there are": {"placement", "{" + strings.TrimPrefix(manyKeys(17), ", ") + "}", "spec.placement: Too many: 17: must have at most 16 items"},
	} {
		e.refused(name, e.create(fluxJob("j", edited(tc.field, tc.value)), true), tc.want)
	}
}

// manyKeys returns a number of keys with a value.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", k%d: '1'", i)
	}
	return b.String()
}

// The API server and package fsd take the same texts for time limits.
func durations(e *env) {
	for _, text := range []string{
		"90", "1.5", "250ms", "30s", "30m", "2h", "1.5d", ".5h", "5.h", "1e3s", "1E3", "1e-3d", "inf", "INFINITY", "Inf", "36500d", "3153600000", "1e+05s",
		"s", "x", "-1s", "+1s", "1 h", "1h30m", "0x10s", "1_0s", "nan", "infs", "1w", "1e12d", "9223372037", "1e400", "1H", "0", "0s", "0.0d", "36501d", "1e", "e3", ".", "..5", "1e9d",
	} {
		_, err := fsd.ParseLimit("spec.duration", text)
		ours := e.create(fluxJob("j", edited("duration", strconv.Quote(text))), true)
		if (err == nil) != (ours == nil) {
			e.Errorf("duration %q: the schema says %v, package fsd %v", text, ours, err)
		}
		ofQueue := e.create(queue("q", fmt.Sprintf("{limits: {duration: %[1]q}, defaults: {duration: %[1]q}}", text)), true)
		if (err == nil) != (ofQueue == nil) {
			e.Errorf("duration %q of a queue: the schema says %v, package fsd %v", text, ofQueue, err)
		}
	}
}

// stays checks that only the duration and the hold of a FluxJob change.
func stays(e *env) {
	j := fluxJob("stays", asks+", requests: {cpu: 1}, nodes: {selector: {a: b}}, placement: {a: b}")
	e.mustCreate(j)
	for change, want := range map[string]string{
		`{"queue": "other"}`:                        `spec.queue: Invalid value: "other": must stay "batch": a job does not change its queue`,
		`{"pods": 1}`:                               "spec.pods: Invalid value: 1: must stay as it is",
		`{"jobspec": "y"}`:                          `spec.jobspec: Invalid value: "y": must stay as it is`,
		`{"workload": {"uid": "u2"}}`:               `spec.workload: Invalid value: Job "solver" (UID u2): must stay Job "solver" (UID u1)`,
		`{"priority": 1000}`:                        "spec.priority: Invalid value: 1000: must stay the priority of the pods",
		`{"requests": {"cpu": "1m"}}`:               "spec.requests: Invalid value: must stay as they are",
		`{"requests": null}`:                        "spec.requests: Invalid value: must stay as they are",
		`{"nodes": {"selector": {"a": "c"}}}`:       "spec.nodes: Invalid value: must stay as they are",
		`{"nodes": null}`:                           "spec.nodes: Invalid value: must stay as they are",
		`{"placement": {"a": "c"}}`:                 "spec.placement: Invalid value: must stay as it is",
		`{"placement": {"c": "d"}}`:                 "spec.placement: Invalid value: must stay as it is",
		`{"held": true, "duration": "1.5x"}`:        `spec.duration: Invalid value: "1.5x"`,
		`{"held": true, "duration": "5m"}`:          "",
		`{"duration": null}`:                        "",
		`{"held": false, "duration": "inf"}`:        "",
		`{"requests": {"cpu": 1}, "held": true}`:    "",
		`{"nodes": {"tolerations": [{"key":"a"}]}}`: "spec.nodes: Invalid value: must stay as they are",
	} {
		err := e.patch("", j, `{"spec": `+change+`}`)
		if want == "" && err != nil {
			e.Errorf("%s: %v", change, err)
		}
		if want != "" {
			e.refused(change, err, want)
		}
	}
}
