package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped = regexp.MustCompile("[^a-z0-9 _-]")
)

// anchors returns the anchors of a page for links, by GitHub's rule.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

func TestLinksLeadSomewhere(t *testing.T) {
	links := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root(t), page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			links++
			to := filepath.Join(root(t), filepath.Dir(page), path)
			if path == "" {
				to = filepath.Join(root(t), page)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			target, err := os.ReadFile(to)
			if err != nil {
				t.Fatal(err)
			}
			if !anchors(string(target))[anchor] {
				t.Errorf("%s: %s: there is no such heading", page, m[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links were found", links)
	}
}

// Nobody finds a page without a link to it from the list of pages.
func TestEveryPageIsInTheIndex(t *testing.T) {
	index := filepath.Join("docs", "README.md")
	text, err := os.ReadFile(filepath.Join(root(t), index))
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{index: true}
	for _, m := range link.FindAllStringSubmatch(string(text), -1) {
		path, _, _ := strings.Cut(m[1], "#")
		linked[filepath.Join("docs", path)] = true
	}
	for _, page := range pages(t) {
		if !linked[page] {
			t.Errorf("%s has no link to %s", index, page)
		}
	}
	readme, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "("+index+")") {
		t.Errorf("README.md has no link to %s", index)
	}
}
