package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// reasons describes the reasons by the comments of package reason: a block of constants for
// each condition, and one for events.
func reasons() (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "pkg/reason/reason.go", nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(`## Conditions, reasons and events

[reasons.md](reasons.md) says what helps. A group that waits with a reason of the column "lacks room" can start when
there is one more node: its pods report that to cluster autoscalers.
`)
	found := 0
	for _, decl := range file.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		title := oneLine(block.Doc.Text())
		var rows [][]string
		for _, spec := range block.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return "", fmt.Errorf("pkg/reason/reason.go: a constant of %q has no value", title)
			}
			literal, ok := v.Values[0].(*ast.BasicLit)
			if !ok {
				return "", fmt.Errorf("pkg/reason/reason.go: %s is no literal", v.Names[0])
			}
			name, err := strconv.Unquote(literal.Value)
			if err != nil {
				return "", err
			}
			_, means, ok := strings.Cut(oneLine(v.Doc.Text()), ": ")
			if !ok {
				return "", fmt.Errorf("pkg/reason/reason.go: the comment on %s does not explain it", v.Names[0])
			}
			p := reason.PropertiesOf(name)
			rows = append(rows, []string{code(name), strings.TrimSuffix(means, "."), mark(p.Waits), mark(p.LacksRoom)})
			found++
		}
		heading, more, _ := strings.Cut(title, ".")
		heading, note, _ := strings.Cut(strings.TrimPrefix(heading, "Reasons of "), ", ")
		b.WriteString("\n### " + sentence(strings.TrimPrefix(heading, "the ")) + "\n\n")
		if note+more != "" {
			b.WriteString(title + "\n\n")
		}
		b.WriteString(table([]string{"reason", "means", "the group waits", "lacks room"}, rows))
	}
	if found == 0 {
		return "", fmt.Errorf("pkg/reason/reason.go has no reasons")
	}
	return b.String(), nil
}

// mark returns the text for a property that a reason has or does not have.
func mark(has bool) string {
	if has {
		return "yes"
	}
	return ""
}
