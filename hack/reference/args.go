package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
)

// arguments describes the arguments of the plugin by the comments of its struct Args.
func arguments() (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "pkg/fluence/args.go", nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	structs := map[string]*ast.StructType{}
	ast.Inspect(file, func(n ast.Node) bool {
		if t, ok := n.(*ast.TypeSpec); ok {
			if s, ok := t.Type.(*ast.StructType); ok {
				structs[t.Name.Name] = s
			}
		}
		return true
	})
	if structs["Args"] == nil || structs["TLS"] == nil || structs["Preemption"] == nil || structs["Promises"] == nil {
		return "", fmt.Errorf("pkg/fluence/args.go has no struct Args, TLS, Preemption or Promises")
	}
	names, err := constants(".", "pkg/fluence", "pkg/group", "pkg/match", "pkg/preemption", "pkg/statusmap")
	if err != nil {
		return "", err
	}
	var rows [][]string
	add := func(prefix string, s *ast.StructType) {
		for _, f := range s.Fields.List {
			if name := jsonName(f); name != "" {
				names[f.Names[0].Name] = name
				rows = append(rows, []string{code(prefix + name), f.Doc.Text()})
			}
		}
	}
	add("", structs["Args"])
	add("tls.", structs["TLS"])
	add("preemption.", structs["Preemption"])
	add("promises.", structs["Promises"])
	for _, row := range rows {
		short := strings.Trim(row[0][strings.LastIndex(row[0], ".")+1:], "`")
		row[1] = sentence(strings.TrimPrefix(translated(oneLine(row[1]), names), code(short)+" is "))
	}
	return `## Arguments of the scheduler

These are the arguments of the plugin Fluence in a KubeSchedulerConfiguration; in the chart they are below
` + "`scheduler.args`, except `enforceDuration`, which is `controller.enforceDuration` there" + `. An unknown or invalid argument makes the scheduler exit at its start.
[manifests/scheduler-config.yaml](../manifests/scheduler-config.yaml) has them all with their defaults.

` + table([]string{"argument", "means"}, rows), nil
}

// jsonName returns the name of a field in a configuration, or nothing if it is none of its own.
func jsonName(f *ast.Field) string {
	if f.Tag == nil || len(f.Names) == 0 {
		return ""
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return strings.Trim(name, "-")
}

// constants returns the values of the exported constants of packages that are strings, by name.
func constants(root string, packages ...string) (map[string]string, error) {
	values := map[string]string{}
	for _, dir := range packages {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(paths) == 0 {
			return nil, fmt.Errorf("%s: %d files: %w", dir, len(paths), err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			for _, m := range constant.FindAllStringSubmatch(string(text), -1) {
				values[m[1]] = m[2]
			}
		}
	}
	return values, nil
}

var (
	constant   = regexp.MustCompile(`(?m)^(?:const |\t)([A-Z]\w+)\s+= "([^"]+)"$`)
	identifier = regexp.MustCompile(`\b(?:(?:group|match|statusmap)\.)?[A-Z]\w+`)
)

// translated replaces the names of Go fields in a comment by the names of arguments.
func translated(text string, names map[string]string) string {
	return identifier.ReplaceAllStringFunc(text, func(found string) string {
		short := found[strings.LastIndex(found, ".")+1:]
		switch {
		case short == "Policies":
			return code(strings.Join(match.Policies(), "`, `"))
		case names[short] != "" && (found != short || !words[short]):
			return code(names[short])
		}
		return found
	})
}

// words are names of Go that are also words of a sentence.
var words = map[string]bool{"TLS": true, "Name": true, "Label": true}
