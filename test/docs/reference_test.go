package docs

import (
	"os/exec"
	"testing"
)

func TestTheReferenceIsUpToDate(t *testing.T) {
	pages := []string{"docs/reference.md"}
	if !testing.Short() { // builds the programs
		pages = append(pages, "docs/commands.md")
	}
	for _, page := range pages {
		cmd := exec.CommandContext(t.Context(), "go", "run", "./hack/reference", "-check", page)
		cmd.Dir = root(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", page, err, out)
		}
	}
}
