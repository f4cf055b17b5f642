package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

func TestQueueCommands(t *testing.T) {
	all := func() []runtime.Object { return slices.Concat(batch(), queues()[1:]) }
	cases := map[string]call{
		"queues are listed":                              {args: "queues", objects: all()},
		"queues with what is wrong with them":            {args: "queues -o wide", objects: all()},
		"a queue as yaml":                                {args: "queues batch -o yaml", objects: all()},
		"queues as names":                                {args: "queues -o name --no-headers", objects: all()},
		"queues of which two are the default":            {args: "queues -o wide", objects: defaults()},
		"a queue of which two are the default as yaml":   {args: "queues late -o yaml", objects: defaults()},
		"a queue that there is not":                      {args: "queues fast", objects: all(), want: ExitError},
		"queues whose jobs may not be read":              {args: "queues", objects: all(), forbidden: []string{"fluxjobs"}},
		"no queues":                                      {args: "queues"},
		"queues without the CRD":                         {args: "queues", without: []string{"queues"}, want: ExitError},
		"jobs are listed":                                {args: "jobs", objects: all()},
		"jobs with those that have ended":                {args: "jobs --all -q batch", objects: all()},
		"jobs with their places and nodes":               {args: "jobs -A -o wide", objects: all()},
		"jobs by their names":                            {args: "jobs past job/solver past", objects: all()},
		"a job by its name that is in no queue":          {args: "jobs free", objects: all(), want: ExitError},
		"a job by its name in all namespaces":            {args: "jobs -A solver", objects: all(), want: ExitError},
		"a job in a queue as yaml":                       {args: "jobs -q batch -o yaml", objects: promisedAlone()},
		"jobs where queues may not be read":              {args: "jobs --no-headers", objects: all(), forbidden: []string{"queues"}},
		"jobs of a queue without any":                    {args: "jobs -q debug", objects: all()},
		"jobs of a queue that there is not":              {args: "jobs -q fast", objects: all(), want: ExitError},
		"jobs without the CRD":                           {args: "jobs", without: []string{"fluxjobs"}, want: ExitError},
		"why a job in a queue waits":                     {args: "why sweep", objects: all(), want: ExitNo},
		"why a job in a queue waits as json":             {args: "why job/training -o json", objects: all(), want: ExitNo},
		"why a job in a queue waits asked now":           {args: "why sweep --now", objects: all(), want: ExitNo},
		"why a job waits named for its FluxJob":          {args: "why " + fluxJob("Job", "vast", 0).Name, objects: all(), want: ExitNo},
		"why a job that is held waits":                   {args: "why fj/" + fluxJob("Job", "kept", 0).Name, objects: all(), want: ExitNo},
		"why a job that may not take so long waits":      {args: "why long", objects: all(), want: ExitNo},
		"why a pod in a queue waits":                     {args: "why pod/single", objects: all(), want: ExitNo},
		"why of a job of a queue that runs":              {args: "why solver", objects: all()},
		"why of a job of a queue that has ended":         {args: "why past", objects: all()},
		"why a job without a FluxJob waits":              {args: "why sweep", objects: all(), without: []string{"fluxjobs"}, want: ExitNo},
		"why a job waits where FluxJobs may not be read": {args: "why free", objects: all(), forbidden: []string{"fluxjobs"}, want: ExitNo},
		"groups of which some wait in a queue":           {args: "groups", objects: all()},
		"why a job waits where queues may not be read":   {args: "why training", objects: all(), forbidden: []string{"queues"}, want: ExitNo},
		"jobs that ask for more time":                    {args: "jobs", objects: asksForMore()},
		"why of a job that asks for more time":           {args: "why over", objects: asksForMore()},
		"why of a pod that asks for more time":           {args: "why pod/single", objects: asksForMore()},
		"when a job starts that is promised room":        {args: "when training", objects: all()},
		"when a job behind a promise starts":             {args: "when sweep", objects: all()},
		"when a group starts beside promises of queues":  {args: "when -f -", stdin: manifest("large", 4, "6"), objects: append(timed("16m"), justFluxJobs(batch())...)},
		"when a job starts where queues are hidden":      {args: "when sweep", objects: all(), forbidden: []string{"queues"}, want: ExitNo},
		"when a job behind a promise starts as json":     {args: "when sweep -o json", objects: all()},
		"when a job starts that is held":                 {args: "when kept", objects: all(), want: ExitNo},
		"when a job of a file with a queue starts":       {args: "when -f -", stdin: inBatch(), objects: all()},
		"when a pod in a queue starts":                   {args: "when pod/single", objects: all()},
		"when a job of a queue starts that runs":         {args: "when solver", objects: all()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.compare(t, name) })
	}
}

