package images_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/cluster/tools"
	"github.com/flux-k8s/fluence/test/images"
)

// root returns the repository's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := tools.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, name string) *images.Dockerfile {
	t.Helper()
	d, err := images.Read(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// dockerfiles are the project's Dockerfiles, each with the programs of its image.
var dockerfiles = map[string][]string{
	"Dockerfile.scheduler": {"fluence-scheduler", "fluence-controller", "fluence-sidecar"},
	"Dockerfile.sidecar":   {"fluence-sidecar"},
}

func TestStages(t *testing.T) {
	for name, programs := range dockerfiles {
		t.Run(name, func(t *testing.T) {
			d := read(t, name)
			seen := map[string]bool{}
			for _, s := range d.Stages {
				if s.Name == "" || seen[s.Name] {
					t.Errorf("stage %q from %q has no name of its own", s.Name, s.From)
				}
				if s.From == "" {
					t.Errorf("stage %q begins with an argument that has no default", s.Name)
				}
				for _, step := range s.Steps {
					if from, _, ok := copied(step); ok && from != "" && !seen[from] {
						t.Errorf("stage %q copies from %q, which is no stage before it", s.Name, from)
					}
				}
				seen[s.Name] = true
			}
			last := d.Stages[len(d.Stages)-1]
			for _, s := range d.Stages[:len(d.Stages)-1] {
				if s.From == last.From {
					t.Errorf("the image has all of %q, in which stage %q builds", s.From, s.Name)
				}
			}
			user, entry := lastOf(last, "USER"), lastOf(last, "ENTRYPOINT")
			if uid, _, _ := strings.Cut(user, ":"); uid == "" || uid == "root" || uid == "0" {
				t.Errorf("the image runs as %q", user)
			}
			if want := `["/usr/local/bin/` + programs[0] + `"]`; entry != want {
				t.Errorf("the image starts %s, want %s", entry, want)
			}
			for _, p := range programs {
				if !slices.ContainsFunc(last.Steps, func(s images.Step) bool {
					_, sources, ok := copied(s)
					return ok && slices.Contains(sources, "/out/"+p)
				}) {
					t.Errorf("the image has no %s", p)
				}
			}
		})
	}
}

// lastOf returns the last instruction of a kind.
func lastOf(s images.Stage, word string) string {
	for _, step := range slices.Backward(s.Steps) {
		if step.Word == word {
			return step.Rest
		}
	}
	return ""
}

// copied parses a COPY. from is the stage, "" for the context.
func copied(s images.Step) (from string, sources []string, ok bool) {
	if s.Word != "COPY" {
		return "", nil, false
	}
	for w := range strings.FieldsSeq(s.Rest) {
		if stage, ok := strings.CutPrefix(w, "--from="); ok {
			from = stage
			continue
		}
		sources = append(sources, w)
	}
	return from, sources[:len(sources)-1], true
}

// mounts matches the options of a RUN, which are for the builder.
var mounts = regexp.MustCompile(`^(--\S+\s+)+`)

// TestCommands runs the commands of the builds as they are written, with only the files that
// the builds copy. A library that links but does nothing replaces the sidecar's base image.
func TestCommands(t *testing.T) {
	for name, programs := range dockerfiles {
		t.Run(name, func(t *testing.T) {
			if name == "Dockerfile.sidecar" {
				requireCompiler(t)
			}
			out := t.TempDir()
			ran := 0
			for _, s := range read(t, name).Stages {
				src := t.TempDir()
				for _, step := range s.Steps {
					if from, sources, ok := copied(step); ok && from == "" {
						copyAll(t, sources, src)
					}
					if step.Word == "RUN" {
						run(t, s, inShell(t, mounts.ReplaceAllString(step.Rest, "")), src, out)
						ran++
					}
				}
			}
			if ran == 0 {
				t.Fatal("nothing is built")
			}
			if name == "Dockerfile.sidecar" {
				hasItsLibraries(t, filepath.Join(out, "lib"))
			}
			for _, p := range programs {
				starts(t, filepath.Join(out, p))
			}
		})
	}
}

// requireCompiler skips a test that cannot run because there is no C compiler.
func requireCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("the binding of Fluxion's library is not compiled: there is no C compiler: %v", err)
	}
}

// With the tag fluxion_subgraph one more file is compiled and linked, which calls the library beside
// fluxion-go. It takes the handle out of the client of fluxion-go, which the compiler does not check.
func TestTheSubgraphCallsHaveTheHandleOfTheBinding(t *testing.T) {
	requireCompiler(t)
	source, prefix := standIn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	const name = "TestTheHandleOfTheBindingIsFound"
	c := exec.CommandContext(ctx, "go", "test", "-tags", "fluxion,fluxion_subgraph", "-vet=off", "-count=1", "-v", "-run", "^"+name+"$", "./sidecar/fluxion")
	c.Dir = root(t)
	c.Env = append(os.Environ(), "CGO_ENABLED=1",
		"CGO_CFLAGS=-I"+source+" -I"+source+"/resource/reapi/bindings/c -I"+prefix+"/include",
		"CGO_LDFLAGS=-L"+prefix+"/lib/flux -l"+strings.Join(linked, " -l")+" -lstdc++")
	text, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: "+name) {
		t.Errorf("%v: %s", err, text)
	}
}

