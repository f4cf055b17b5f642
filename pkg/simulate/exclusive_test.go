package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// jobSet returns a JobSet of n Jobs with some pods of 2 CPUs each. annotations are those of the JobSet, and
// ofJob those of its replicated Job.
func jobSet(name string, n, pods int, annotations, ofJob string) string {
	return fmt.Sprintf(`apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: %s, annotations: {%s}}
spec:
  replicatedJobs:
  - name: w
    replicas: %d
    template:
      metadata: {annotations: {%s}}
      spec: {parallelism: %d, completions: %d, template: {spec: {schedulerName: fluence, restartPolicy: Never, containers: [{name: c, image: i, resources: {limits: {cpu: "2"}}}]}}}
`, name, annotations, n, ofJob, pods, pods)
}

// unitsOf returns a LeaderWorkerSet of n units of two pods of 2 CPUs each.
func unitsOf(n int, annotations string) string {
	return fmt.Sprintf("apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: l, annotations: {%s}}\nspec:\n  replicas: %d\n  leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {schedulerName: fluence, containers: [{name: c, image: i, resources: {limits: {cpu: \"2\"}}}]}}}", annotations, n)
}

const (
	rackForEach = "alpha.jobset.sigs.k8s.io/exclusive-topology: rack"
	rackForUnit = "leaderworkerset.sigs.k8s.io/exclusive-topology: rack"
)

// With exclusive placement each Job of a JobSet, and each unit of a LeaderWorkerSet, has a domain for itself.
// The cluster has two racks of two nodes, and each node has room for two pods.
func TestExclusivePlacementIsSimulated(t *testing.T) {
	cases := map[string]struct {
		text string
		// unlabelled says that the nodes are in no rack.
		unlabelled bool
		// want has the nodes of each group, or the beginning of its refusal.
		want []string
	}{
		"without it two Jobs share a rack":           {text: jobSet("s", 2, 2, "", ""), want: []string{"starts s#w#0@n0 s#w#1@n0 s#w#2@n1 s#w#3@n1"}},
		"two Jobs in two racks":                      {text: jobSet("s", 2, 2, rackForEach, ""), want: []string{"starts s#w-0#0@n0 s#w-0#1@n0 s#w-1#0@n2 s#w-1#1@n2"}},
		"two Jobs in two racks, by a replicated Job": {text: jobSet("s", 2, 2, "", rackForEach), want: []string{"starts s#w-0#0@n0 s#w-0#1@n0 s#w-1#0@n2 s#w-1#1@n2"}},
		"two Jobs of one pod in two racks":           {text: jobSet("s", 2, 1, rackForEach, ""), want: []string{"starts s#w-0#0@n2 s#w-1#0@n0"}},
		"more Jobs than racks":                       {text: jobSet("s", 3, 1, rackForEach, ""), want: []string{"waits without s#w-0#0,s#w-1#0,s#w-2#0: "}},
		"a Job that is larger than a rack":           {text: jobSet("s", 1, 5, "", rackForEach), want: []string{"waits without s#w-0#0,"}},
		"nodes in no rack":                           {text: jobSet("s", 1, 2, rackForEach, ""), unlabelled: true, want: []string{"waits without s#w-0#0,s#w-0#1: "}},
		"a JobSet beside one that has the racks":     {text: jobSet("s", 2, 1, rackForEach, "") + "---\n" + jobSet("t", 1, 1, rackForEach, ""), want: []string{"starts s#w-0#0@n2 s#w-1#0@n0", "waits without t#w-0#0: "}},
		"two units in two racks":                     {text: unitsOf(2, rackForUnit), want: []string{"starts l-0#leader#0@n0 l-0#worker#0@n0", "starts l-1#leader#0@n2 l-1#worker#0@n2"}},
		"more units than racks":                      {text: unitsOf(3, rackForUnit), want: []string{"starts l-0#leader#0@n0 l-0#worker#0@n0", "starts l-1#leader#0@n2 l-1#worker#0@n2", "waits without l-2#leader#0,l-2#worker#0: "}},
	}
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := racks()
			for _, o := range c.Objects {
				if n, ok := o.(*corev1.Node); ok && tc.unlabelled {
					delete(n.Labels, "rack")
				}
			}
			w, err := Make(parsed(t, tc.text), c, "fluence", time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			r, err := New(t.Context(), c.With(w.Cluster), shipped)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, key := range r.Groups() {
				d, err := r.Decide(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, d.line())
			}
			if len(got) != len(tc.want) {
				t.Fatalf("%q, want %q", got, tc.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) {
					t.Errorf("%s\nwant  %s", got[i], tc.want[i])
				}
			}
		})
	}
}

// What asks for a domain in a way that is wrong, or that is not simulated, is refused.
func TestExclusivePlacementThatIsNotSimulated(t *testing.T) {
	const bySelector = "alpha.jobset.sigs.k8s.io/node-selector: 'true'"
	cases := map[string]struct{ text, want string }{
		"a key that is none":                  {jobSet("s", 1, 1, "alpha.jobset.sigs.k8s.io/exclusive-topology: a/b/c", ""), `metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]: "a/b/c": must be the key of a label`},
		"no key":                              {jobSet("s", 1, 1, "", "alpha.jobset.sigs.k8s.io/exclusive-topology: ''"), `spec.replicatedJobs[0].template.metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]: "": must be`},
		"nodes that are labelled for Jobs":    {jobSet("s", 1, 1, rackForEach+", "+bySelector, ""), `metadata.annotations[alpha.jobset.sigs.k8s.io/node-selector]: "true": this placement cannot be simulated; create the object`},
		"more Jobs than templates":            {jobSet("s", 200, 1, rackForEach, ""), "spec.replicatedJobs: more than 128 Jobs"},
		"parts of units in racks":             {unitsOf(1, "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology: rack"), `subgroup-exclusive-topology]: "rack": this placement cannot be simulated`},
		"a priority that there is not at all": {strings.Replace(jobSet("s", 1, 1, rackForEach, ""), "schedulerName: fluence", "schedulerName: fluence, priorityClassName: none", 1), `pod template w/0: spec.priorityClassName: "none"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Make(parsed(t, tc.text), racks(), "fluence", time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Make: %v, want an error with %q", err, tc.want)
			}
		})
	}
	if _, err := Make(parsed(t, jobSet("s", 1, 1, bySelector, "")), racks(), "fluence", time.Unix(0, 0)); err != nil {
		t.Errorf("an annotation without effect is refused: %v", err)
	}
}
