package chart_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/fluence"
)

// read reads a YAML file below manifests.
func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "manifests", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// plain returns the objects of a folder or file below manifests.
func plain(t *testing.T, glob string) []object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "manifests", filepath.FromSlash(glob)))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", glob, err)
	}
	var all []object
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, objects(t, string(text))...)
	}
	return all
}

// bare returns an object without what Helm and the chart add to every object.
func bare(o object) object {
	meta := o["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	maps.DeleteFunc(labels, func(key string, _ any) bool { return !strings.Contains(key, "/aggregate-to-") })
	if len(labels) == 0 {
		delete(meta, "labels")
	}
	if notes, ok := meta["annotations"].(map[string]any); ok {
		delete(notes, "helm.sh/resource-policy")
	}
	return o
}

// By default the chart installs the same roles,
// FlowSchemas, webhook and CRD as the plain manifests.
func TestTheDefaultsAreThePlainManifests(t *testing.T) {
	rendered := render(t)
	for _, glob := range []string{"rbac/*.yaml", "flowcontrol/*.yaml", "viewer.yaml", "webhook/*.yaml", "crds/*.yaml"} {
		for _, want := range plain(t, glob) {
			if want.kind() == "Namespace" {
				continue // helm --create-namespace creates the release's namespace
			}
			got := find(t, rendered, want.kind(), want.name())
			if !reflect.DeepEqual(bare(got), bare(want)) {
				t.Errorf("%s %s differs from that of manifests/%s:\n%v\n%v", want.kind(), want.name(), glob, got, want)
			}
		}
	}
	roles := append(plain(t, "rbac/*.yaml"), plain(t, "viewer.yaml")...)
	for _, o := range rendered {
		if strings.HasPrefix(kindOf(o), "Role") || strings.HasPrefix(kindOf(o), "ClusterRole") {
			find(t, roles, o.kind(), o.name())
		}
	}
}

// In another namespace, even one with a number as its
// name, no namespace of the plain manifests is left.
func TestAnotherNamespace(t *testing.T) {
	text, err := template(t, "--set", registry, "--namespace", "1234")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "fluence-system") {
		t.Errorf("fluence-system is named in\n%s", text)
	}
	for _, o := range objects(t, text) {
		meta := o["metadata"].(map[string]any)
		if in, ok := meta["namespace"]; ok && in != "1234" && o.name() != "fluence-scheduler-authentication-reader" {
			t.Errorf("%s %s is in %v", o.kind(), o.name(), in)
		}
	}
}

