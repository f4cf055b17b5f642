// Package images reads the project's Dockerfiles, so that
// they can be tested where no container can be built.
package images

import (
	"bufio"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// A Dockerfile is the stages of a Dockerfile, in order.
type Dockerfile struct {
	Stages []Stage
}

// A Stage is the part from one FROM to the next.
type Stage struct {
	// Name is the name after AS. From is the image after FROM, with arguments filled in.
	Name, From string
	// Args and Env are the values at the end of the stage.
	Args, Env map[string]string
	// Steps are the instructions.
	Steps []Step
}

// A Step is one instruction of a stage. Its arguments
// are not filled in. In RUN the shell does that.
type Step struct {
	Word string // in capitals
	Rest string
}

// Read reads a Dockerfile. It knows only the instructions that the project's Dockerfiles use.
func Read(name string) (*Dockerfile, error) {
	lines, err := instructions(name)
	if err != nil {
		return nil, err
	}
	d := &Dockerfile{}
	global := make(map[string]string)
	for _, line := range lines {
		word, rest, _ := strings.Cut(line, " ")
		word, rest = strings.ToUpper(word), strings.TrimSpace(rest)
		switch {
		case word == "FROM":
			s := Stage{Args: make(map[string]string), Env: make(map[string]string)}
			from, as, _ := strings.Cut(rest, " AS ")
			s.From, s.Name = fill(from, global), as
			d.Stages = append(d.Stages, s)
			continue
		case len(d.Stages) == 0 && word == "ARG":
			set(global, rest)
			continue
		case len(d.Stages) == 0:
			return nil, fmt.Errorf("read %s: %s before FROM", name, word)
		}
		s := &d.Stages[len(d.Stages)-1]
		switch word {
		case "ARG":
			set(s.Args, rest)
		case "ENV":
			for _, pair := range pairs(rest) {
				set(s.Env, fill(pair, s.variables()))
			}
		case "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT":
			s.Steps = append(s.Steps, Step{Word: word, Rest: rest})
		default:
			return nil, fmt.Errorf("read %s: instruction %q is not known", name, word)
		}
	}
	return d, nil
}

// variables returns the variables that a stage's instructions may use.
func (s *Stage) variables() map[string]string {
	all := maps.Clone(s.Args)
	maps.Copy(all, s.Env)
	return all
}

// instructions returns the instructions of a Dockerfile, each in one line.
func instructions(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []string
	more := false
	for in := bufio.NewScanner(f); in.Scan(); {
		line := strings.TrimSpace(in.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		part, goesOn := strings.CutSuffix(line, "\\")
		if more {
			lines[len(lines)-1] += " " + strings.TrimSpace(part)
		} else {
			lines = append(lines, strings.TrimSpace(part))
		}
		more = goesOn
	}
	return lines, nil
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// fill replaces each ${name} by its value.
func fill(text string, values map[string]string) string {
	return variable.ReplaceAllStringFunc(text, func(v string) string { return values[v[2:len(v)-1]] })
}

// set sets a value by name=value. It removes quotes.
func set(values map[string]string, pair string) {
	name, value, _ := strings.Cut(pair, "=")
	values[name] = strings.Trim(value, `"`)
}

var pair = regexp.MustCompile(`\w+=("[^"]*"|\S+)`)

// pairs splits a list of name=value.
func pairs(text string) []string { return pair.FindAllString(text, -1) }

// A Context is the part of a folder that a build
// gets: everything that .dockerignore does not name.
type Context struct {
	root   string
	ignore []string
}

// OpenContext returns the context of a folder, by its .dockerignore.
func OpenContext(root string) (*Context, error) {
	text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		return nil, err
	}
	c := &Context{root: root}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			c.ignore = append(c.ignore, strings.Trim(line, "/"))
		}
	}
	return c, nil
}

// Ignored reports whether a path of the context, or a folder above it, is left out.
func (c *Context) Ignored(name string) bool {
	for at := name; at != "."; at = path.Dir(at) {
		for _, pattern := range c.ignore {
			against := at
			if rest, ok := strings.CutPrefix(pattern, "**/"); ok {
				pattern, against = rest, path.Base(at)
			}
			if ok, _ := path.Match(pattern, against); ok {
				return true
			}
		}
	}
	return false
}

// Copy copies a file or folder of the context to a folder, as COPY
// does. It fails for a name that does not exist or is left out.
func (c *Context) Copy(name, to string) error {
	name = path.Clean(name)
	if c.Ignored(name) {
		return fmt.Errorf("copy %s: .dockerignore leaves it out", name)
	}
	return filepath.WalkDir(filepath.Join(c.root, name), func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(c.root, at)
		if err != nil {
			return err
		}
		switch target := filepath.Join(to, rel); {
		case c.Ignored(filepath.ToSlash(rel)):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		default:
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			return os.WriteFile(target, text, 0o644)
		}
	})
}
