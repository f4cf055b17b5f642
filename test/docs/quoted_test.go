package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// said matches what a page quotes from the output of
// programs: reasons, and the beginnings of lines.
var said = regexp.MustCompile("`([A-Z][A-Za-z]+(?: [A-Za-z ,]+)?|you may [a-z ]+)[^`]*`")

// others are quotes of other programs.
var others = []string{"OutOfcpu", "OutOfmemory"}

func TestWhatIsQuotedIsWritten(t *testing.T) {
	var all strings.Builder
	for _, dir := range []string{"pkg", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root(t), dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	source := all.String()
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	quotes := said.FindAllStringSubmatch(string(page), -1)
	for _, q := range quotes {
		if text := strings.TrimSpace(q[1]); !strings.Contains(source, text) && !strings.Contains(strings.Join(others, " "), text) {
			t.Errorf("docs/troubleshooting.md quotes %q, which nothing writes", text)
		}
	}
	if len(quotes) < 20 {
		t.Errorf("%d quotes were found, want those of the tables", len(quotes))
	}
}
