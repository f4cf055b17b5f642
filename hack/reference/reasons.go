package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// The files with the reasons of groups, and of jobs in queues.
const (
	groupReasons = "pkg/reason/reason.go"
	queueReasons = "pkg/apis/fluence/v1alpha1/phases.go"
)

// reasons describes the reasons by the comments of the two files: a block of constants for
// each condition, and one for events.
func reasons() (string, error) {
	var b strings.Builder
	b.WriteString(`## Conditions, reasons and events

[reasons.md](reasons.md) says what helps. A group that waits with a reason of the column "lacks room" can start when
there is one more node: its pods report that to cluster autoscalers.
`)
	blocks, err := blocksOf(groupReasons)
	if err != nil {
		return "", err
	}
	for _, of := range blocks {
		heading, more, _ := strings.Cut(of.title, ".")
		heading, note, _ := strings.Cut(heading, ", ")
		b.WriteString(headed(heading))
		if note+more != "" {
			b.WriteString(of.title + "\n\n")
		}
		var rows [][]string
		for _, r := range of.reasons {
			p := reason.PropertiesOf(r.name)
			rows = append(rows, []string{code(r.name), r.means, mark(p.Waits), mark(p.LacksRoom)})
		}
		b.WriteString(table([]string{"reason", "means", "the group waits", "lacks room"}, rows))
	}
	if blocks, err = blocksOf(queueReasons); err != nil {
		return "", err
	}
	for _, of := range blocks {
		b.WriteString(headed(strings.TrimSuffix(of.title, ".")))
		var rows [][]string
		for _, r := range of.reasons {
			rows = append(rows, []string{code(r.name), r.means})
		}
		b.WriteString(table([]string{"reason", "means"}, rows))
	}
	return b.String(), nil
}

// headed returns a heading for the title of a block.
func headed(title string) string {
	return "\n### " + sentence(strings.TrimPrefix(strings.TrimPrefix(title, "Reasons of "), "the ")) + "\n\n"
}

// A block is a block of constants, each of which is a reason.
type block struct {
	title   string
	reasons []explained
}

// An explained is a reason with what it means.
type explained struct{ name, means string }

// blocksOf returns the blocks of a file whose comments begin with "Reasons of".
func blocksOf(path string) ([]block, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var blocks []block
	for _, decl := range file.Decls {
		constants, ok := decl.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST || !strings.HasPrefix(constants.Doc.Text(), "Reasons of ") {
			continue
		}
		b := block{title: oneLine(constants.Doc.Text())}
		for _, spec := range constants.Specs {
			r, err := explain(spec)
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", path, b.title, err)
			}
			b.reasons = append(b.reasons, r)
		}
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("%s has no reasons", path)
	}
	return blocks, nil
}

// explain reads the constant of a reason.
func explain(spec ast.Spec) (explained, error) {
	v, ok := spec.(*ast.ValueSpec)
	if !ok || len(v.Values) != 1 {
		return explained{}, errors.New("a constant has no value")
	}
	literal, ok := v.Values[0].(*ast.BasicLit)
	if !ok {
		return explained{}, fmt.Errorf("%s is no literal", v.Names[0])
	}
	name, err := strconv.Unquote(literal.Value)
	if err != nil {
		return explained{}, err
	}
	_, means, ok := strings.Cut(oneLine(v.Doc.Text()), ": ")
	if !ok {
		return explained{}, fmt.Errorf("the comment on %s does not explain it", v.Names[0])
	}
	return explained{name, strings.TrimSuffix(means, ".")}, nil
}

// mark returns the text for a property that a reason has or does not have.
func mark(has bool) string {
	if has {
		return "yes"
	}
	return ""
}
