package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// A step is a command on a page and its output there, nil if the page shows none.
type step struct {
	command string
	shows   []string
}

// root returns the folder in which the commands of all pages run.
func root(t *testing.T) string {
	t.Helper()
	dir, err := tools.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// pages returns the paths of all pages, below the root.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	for _, pattern := range []string{"*.md", "*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root(t), "docs", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("pages docs/%s: %v, %v", pattern, found, err)
		}
		for _, path := range found {
			page, err := filepath.Rel(root(t), path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, page)
		}
	}
	return all
}

// heredoc matches a command that reads the following lines up to a line with this word.
var heredoc = regexp.MustCompile(`<<'(\w+)'$`)

// steps returns the commands of a page. In a block of sh each line is a command. In a
// block of console the lines after a dollar are commands, followed by their output.
func steps(t *testing.T, page string) []step {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), page))
	if err != nil {
		t.Fatal(err)
	}
	var all []step
	language, until, joined := "", "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			language = strings.TrimSpace(strings.TrimPrefix(line, "```"))
		case language != "sh" && language != "console":
		case joined, until != "":
			all[len(all)-1].command += "\n" + line
			if line == until {
				until = ""
			}
		case language == "console" && isCommand:
			all = append(all, step{command: command, shows: []string{}})
		case language == "console" && len(all) > 0:
			last := &all[len(all)-1]
			last.shows = append(last.shows, line)
		case line != "" && !strings.HasPrefix(line, "#"):
			all = append(all, step{command: line})
		}
		joined = strings.HasSuffix(line, `\`)
		if m := heredoc.FindStringSubmatch(line); m != nil {
			until = m[1]
		}
	}
	return all
}
