// Package chart_test tests the chart of manifests/charts/fluence: what it renders,
// what it refuses, and whether Fluence runs when the chart has installed it.
package chart_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster/tools"
)

var update = flag.Bool("update", false, "write the golden files")

// registry is the only value without a default.
const registry = "image.registry=registry.example.com/hpc"

func root(t *testing.T) string {
	t.Helper()
	dir, err := tools.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func chartDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(root(t), "manifests", "charts", "fluence")
}

// links matches Helm's messages about files of the chart that are links.
var links = regexp.MustCompile(`(?m)^level=INFO msg="found symbolic link.*\n`)

// helm runs Helm without a cluster. Its error is Helm's message.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	bins, err := tools.Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bins.Helm, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG=/dev/null")
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, links.ReplaceAllString(msg.String(), ""))
	}
	return out.String(), nil
}

// template renders the chart as an installation in the namespace fluence-system would.
func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "fluence", chartDir(t), "--namespace", "fluence-system"}, args...)...)
}

// An object is an object that the chart renders.
type object map[string]any

func (o object) kind() string { return o["kind"].(string) }

func (o object) name() string { return o["metadata"].(map[string]any)["name"].(string) }

// into decodes an object into its type. It fails for a field that the type does not have.
func (o object) into(t *testing.T, typed any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o, typed, true); err != nil {
		t.Fatalf("%s %s: %v", o.kind(), o.name(), err)
	}
}

// render renders the chart with values, in the form of --set.
func render(t *testing.T, set ...string) []object {
	t.Helper()
	args := []string{"--set", registry}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	text, err := template(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

func objects(t *testing.T, text string) []object {
	t.Helper()
	var all []object
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		var o object
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// find returns the object of a kind and name.
func find(t *testing.T, all []object, kind, name string) object {
	t.Helper()
	for _, o := range all {
		if o.kind() == kind && o.name() == name {
			return o
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

// kindOf returns the group and kind of an object.
func kindOf(o object) string {
	return schema.FromAPIVersionAndKind(o["apiVersion"].(string), o.kind()).GroupKind().String()
}
