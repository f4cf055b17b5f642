package group

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// templatesText writes templates in one line, without their pods.
func templatesText(all []Template) string {
	var words []string
	for _, t := range all {
		text := fmt.Sprintf("%s %d", t.Name, t.Coming)
		if t.Expected > 0 {
			text += fmt.Sprintf("+%d after %s", t.Expected, t.After)
		}
		if t.Leader != "" {
			text += " near " + t.Leader
		}
		if t.Stage > 0 {
			text += fmt.Sprintf(" in stage %d", t.Stage)
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

func TestTemplates(t *testing.T) {
	const pod = `{"spec":{"schedulerName":"fluence"}}`
	jobSetOf := func(policy string, jobs ...string) string {
		return fmt.Sprintf(`{"startupPolicy":{"startupPolicyOrder":%q},"replicatedJobs":[%s]}`, policy, strings.Join(jobs, ","))
	}
	jobOf := func(name string, replicas, pods int, more string) string {
		return fmt.Sprintf(`{"name":%q,"replicas":%d%s,"template":{"spec":{"parallelism":%d,"completions":%d,"template":%s}}}`, name, replicas, more, pods, pods, pod)
	}
	const complete, ready = `,"dependsOn":[{"name":"a","status":"Complete"}]`, `,"dependsOn":[{"name":"a","status":"Ready"}]`
	exclusive := map[string]string{jobSetExclusiveAnnotation: "rack"}
	cases := map[string]struct {
		kind        string
		annotations map[string]string
		spec        string
		want        string
	}{
		"a JobSet whose Jobs come at once":                                   {"JobSet", nil, jobSetOf("AnyOrder", jobOf("a", 2, 4, ""), jobOf("b", 1, 1, "")), ""},
		"a Job after another is complete":                                    {"JobSet", nil, jobSetOf("", jobOf("a", 1, 1, ""), jobOf("b", 2, 4, complete)), "a 1, b 8 in stage 1"},
		"a Job after another is ready":                                       {"JobSet", nil, jobSetOf("", jobOf("a", 1, 1, ""), jobOf("b", 2, 4, ready)), "a 1, b 0+8 after Ready"},
		"Jobs in order":                                                      {"JobSet", nil, jobSetOf("InOrder", jobOf("a", 1, 2, ""), jobOf("b", 1, 3, "")), "a 2, b 0+3 after Ready"},
		"a rack for each Job":                                                {"JobSet", exclusive, jobSetOf("", jobOf("a", 2, 4, "")), "a/0 1+3 after Bound near a/0, a/1 1+3 after Bound near a/1"},
		"a rack for each Job, by a selector":                                 {"JobSet", map[string]string{jobSetExclusiveAnnotation: "rack", jobSetSelectorAnnotation: "true"}, jobSetOf("", jobOf("a", 2, 4, "")), ""},
		"a rack for each Job after others are ready":                         {"JobSet", exclusive, jobSetOf("", jobOf("a", 1, 2, ""), jobOf("b", 1, 2, ready)), "a/0 1+1 after Bound near a/0, b/0 0+2 after Ready near b/0"},
		"a Job of a later stage after a Job of an earlier one that is ready": {"JobSet", nil, jobSetOf("", jobOf("a", 1, 1, ""), jobOf("b", 1, 2, complete), jobOf("c", 1, 3, `,"dependsOn":[{"name":"b","status":"Complete"},{"name":"a","status":"Ready"}]`)), "a 1, b 2 in stage 1, c 3 in stage 2"},
		"a unit whose workers come at once":                                  {"LeaderWorkerSet", nil, `{"leaderWorkerTemplate":{"size":4,"workerTemplate":` + pod + `}}`, ""},
		"a unit whose workers come later":                                    {"LeaderWorkerSet", nil, `{"startupPolicy":"LeaderReady","leaderWorkerTemplate":{"size":4,"workerTemplate":` + pod + `}}`, "leader 1, worker 0+3 after Ready"},
		"a unit in a rack of its own":                                        {"LeaderWorkerSet", map[string]string{lwsExclusiveAnnotation: "rack"}, `{"leaderWorkerTemplate":{"size":4,"workerTemplate":` + pod + `}}`, "leader 1, worker 0+3 after Bound near leader"},
		"a unit of one pod":                                                  {"LeaderWorkerSet", nil, `{"startupPolicy":"LeaderReady","leaderWorkerTemplate":{"size":1,"workerTemplate":` + pod + `}}`, ""},
		"an MPIJob":                                                          {"MPIJob", nil, `{"mpiReplicaSpecs":{"Launcher":{"template":` + pod + `},"Worker":{"replicas":4,"template":` + pod + `}}}`, ""},
		"a launcher that waits":                                              {"MPIJob", nil, `{"launcherCreationPolicy":"WaitForWorkersReady","mpiReplicaSpecs":{"Launcher":{"template":` + pod + `},"Worker":{"replicas":4,"template":` + pod + `}}}`, "worker 4, launcher 0+1 after Ready"},
		"a launcher of another scheduler":                                    {"MPIJob", nil, `{"launcherCreationPolicy":"WaitForWorkersReady","mpiReplicaSpecs":{"Launcher":{"template":{}},"Worker":{"replicas":4,"template":` + pod + `}}}`, ""},
		"a Job":                                                              {"Job", nil, `{"parallelism":4,"template":` + pod + `}`, ""},
	}
	groups := map[string]string{"JobSet": jobSet.group, "LeaderWorkerSet": leaderWorkerSet.group, "MPIJob": mpiJob.group, "Job": job.group}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Templates(Owner{Group: groups[tc.kind], Kind: tc.kind, Name: "x"}, tc.annotations, []byte(tc.spec), "fluence")
			if text := templatesText(got); err != nil || text != tc.want {
				t.Errorf("Templates() = %q, %v, want %q", text, err, tc.want)
			}
		})
	}
	if _, err := Templates(Owner{Group: jobSet.group, Kind: jobSet.kind, Name: "x"}, nil, []byte(`{"replicatedJobs":3}`), "fluence"); err == nil || !strings.Contains(err.Error(), "JobSet x") {
		t.Errorf("Templates() of a broken spec = %v, want an error that names the object", err)
	}
}

