package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// commands returns the page that needs the programs: what they print with --help.
func commands() (string, error) {
	dir, err := os.MkdirTemp("", "reference")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	var b strings.Builder
	b.WriteString(`# Commands and flags

This page has the help of the programs, for users and administrators. ` + "`make generate`" + ` writes it; do not
edit it. [cli.md](cli.md) explains the commands of ` + "`kubectl fluence`" + ` with examples.
`)
	cli, err := build(dir, "kubectl-fluence")
	if err != nil {
		return "", err
	}
	root, err := help(cli)
	if err != nil {
		return "", err
	}
	b.WriteString(section("kubectl fluence", root))
	for _, verb := range verbs(root) {
		text, err := help(cli, verb)
		if err != nil {
			return "", err
		}
		text, _, _ = strings.Cut(text, "\nGlobal Flags:")
		b.WriteString(section("kubectl fluence "+verb, text))
	}
	b.WriteString(`
## fluence-scheduler

fluence-scheduler is kube-scheduler with the plugin Fluence, and has the flags of
[kube-scheduler](https://kubernetes.io/docs/reference/command-line-tools-reference/kube-scheduler/). The settings of
Fluence are [arguments of the plugin](reference.md#arguments-of-the-scheduler).
`)
	for _, name := range []string{"controller", "sidecar"} {
		path, err := build(dir, name)
		if err != nil {
			return "", err
		}
		text, err := help(path)
		if err != nil {
			return "", err
		}
		b.WriteString(section("fluence-"+name, text))
	}
	return b.String(), nil
}

// build builds one of the programs and returns its path.
func build(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	if out, err := exec.Command("go", "build", "-o", path, "./cmd/"+name).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/%s: %w\n%s", name, err, out)
	}
	return path, nil
}

// help returns what a program says of itself. It does not depend on who asks.
func help(path string, args ...string) (string, error) {
	cmd := exec.Command(path, append(args, "--help")...)
	cmd.Env = []string{"HOME=/home/you", "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --help: %w\n%s", path, err, out)
	}
	return string(out), nil
}

var verb = regexp.MustCompile(`(?m)^  ([a-z]+) `)

// verbs returns the commands that a help text lists. It leaves out the commands that cobra adds.
func verbs(text string) []string {
	_, text, _ = strings.Cut(text, "Available Commands:\n")
	text, _, _ = strings.Cut(text, "\n\n")
	var all []string
	for _, m := range verb.FindAllStringSubmatch(text, -1) {
		if m[1] != "help" && m[1] != "completion" {
			all = append(all, m[1])
		}
	}
	return all
}

// section returns a help text below a heading.
func section(title, text string) string {
	return "\n## " + title + "\n\n```text\n" + strings.TrimRight(text, "\n ") + "\n```\n"
}
