package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// template is the pod template of an owner.
const template = `
    metadata: {labels: {app: a}}
    spec: {schedulerName: fluence, containers: [{name: c, image: i, resources: {limits: {cpu: "2"}}}]}`

// jobTemplate is the pod template of a Job.
var jobTemplate = strings.Replace(template, "schedulerName", "restartPolicy: Never, schedulerName", 1)

// job is the manifest of a Job of one pod, without its name.
var job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: %s}\nspec:\n  template:" + jobTemplate

func parsed(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for doc := range strings.SplitSeq(text, "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetNamespace("ns")
		all = append(all, u)
	}
	return all
}

func TestMakeMakesWhatTheControllersWould(t *testing.T) {
	cases := map[string]struct {
		text string
		// groups are the sizes of the PodGroups by the beginning of their names.
		pods   []string
		groups []string
		notes  []string
	}{
		"a job":                                       {text: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  parallelism: 3\n  completions: 2\n  template:" + jobTemplate, pods: []string{"j#0", "j#1"}, groups: []string{"job-j 2"}},
		"a job that labels its size":                  {text: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  parallelism: 3\n  template:" + strings.Replace(jobTemplate, "app: a", `fluence.group-min: "2"`, 1), pods: []string{"j#0", "j#1", "j#2"}, groups: []string{"job-j 2"}},
		"a job that is suspended":                     {text: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  suspend: true\n  template:" + jobTemplate, pods: []string{"j#0"}, groups: []string{"job-j 1"}, notes: []string{"suspended"}},
		"a cronjob":                                   {text: "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec:\n  schedule: '* * * * *'\n  jobTemplate: {spec: {parallelism: 2, template: {spec: {schedulerName: fluence, restartPolicy: Never, containers: [{name: c, image: i}]}}}}", pods: []string{"c#next#0", "c#next#1"}, groups: []string{"job-c-next 2"}},
		"a deployment":                                {text: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: 2\n  selector: {matchLabels: {app: a}}\n  template:" + template, pods: []string{"d#next#0", "d#next#1"}, groups: []string{"deployment-d 1"}},
		"a deployment of none":                        {text: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: a}}\n  template:" + template},
		"a statefulset in order":                      {text: "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec:\n  replicas: 2\n  selector: {matchLabels: {app: a}}\n  template:" + template, pods: []string{"s-0", "s-1"}, groups: []string{"statefulset-s 1"}, notes: []string{"creates its pods one by one; simulated as if all 2 existed"}},
		"a statefulset all at once":                   {text: "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec:\n  replicas: 2\n  podManagementPolicy: Parallel\n  selector: {matchLabels: {app: a}}\n  template:" + template, pods: []string{"s-0", "s-1"}, groups: []string{"statefulset-s 2"}},
		"a lone pod":                                  {text: "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {schedulerName: fluence, containers: [{name: c, image: i}]}", pods: []string{"p"}},
		"pods with a PodGroup":                        {text: "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 5}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {scheduling.x-k8s.io/pod-group: g}}\nspec: {schedulerName: fluence, containers: [{name: c, image: i}]}", pods: []string{"p"}, groups: []string{"g 5"}},
		"pods that label their group":                 {text: "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {scheduling.x-k8s.io/pod-group: g, fluence.group-size: \"4\"}}\nspec: {schedulerName: fluence, containers: [{name: c, image: i}]}", pods: []string{"p"}, groups: []string{"g 4"}},
		"a job beside a pod of its name":              {text: fmt.Sprintf(job, "j") + "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: j-0}\nspec: {schedulerName: fluence, containers: [{name: c, image: i}]}", pods: []string{"j#0", "j-0"}, groups: []string{"job-j 1"}},
		"a job whose pods are gated":                  {text: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  parallelism: 2\n  template:" + strings.Replace(jobTemplate, "{restart", "{schedulingGates: [{name: a/b}], restart", 1), pods: []string{"j#0", "j#1"}, groups: []string{"job-j 2"}, notes: []string{"simulated as if the gates were removed: a/b"}},
		"a job of another scheduler":                  {text: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  parallelism: 3\n  template:" + strings.Replace(jobTemplate, "fluence", "other", 1), notes: []string{`Job j: spec.template.spec.schedulerName is "other"`}},
		"a priority below its job":                    {text: strings.Replace(fmt.Sprintf(job, "j"), "schedulerName: fluence", "schedulerName: fluence, priorityClassName: soon", 1) + "\n---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: soon}\nvalue: 5", pods: []string{"j#0"}, groups: []string{"job-j 1"}},
		"a job beside one that is there":              {text: fmt.Sprintf(job, "there") + "\n---\n" + fmt.Sprintf(job, "j"), pods: []string{"j#0"}, groups: []string{"job-j 1"}, notes: []string{"left out: Job ns/there: already exists in the cluster"}},
		"a claim that is there":                       {text: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n---\n" + fmt.Sprintf(job, "j"), pods: []string{"j#0"}, groups: []string{"job-j 1"}},
		"a PodGroup that is there":                    {text: "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: old}\nspec: {minMember: 3}", groups: []string{"old 3 since 1"}},
		"two jobs of one label":                       {text: strings.Replace(fmt.Sprintf(job, "j")+"\n---\n"+fmt.Sprintf(job, "k"), "app: a", "scheduling.x-k8s.io/pod-group: g", 2), pods: []string{"j#0", "k#0"}, groups: []string{"g 2"}, notes: []string{"group g: 2 objects create its pods"}},
		"a job with a key that is misspelt":           {text: strings.Replace(fmt.Sprintf(job, "j"), "labels:", "annotations: {fluence.flux-framework.org/topology-require: rack}, labels:", 1), pods: []string{"j#0"}, groups: []string{"job-j 1"}, notes: []string{"Job j: annotation fluence.flux-framework.org/topology-require of the pod template: there is no such key, and it has no effect; did you mean fluence.flux-framework.org/topology-required?"}},
		"a job with a minimum of its own":             {text: strings.Replace(fmt.Sprintf(job, "j"), "{name: j}", "{name: j, labels: {fluence.group-min: \"1\"}}", 1), pods: []string{"j#0"}, groups: []string{"job-j 1"}, notes: []string{"Job j: label fluence.group-min of the Job: counts only where the webhook copies it to the pod template"}},
		"a job with a key of its template":            {text: strings.Replace(fmt.Sprintf(job, "j"), "{name: j}", "{name: j, annotations: {fluence.flux-framework.org/exclusive: \"true\"}}", 1), pods: []string{"j#0"}, groups: []string{"job-j 1"}, notes: []string{"Job j: annotation fluence.flux-framework.org/exclusive of the Job: has no effect there"}},
		"a job with a size that it does not make":     {text: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  parallelism: 3\n  template:" + strings.Replace(jobTemplate, "app: a", `fluence.group-min: "5"`, 1), pods: []string{"j#0", "j#1", "j#2"}, groups: []string{"job-j 5"}, notes: []string{`Job j: label fluence.group-min: "5": the Job makes only 3 of these pods at a time`}},
		"a job with a value that is wrong":            {text: strings.Replace(fmt.Sprintf(job, "j"), "labels:", "annotations: {fluence.flux-framework.org/incomplete-policy: never}, labels:", 1), pods: []string{"j#0"}, groups: []string{"job-j 1"}, notes: []string{`Job j: annotation fluence.flux-framework.org/incomplete-policy: "never": must be one of`}},
		"a JobSet with a value that is wrong":         {text: "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec:\n  replicatedJobs:\n  - {name: drv, template: {spec: {template: {metadata: {annotations: {fluence.flux-framework.org/incomplete-policy: never}}, spec: {schedulerName: fluence, restartPolicy: Never, containers: [{name: c, image: i}]}}}}}", pods: []string{"s#drv#0"}, groups: []string{"jobset-s 1"}, notes: []string{"from its pod templates", `JobSet s: annotation fluence.flux-framework.org/incomplete-policy: "never": must be one of`}},
		"a JobSet":                                    {text: "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec:\n  replicatedJobs:\n  - {name: work, replicas: 2, template: {spec: {parallelism: 2, template: {spec: {schedulerName: fluence, restartPolicy: Never, containers: [{name: c, image: i}]}}}}}\n  - {name: drv, template: {spec: {template: {spec: {schedulerName: fluence, restartPolicy: Never, containers: [{name: c, image: i}]}}}}}", pods: []string{"s#work#0", "s#work#1", "s#work#2", "s#work#3", "s#drv#0"}, groups: []string{"jobset-s 5"}, notes: []string{"from its pod templates"}},
		"a JobSet with a driver of another scheduler": {text: "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec:\n  replicatedJobs:\n  - {name: drv, template: {spec: {template: {spec: {schedulerName: other, restartPolicy: Never, containers: [{name: c, image: i}]}}}}}\n  - {name: work, replicas: 2, template: {spec: {parallelism: 2, template: {spec: {schedulerName: fluence, restartPolicy: Never, containers: [{name: c, image: i}]}}}}}", pods: []string{"s#work#0", "s#work#1", "s#work#2", "s#work#3"}, groups: []string{"jobset-s 4"}, notes: []string{"from its pod templates", "not simulated: 1 pod of JobSet/s, drv, has schedulerName other"}},
		"a JobSet that starts in order":               {text: "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec:\n  startupPolicy: {startupPolicyOrder: InOrder}\n  replicatedJobs:\n  - {name: drv, template: {spec: {template: {spec: {schedulerName: fluence, restartPolicy: Never, containers: [{name: c, image: i}]}}}}}\n  - {name: work, replicas: 2, template: {spec: {parallelism: 2, template: {spec: {schedulerName: fluence, restartPolicy: Never, containers: [{name: c, image: i}]}}}}}", pods: []string{"s#drv#0", "s#work#0", "s#work#1", "s#work#2", "s#work#3"}, groups: []string{"jobset-s 5"}, notes: []string{"from its pod templates", "as if all were made at once"}},
		"a JobSet that is suspended":                  {text: "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec:\n  suspend: true\n  replicatedJobs:\n  - {name: drv, template: {spec: {template: {spec: {schedulerName: fluence, restartPolicy: Never, containers: [{name: c, image: i}]}}}}}", pods: []string{"s#drv#0"}, groups: []string{"jobset-s 1"}, notes: []string{"from its pod templates", "suspended"}},
		"an MPIJob":                                   {text: "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: m}\nspec:\n  mpiReplicaSpecs:\n    Launcher: {template: {spec: {schedulerName: fluence, containers: [{name: c, image: i}]}}}\n    Worker: {replicas: 2, template: {spec: {schedulerName: fluence, containers: [{name: c, image: i}]}}}", pods: []string{"m#launcher#0", "m#worker#0", "m#worker#1"}, groups: []string{"mpijob-m 3"}, notes: []string{"from its pod templates"}},
		"two units of a LeaderWorkerSet":              {text: "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: l}\nspec:\n  replicas: 2\n  leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {schedulerName: fluence, containers: [{name: c, image: i}]}}}", pods: []string{"l-0#leader#0", "l-0#workers#0", "l-1#leader#0", "l-1#workers#0"}, groups: []string{"leaderworkerset-l-0 2", "leaderworkerset-l-1 2"}, notes: []string{"from its pod templates"}},
		"a RayJob":                                    {text: "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: r}\nspec:\n  rayClusterSpec: {headGroupSpec: {template: {spec: {schedulerName: fluence, containers: [{name: c, image: i}]}}}, workerGroupSpecs: [{groupName: w, replicas: 2, template: {spec: {schedulerName: fluence, containers: [{name: c, image: i}]}}}]}", pods: []string{"r#1#head#0", "r#1#w#0", "r#1#w#1"}, groups: []string{"raycluster-r-1 3"}, notes: []string{"from its pod templates"}},
		"a kind that is not known":                    {text: "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}", notes: []string{"Thing t: this kind is not known"}},
		"a service":                                   {text: "apiVersion: v1\nkind: Service\nmetadata: {name: t}"},
	}
	old := podGroup("old", 2)
	there := Cluster{PodGroups: []scheduling.PodGroup{old}}
	there.Objects = append(there.Objects, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}}, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "there", UID: "there"}})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, err := Make(parsed(t, tc.text), there, "fluence", time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			var pods, groups []string
			for _, p := range w.Pods() {
				pods = append(pods, p.Name)
				if p.UID == "" || p.Spec.SchedulerName != "fluence" {
					t.Errorf("pod %s has UID %q and scheduler %q", p.Name, p.UID, p.Spec.SchedulerName)
				}
			}
			for _, pg := range w.PodGroups {
				// The name without the hash of a UID.
				short := pg.Name
				if i := strings.LastIndexByte(short, '-'); i > 0 {
					short = short[:i]
				}
				short = fmt.Sprintf("%s %d", short, pg.Spec.MinMember)
				if pg.UID == old.UID {
					short += fmt.Sprint(" since ", pg.CreationTimestamp.Unix())
				}
				groups = append(groups, short)
			}
			if !slices.Equal(pods, tc.pods) || !slices.Equal(groups, tc.groups) {
				t.Errorf("pods %q, groups %q; want %q, %q", pods, groups, tc.pods, tc.groups)
			}
			if !slices.EqualFunc(w.Notes, tc.notes, strings.Contains) {
				t.Errorf("notes %q, want %q", w.Notes, tc.notes)
			}
		})
	}
}

func TestMakeFillsInWhatTheAPIServerDoes(t *testing.T) {
	w, err := Make(parsed(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template:"+jobTemplate), Cluster{}, "fluence", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Pods()[0].Spec.Containers[0].Resources.Requests.Cpu().String(); got != "2" {
		t.Errorf("cpu requested %s, want the limit, which is 2", got)
	}
}

func TestMakeRefuses(t *testing.T) {
	there := Cluster{}
	there.Objects = append(there.Objects, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "j"}}, objects.Pod("s-0"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	cases := map[string]struct{ text, want string }{
		"what is there already":             {fmt.Sprintf(job, "j"), "Job ns/j: already exists"},
		"what is there twice in the file":   {fmt.Sprintf(job, "k") + "\n---\n" + fmt.Sprintf(job, "k"), "Job ns/k: appears twice"},
		"a device by a template of nobody":  {strings.Replace(fmt.Sprintf(job, "k"), "schedulerName: fluence", "schedulerName: fluence, resourceClaims: [{name: d, resourceClaimTemplateName: none}]", 1), `resourceClaims[0].resourceClaimTemplateName: "none"`},
		"a PodGroup of none":                {"apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}", "PodGroup ns/g: spec.minMember: 0: must be 1 or more"},
		"a label that is no name":           {strings.Replace(fmt.Sprintf(job, "k"), "app: a", "scheduling.x-k8s.io/pod-group: My_Training", 1), `pod-group: "My_Training": cannot be the name of a PodGroup`},
		"a name that is none":               {fmt.Sprintf(job, "My_Job"), `Job ns/My_Job: metadata.name: "My_Job"`},
		"a namespace that there is not":     {fmt.Sprintf(job, "k"), `metadata.namespace: "nowhere": there is no such namespace`},
		"no name":                           {fmt.Sprintf(job, "''"), "metadata.name"},
		"a job that starts its pods again":  {strings.Replace(fmt.Sprintf(job, "k"), "restartPolicy: Never, ", "", 1), `spec.template.spec.restartPolicy: "": must be OnFailure or Never`},
		"an amount below none":              {strings.Replace(fmt.Sprintf(job, "k"), `cpu: "2"`, `cpu: "-2"`, 1), "spec.template.spec.containers[0].resources.limits[cpu]: Invalid value"},
		"two PodGroups of one name":         {"apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 1}\n---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 1}", "PodGroup ns/g: appears twice"},
		"a statefulset whose pod is there":  {"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec:\n  selector: {matchLabels: {app: a}}\n  template:" + template, "StatefulSet ns/s: pod s-0: already exists"},
		"a field that there is not":         {strings.Replace(fmt.Sprintf(job, "k"), "spec:\n", "spec:\n  paralellism: 2\n", 1), `unknown field "spec.paralellism"`},
		"a size that is none":               {strings.Replace(fmt.Sprintf(job, "k"), "app: a", "fluence.group-size: many", 1), `fluence.group-size: "many"`},
		"a number below none":               {strings.Replace(fmt.Sprintf(job, "k"), "spec:\n", "spec:\n  parallelism: -1\n", 1), "spec.parallelism: -1"},
		"a priority that there is not":      {strings.Replace(fmt.Sprintf(job, "k"), "schedulerName: fluence", "schedulerName: fluence, priorityClassName: none", 1), `spec.template.spec.priorityClassName: "none"`},
		"a pod that has its node already":   {strings.Replace(fmt.Sprintf(job, "k"), "schedulerName: fluence", "schedulerName: fluence, nodeName: n0", 1), `spec.template.spec.nodeName: "n0"`},
		"a pod template that is a pod list": {strings.Replace(fmt.Sprintf(job, "k"), "app: a", "app: [a]", 1), "template.metadata.labels"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all := parsed(t, tc.text)
			if name == "a namespace that there is not" {
				all[0].SetNamespace("nowhere")
			}
			if _, err := Make(all, there, "fluence", time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Make: %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	cases := map[string]struct{ text, want string }{
		"no configuration":         {"a: b", "Kind"},
		"of another kind":          {"apiVersion: v1\nkind: Pod\n", "scheduler configuration"},
		"no profile with Fluence":  {head, "none enables the plugin Fluence"},
		"two profiles with it":     {head + "profiles:\n- {schedulerName: a, plugins: {multiPoint: {enabled: [{name: Fluence}]}}}\n- {schedulerName: b, plugins: {multiPoint: {enabled: [{name: Fluence}]}}}\n", `"a" and "b"`},
		"a field that there isn't": {head + "profile: []\n", "profile"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Parse: %v, want an error with %q", err, tc.want)
			}
		})
	}
}
