package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// walk returns the uses below a folder: in Go files that are not generated, and on pages.
func (v vocabulary) walk(folder string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if e.Name() == "testdata" || e.Name() != "." && strings.HasPrefix(e.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		var uses []string
		switch filepath.Ext(path) {
		case ".go":
			uses, err = v.source(path)
		case ".md":
			var text []byte
			if text, err = os.ReadFile(path); err == nil {
				uses = v.text(path, string(text), 1)
			}
		}
		found = append(found, uses...)
		return err
	})
	return found, err
}

// source returns the uses in a Go file.
func (v vocabulary) source(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	var found []string
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".go"), "_test")
	for _, w := range v.files {
		if w.word == name && w.in(path) {
			found = append(found, fmt.Sprintf("%s: a file is not called %s: %s", path, name, w.better))
		}
	}
	declared(file, func(id *ast.Ident) {
		parts := split(id.Name)
		for _, w := range v.names {
			if slices.Contains(parts, w.word) && w.in(path) {
				found = append(found, fmt.Sprintf("%s: %s has the word %s: %s", set.Position(id.Pos()), id.Name, w.word, w.better))
			}
		}
	})
	for _, group := range file.Comments {
		start, end := set.Position(group.Pos()), set.Position(group.End())
		// The text is unchanged, so that the line numbers are right.
		found = append(found, v.text(path, string(text[start.Offset:end.Offset]), start.Line)...)
	}
	return found, nil
}

// text returns the phrases in a text that begins at a line of a file.
func (v vocabulary) text(path, text string, line int) []string {
	var found []string
	for _, p := range v.phrases {
		for _, at := range p.pattern.FindAllStringIndex(text, -1) {
			found = append(found, fmt.Sprintf("%s:%d: %q: %s", path, line+strings.Count(text[:at[0]], "\n"), strings.Join(strings.Fields(text[at[0]:at[1]]), " "), p.better))
		}
	}
	return found
}

func (w word) in(path string) bool {
	path = filepath.ToSlash(path)
	return w.folder == "" || strings.HasPrefix(path, w.folder+"/") || strings.Contains(path, "/"+w.folder+"/")
}

// declared calls a function with each name that a file declares.
func declared(file *ast.File, each func(*ast.Ident)) {
	all := func(ids []*ast.Ident) {
		for _, id := range ids {
			each(id)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			each(n.Name)
		case *ast.TypeSpec:
			each(n.Name)
		case *ast.ValueSpec:
			all(n.Names)
		case *ast.Field:
			all(n.Names)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					if id, ok := e.(*ast.Ident); ok {
						each(id)
					}
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				for _, e := range []ast.Expr{n.Key, n.Value} {
					if id, ok := e.(*ast.Ident); ok {
						each(id)
					}
				}
			}
		}
		return true
	})
}

// split returns the words of a name, in lower case. For example,
// inVain has in and vain, and APIServer has api and server.
func split(name string) []string {
	runes := []rune(name)
	var words []string
	begin := 0
	for i := 1; i <= len(runes); i++ {
		if i < len(runes) && runes[i] != '_' && !beginsWord(runes, i) {
			continue
		}
		if w := strings.Trim(string(runes[begin:i]), "_"); w != "" {
			words = append(words, strings.ToLower(w))
		}
		begin = i
	}
	return words
}

// beginsWord reports whether the letter at an index is a capital
// that begins a word: it follows a small letter, or precedes one.
func beginsWord(name []rune, i int) bool {
	return unicode.IsUpper(name[i]) && (unicode.IsLower(name[i-1]) || i+1 < len(name) && unicode.IsLower(name[i+1]))
}