// schedulerConfig returns the configuration in the chart's ConfigMap.
func schedulerConfig(t *testing.T, rendered []object) map[string]any {
	t.Helper()
	var m corev1.ConfigMap
	find(t, rendered, "ConfigMap", "fluence-scheduler-config").into(t, &m)
	var config map[string]any
	if err := yaml.UnmarshalStrict([]byte(m.Data["config.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	return config
}

func TestTheDefaultConfigurationIsThePlainOne(t *testing.T) {
	got := schedulerConfig(t, render(t))
	var want map[string]any
	read(t, "scheduler-config.yaml", &want)
	// These are kube-scheduler's defaults, which the chart shows.
	for key, value := range map[string]string{"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"} {
		want["leaderElection"].(map[string]any)[key] = value
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// notValues are the plugin's arguments that the chart sets itself.
var notValues = map[string]string{
	"endpoint": "the sidecar's socket is in the same pod",
	"tls":      "nothing is sent over the network",
	// A namespace among the arguments is the release's.
	"statusNamespace": "the namespace of the release",
	"enforceDuration": "the controller does it: controller.enforceDuration",
}

// Every argument of the plugin is a value with the same default.
func TestEveryArgumentIsAValue(t *testing.T) {
	var values struct {
		Scheduler struct {
			Args map[string]any `json:"args"`
		} `json:"scheduler"`
	}
	read(t, "charts/fluence/values.yaml", &values)
	for arg := range reflect.TypeFor[fluence.Args]().Fields() {
		name, _, _ := strings.Cut(arg.Tag.Get("json"), ",")
		_, isValue := values.Scheduler.Args[name]
		if name != "" && name != "-" && isValue == (notValues[name] != "") {
			t.Errorf("argument %s: a value: %t; settled by the chart: %q", name, isValue, notValues[name])
		}
	}
}

// deployment returns a Deployment of the chart, decoded strictly.
func deployment(t *testing.T, rendered []object, name string) appsv1.Deployment {
	t.Helper()
	var d appsv1.Deployment
	find(t, rendered, "Deployment", name).into(t, &d)
	return d
}

// containers returns all containers of a pod, init containers included.
func containers(pod corev1.PodSpec) []corev1.Container {
	return append(slices.Clone(pod.Containers), pod.InitContainers...)
}

// Both containers of the scheduler's pod use the socket of the plugin's configuration.
func TestTheSocketIsShared(t *testing.T) {
	rendered := render(t)
	d := deployment(t, rendered, "fluence-scheduler")
	endpoint := pluginArgs(t, rendered)["endpoint"].(string)
	dir := filepath.Dir(strings.TrimPrefix(endpoint, "unix://"))
	for _, c := range containers(d.Spec.Template.Spec) {
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "socket" && m.MountPath == dir && !m.ReadOnly }) {
			t.Errorf("container %s has no volume at %s: %v", c.Name, dir, c.VolumeMounts)
		}
		if c.Name == "sidecar" && !slices.Contains(c.Args, "--listen="+endpoint) {
			t.Errorf("the sidecar does not listen at %s: %v", endpoint, c.Args)
		}
	}
}

// Only containers that use the API server have a
// token. In the scheduler's pod the sidecar has none.
func TestWhatAContainerIsGiven(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"fluence-scheduler":  {"scheduler": "config token socket", "sidecar": "socket"},
		"fluence-controller": {"controller": ""},
	} {
		pod := deployment(t, render(t), name).Spec.Template.Spec
		if byDefault := pod.AutomountServiceAccountToken == nil; byDefault != (name == "fluence-controller") {
			t.Errorf("%s: every container has the token: %t", name, byDefault)
		}
		for _, c := range containers(pod) {
			var volumes []string
			for _, m := range c.VolumeMounts {
				volumes = append(volumes, m.Name)
			}
			if got := strings.Join(volumes, " "); got != want[c.Name] {
				t.Errorf("container %s has the volumes %q, want %q", c.Name, got, want[c.Name])
			}
		}
	}
}

// All images are of the given registry.
func TestImagesAreOfTheGivenRegistry(t *testing.T) {
	cases := map[string]struct {
		set  []string
		want string // images of the scheduler, the sidecar and the controller
	}{
		"by default": {nil, "registry.example.com/hpc/fluence:v0.1.0 registry.example.com/hpc/fluence:v0.1.0 registry.example.com/hpc/fluence:v0.1.0"},
		"with the library": {[]string{"engine=fluxion", "image.tag=v2"},
			"registry.example.com/hpc/fluence:v2 registry.example.com/hpc/fluence-sidecar-fluxion:v0.1.0 registry.example.com/hpc/fluence:v2"},
		"the library's image elsewhere": {[]string{"engine=fluxion", "fluxion.image.registry=other.example.com", "fluxion.image.tag=v3"},
			"registry.example.com/hpc/fluence:v0.1.0 other.example.com/fluence-sidecar-fluxion:v3 registry.example.com/hpc/fluence:v0.1.0"},
		"by digest": {[]string{"image.digest=sha256:" + strings.Repeat("a", 64)},
			strings.TrimSpace(strings.Repeat("registry.example.com/hpc/fluence@sha256:"+strings.Repeat("a", 64)+" ", 3))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rendered := render(t, tc.set...)
			var images []string
			for _, name := range []string{"fluence-scheduler", "fluence-controller"} {
				for _, c := range containers(deployment(t, rendered, name).Spec.Template.Spec) {
					images = append(images, c.Image)
				}
			}
			if got := strings.Join(images, " "); got != tc.want {
				t.Errorf("images %s, want %s", got, tc.want)
			}
		})
	}
}