// Each of these commands is one write of the object that is named, and none if there is nothing to do.
func TestCommandsThatChangeJobs(t *testing.T) {
	cases := map[string]call{
		"a job is held":                   {args: "hold sweep", objects: batch()},
		"a job is held that is held":      {args: "hold kept", objects: batch()},
		"jobs are held of which one runs": {args: "hold job/solver pod/single", objects: batch(), want: ExitError},
		"a job is held that starts meanwhile": {args: "hold sweep", objects: batch(), want: ExitError, meanwhile: func(o runtime.Object) {
			started("node-3", 0, time.Hour)(o.(*v1alpha1.FluxJob))
		}},
		"a job is held that is in no queue":             {args: "hold free", objects: batch(), want: ExitError},
		"a job is held that there is not":               {args: "hold nobody", objects: batch(), want: ExitError},
		"a job is held by who may not":                  {args: "hold sweep", objects: batch(), readOnly: []string{"fluxjobs"}, want: ExitError},
		"nothing is held":                               {args: "hold", want: ExitError},
		"a job is released":                             {args: "release kept", objects: batch()},
		"a job is released that is not held":            {args: "release sweep", objects: batch()},
		"a job is released that its user has suspended": {args: "release sleeper", objects: sleeper()},
		"a job is held that its user has suspended":     {args: "hold sleeper", objects: sleeper(), want: ExitError},
		"a job is cancelled":                            {args: "cancel solver", objects: batch()},
		"a pod is cancelled by its FluxJob":             {args: "cancel " + fluxJob("Pod", "single", 0).Name, objects: batch()},
		"a job is cancelled that has ended":             {args: "cancel past", objects: batch()},
		"a job is cancelled that is in no queue":        {args: "cancel free", objects: batch(), want: ExitError},
		"a job is cancelled by who may not":             {args: "cancel solver", objects: batch(), readOnly: []string{"jobs"}, want: ExitError},
		"all work leaves the queues":                    {args: "release --all", objects: batch()},
		"all work leaves to a scheduler":                {args: "release --all", objects: append(batch(), lease("fluence-scheduler", time.Second))},
		"all work leaves without the CRDs":              {args: "release --all", objects: batch(), without: []string{"fluxjobs", "queues"}},
		"all work of a namespace without any":           {args: "release --all -n other", objects: batch()},
		"all work leaves but for what is refused":       {args: "release --all", objects: batch(), readOnly: []string{"pods"}, want: ExitError},
		"all work leaves by who may not list it":        {args: "release --all", objects: batch(), forbidden: []string{"jobs"}, want: ExitError},
		"all work and a name":                           {args: "release --all sweep", objects: batch(), want: ExitError},
	}
	for name, tc := range cases {
		tc.writable = true
		t.Run(name, func(t *testing.T) { tc.compare(t, name) })
	}
}

func TestCompletionOfJobs(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"jobs":              {"__complete hold --kubeconfig KUBECONFIG job/s", "job/short\njob/solver\njob/sweep\n:4"},
		"jobs not yet said": {"__complete cancel --kubeconfig KUBECONFIG job/solver job/so", ":4"},
		"jobs for why":      {"__complete why --kubeconfig KUBECONFIG pod/s", "pod/single\n:4"},
		"queues":            {"__complete jobs --kubeconfig KUBECONFIG -q b", "batch\n:4"},
		"queues by name":    {"__complete queues --kubeconfig KUBECONFIG b", "batch\n:4"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, code := call{args: tc.args, objects: batch(), completes: true}.run(t)
			if code != ExitYes || !strings.HasPrefix(out, tc.want) {
				t.Errorf("exit code %d, want %q in:\n%s%s", code, tc.want, out, errOut)
			}
		})
	}
}

// sleeper is a Job of the queue batch that was created suspended. The controller makes no FluxJob of it.
func sleeper() []runtime.Object {
	j, _ := inQueue(job("sleeper"), 1, "1", time.Hour)
	j.Annotations, j.ResourceVersion = nil, "7"
	return []runtime.Object{j, queues()[0]}
}

// promisedAlone is the queue batch with one job.
func promisedAlone() []runtime.Object {
	all := batch()
	return slices.DeleteFunc(all, func(o runtime.Object) bool {
		return !strings.Contains(fmt.Sprintf("%T", o), "Queue") && !strings.Contains(fmt.Sprintf("%v", o), "training")
	})
}

// justFluxJobs returns the FluxJobs and Queues among some objects.
func justFluxJobs(all []runtime.Object) []runtime.Object {
	return slices.DeleteFunc(all, func(o runtime.Object) bool {
		switch o.(type) {
		case *v1alpha1.FluxJob, *v1alpha1.Queue:
			return false
		}
		return true
	})
}

// inBatch is the manifest of a Job of the queue batch.
func inBatch() string {
	return strings.Replace(manifest("x", 1, "1"), "name: x", "name: x\n  labels: {fluence.flux-framework.org/queue: batch}", 1)
}
