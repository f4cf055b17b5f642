package house

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Room is a package: its product files, without tests and generated files.
type Room struct {
	// Path is its folder.
	Path string
	// Listed are the files that the package's comment
	// lists, in its order. Files are the files that exist.
	Listed, Files []string
	// Uses counts how often one file uses declarations of another: functions,
	// types, methods, fields, variables and constants of the package.
	Uses map[Arrow]int
	// Fields is the number of fields of each type. Methods is the number of its methods.
	Fields, Methods map[string]int
}

// An Arrow leads from a file to another file whose declaration it uses.
type Arrow struct{ From, To string }

// line matches a line of the list of files in a package's comment.
var line = regexp.MustCompile(`(?m)^\t([a-z0-9_]+\.go)\s+\S`)

// Read reads the package in a folder.
func Read(path string) (*Room, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	r := &Room{Path: path, Uses: map[Arrow]int{}, Fields: map[string]int{}, Methods: map[string]int{}}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, e := range entries {
		if !product(e) {
			continue
		}
		f, err := parser.ParseFile(files, filepath.Join(path, e.Name()), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		r.Files, parsed = append(r.Files, e.Name()), append(parsed, f)
		for _, found := range line.FindAllStringSubmatch(f.Doc.Text(), -1) {
			r.Listed = append(r.Listed, found[1])
		}
	}
	if len(parsed) == 0 {
		return nil, fmt.Errorf("%s: no package", path)
	}
	r.resolve(files, parsed)
	return r, nil
}

// product reports whether a file is part of the package and written by hand.
func product(e fs.DirEntry) bool {
	name := e.Name()
	return !e.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
		!strings.HasSuffix(name, ".pb.go") && !strings.HasPrefix(name, "zz_generated")
}

// resolve finds the uses between the files. It needs no knowledge of
// other packages, except those whose generic functions pass types on.
func (r *Room) resolve(files *token.FileSet, parsed []*ast.File) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: passing{importer.ForCompiler(files, "source", nil)}, Error: func(error) {}}
	p, _ := config.Check(r.Path, files, parsed, info) // the errors are about other packages
	in := func(at token.Pos) string { return filepath.Base(files.Position(at).Filename) }
	for id, o := range info.Uses {
		if o.Pkg() != p || o.Parent() != nil && o.Parent() != p.Scope() {
			continue // of another package, or within a function
		}
		if a := (Arrow{in(id.Pos()), in(o.Pos())}); a.From != a.To {
			r.Uses[a]++
		}
	}
	for _, name := range p.Scope().Names() {
		t, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || t.IsAlias() {
			continue
		}
		of, ok := t.Type().(*types.Named)
		if !ok {
			continue
		}
		r.Methods[name] = of.NumMethods()
		if s, ok := of.Underlying().(*types.Struct); ok {
			r.Fields[name] = s.NumFields()
		}
	}
}

// passing imports a few packages, and returns an empty package for all others.
type passing struct{ source types.Importer }

func (i passing) Import(path string) (*types.Package, error) {
	if slices.Contains([]string{"cmp", "iter", "maps", "slices"}, path) {
		return i.source.Import(path)
	}
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

// Back returns the number of uses of declarations in a later file
// of an order, and the number of uses of other files in total.
func (r *Room) Back(order []string) (back, all int, arrows map[Arrow]int) {
	place := make(map[string]int, len(order))
	for i, name := range order {
		place[name] = i
	}
	arrows = map[Arrow]int{}
	for a, n := range r.Uses {
		if all += n; place[a.From] < place[a.To] {
			back += n
			arrows[a] = n
		}
	}
	return back, all, arrows
}

// Suggest returns an order with few back arrows.
func (r *Room) Suggest() []string {
	order := slices.Clone(r.Files)
	best, _, _ := r.Back(order)
	for better := true; better; {
		better = false
		for from := range order {
			for to := range order {
				next := slices.Insert(slices.Delete(slices.Clone(order), from, from+1), to, order[from])
				if back, _, _ := r.Back(next); back < best {
					order, best, better = next, back, true
				}
			}
		}
	}
	return order
}