// inShell returns a command for a shell. A command written as a list of words
// runs in the image without a shell. Here the built files have other paths.
func inShell(t *testing.T, command string) string {
	t.Helper()
	if !strings.HasPrefix(command, "[") {
		return command
	}
	var words []string
	if err := json.Unmarshal([]byte(command), &words); err != nil {
		t.Fatalf("RUN %s: %v", command, err)
	}
	return strings.ReplaceAll(strings.Join(words, " "), "/usr/local/bin/", "/out/")
}

// hasItsLibraries checks that a folder has the libraries that the sidecar is
// linked with, except the C library, and that the sidecar uses only these.
func hasItsLibraries(t *testing.T, dir string) {
	t.Helper()
	// The replacement of Fluxion uses none of the others, so the linker leaves them out.
	if found, _ := filepath.Glob(filepath.Join(dir, "libreapi_cli.so*")); len(found) != 1 {
		t.Errorf("the image has the libraries %q of Fluxion, want one", found)
	}
	for _, name := range []string{"libc.so*", "libm.so*", "ld-*"} {
		if found, _ := filepath.Glob(filepath.Join(dir, name)); len(found) != 0 {
			t.Errorf("the image has %q, which is of another C library than its own", found)
		}
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
}

// A builder of images may set the base images by their digests.
func TestEveryImageIsAnArgument(t *testing.T) {
	from := regexp.MustCompile(`(?m)^FROM (\S+)`)
	for name := range dockerfiles {
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		found := from.FindAllStringSubmatch(string(text), -1)
		for _, m := range found {
			argument := strings.TrimSuffix(strings.TrimPrefix(m[1], "${"), "}")
			if !strings.HasPrefix(m[1], "${") || !strings.Contains(string(text), "\nARG "+argument+"=") {
				t.Errorf("%s: %s is not given by an argument with a default", name, m[1])
			}
		}
		if len(found) < 2 {
			t.Errorf("%s: %d stages were found", name, len(found))
		}
	}
}

func copyAll(t *testing.T, sources []string, to string) {
	t.Helper()
	c, err := images.OpenContext(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources {
		if err := c.Copy(s, to); err != nil {
			t.Errorf("COPY %s: %v", s, err)
		}
	}
}

// run runs a command of a stage in the folder src. Its output to /out goes to out.
func run(t *testing.T, s images.Stage, command, src, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(command, "/out/", out+"/"))
	c.Dir = src
	env := maps.Clone(s.Args)
	maps.Copy(env, s.Env)
	delete(env, "PATH")
	env["VERSION"] = "v1.2.3"
	if _, ok := s.Args["FLUX_SCHED_ROOT"]; ok {
		env["FLUX_SCHED_ROOT"], env["FLUX_PREFIX"] = standIn(t)
	}
	// The image's libraries have another path here.
	if libraries, ok := env["LD_LIBRARY_PATH"]; ok {
		env["LD_LIBRARY_PATH"] = strings.ReplaceAll(libraries, "/usr/local/lib/fluence", filepath.Join(out, "lib"))
	}
	c.Env = os.Environ()
	for name, value := range env {
		c.Env = append(c.Env, name+"="+value)
	}
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, text)
	}
}

// linked are the libraries that the sidecar is linked with, except the C++ library.
var linked = []string{"reapi_cli", "flux-idset", "jansson", "hwloc", "flux-hostlist", "boost_graph", "yaml-cpp"}

// standIn compiles the replacement of Fluxion's library.
// It returns the root of its source and its prefix.
func standIn(t *testing.T) (source, prefix string) {
	t.Helper()
	source, prefix = filepath.Join(root(t), "test/images/testdata/flux-sched"), t.TempDir()
	lib := filepath.Join(prefix, "lib", "flux")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	// The headers of flux-core are below the prefix alone.
	include := filepath.Join(prefix, "include")
	if err := os.CopyFS(include, os.DirFS(filepath.Join(root(t), "test/images/testdata/flux-core"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range linked {
		args := []string{"-shared", "-fPIC", "-I" + source, "-I" + include, "-o", filepath.Join(lib, "lib"+name+".so")}
		if name == "reapi_cli" {
			args = append(args, filepath.Join(source, "library.c"))
		} else {
			args = append(args, "-x", "c", os.DevNull)
		}
		if text, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc %q: %v\n%s", args, err, text)
		}
	}
	t.Setenv("LD_LIBRARY_PATH", lib)
	return source, prefix
}

// starts checks that a program runs here.
func starts(t *testing.T, program string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, program, "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(text), filepath.Base(program)) {
		t.Errorf("%s --help: %v: %s", filepath.Base(program), err, text)
	}
}

func TestTheContextLeavesOutWhatIsIgnored(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		".dockerignore": "# no\n/bin\ntest\n**/*.prof\n", "bin/x": "", "cmd/a.go": "a", "cmd/cpu.prof": "", "tests/b": "", "test/c": "",
	} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := images.OpenContext(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"bin": true, "bin/x": true, "test/c": true, "cmd/cpu.prof": true, "cmd": false, "cmd/a.go": false, "tests/b": false,
	} {
		if got := c.Ignored(name); got != want {
			t.Errorf("Ignored(%q) = %v, want %v", name, got, want)
		}
	}
	to := t.TempDir()
	if err := c.Copy("cmd", to); err != nil {
		t.Errorf("Copy(cmd) = %v", err)
	}
	if found, _ := filepath.Glob(filepath.Join(to, "cmd", "*")); len(found) != 1 {
		t.Errorf("copied are %q, want a.go alone", found)
	}
	for _, name := range []string{"bin", "elsewhere"} {
		if c.Copy(name, to) == nil {
			t.Errorf("Copy(%s) found something", name)
		}
	}
}
