package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/simulate"
)

// block matches a command in docs/cli.md with its output.
var block = regexp.MustCompile("(?s)```text\n(\\$ kubectl fluence .*?)```")

// fields are the names of a type in JSON, and of the types in it.
func fields(of reflect.Type) []string {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return fields(of.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	var names []string
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name != "" && name != "-" {
			names = append(names, name)
		}
		if f.Type != reflect.PointerTo(of) && f.Type != reflect.SliceOf(reflect.PointerTo(of)) && strings.Contains(f.Type.String(), "cli.") || f.Anonymous {
			names = append(names, fields(f.Type)...)
		}
	}
	return names
}

func TestDocsNameTheFields(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{groupSummary{}, whyAnswer{}, simulatedGroup{}, whenAnswer{}, simulate.Placement{}, simulate.Victim{}, simulate.Decision{}, treeNode{}, statusAnswer{}, versionAnswer{}, clusterAnswer{}, jobSummary{}, queueSummary{}} {
		for _, name := range fields(reflect.TypeOf(v)) {
			if name != "" && !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/cli.md does not name the field %q of %T", name, v)
			}
		}
	}
}

// docs/cli.md shows what the commands write.
func TestDocsShowWhatCommandsWrite(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.golden"))
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	for _, f := range files {
		out, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		screen, _, _ := strings.Cut(string(out), "--- ")
		written[screen] = true
	}
	blocks := block.FindAllStringSubmatch(string(text), -1)
	shown := map[string]bool{}
	for _, b := range blocks {
		if !written[b[1]] {
			t.Errorf("docs/cli.md shows what no test has seen:\n%s", b[1])
		}
		shown[strings.Fields(b[1])[3]] = true
	}
	for _, cmd := range command(Config{}).Commands() {
		// The output of options is the list of kubectl's flags.
		if name := cmd.Name(); !shown[name] && name != "options" {
			t.Errorf("docs/cli.md shows no output of %q", name)
		}
	}
}