// The operators label the pods of each template.
func TestTemplateOf(t *testing.T) {
	cases := map[string]struct {
		labels, annotations map[string]string
		want                string
	}{
		"no operator":         {map[string]string{"app": "x"}, nil, ""},
		"JobSet":              {map[string]string{jobSetReplicatedJobLabel: "workers", jobSetJobIndexLabel: "2"}, nil, "workers"},
		"JobSet with racks":   {map[string]string{jobSetReplicatedJobLabel: "workers", jobSetJobIndexLabel: "2"}, map[string]string{jobSetExclusiveAnnotation: "rack"}, "workers/2"},
		"leader of a unit":    {map[string]string{lwsWorkerIndexLabel: "0"}, nil, "leader"},
		"worker of a unit":    {map[string]string{lwsWorkerIndexLabel: "3"}, nil, "worker"},
		"launcher of MPIJobs": {map[string]string{mpiJobRoleLabel: "launcher"}, nil, "launcher"},
	}
	for name, tc := range cases {
		if got := TemplateOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}}); got != tc.want {
			t.Errorf("%s: TemplateOf() = %q, want %q", name, got, tc.want)
		}
	}
}

// However many Jobs a JobSet promises, its templates take little memory, and their coming pods are counted.
func TestTemplatesOfManyJobs(t *testing.T) {
	job := `{"name":"%s","replicas":%d,"template":{"spec":{"parallelism":2,"completions":2,"template":{"spec":{"schedulerName":"fluence"}}}}}`
	spec := fmt.Sprintf(`{"replicatedJobs":[`+job+`,`+job+`,`+job+`]}`, "a", 1000, "b", 90000, "c", 5)
	all, err := Templates(Owner{Group: jobSet.group, Kind: jobSet.kind, Name: "many"}, map[string]string{jobSetExclusiveAnnotation: "rack"}, []byte(spec), "fluence")
	if err != nil || len(all) <= MaxTemplates || len(all) > MaxTemplates+3 {
		t.Fatalf("%d templates (error %v), want a few more than %d", len(all), err, MaxTemplates)
	}
	coming := int32(0)
	for _, one := range all {
		coming += one.Coming
	}
	if coming != 1000+90000+5 {
		t.Errorf("%d pods are coming, want one of each Job", coming)
	}
}
