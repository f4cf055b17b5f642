package tools

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const (
	kubernetesBundle = "kubernetes"
	kwokBundle       = "kwok"
	kubeletBundle    = "fake-kubelet"
	helmBundle       = "helm"
	operatorsBundle  = "operators"
	longBundle       = "operators136"
	trainingBundle   = "training-operator"
)

// bundle is a set of programs that are built from one module into one folder.
type bundle struct {
	name     string
	dir      string   // the module's folder, absolute
	sources  []string // folders whose Go files are part of the key, absolute
	programs []program
	copies   []copied
}

// copied is a file or a folder that is copied from a module.
type copied struct {
	module string
	path   string // in the module
	name   string // in the bundle's folder
}

// program is one main package and how it is linked.
type program struct {
	name    string
	pkg     string
	ldflags string
}

// bundlesOf returns the bundles of the repository at root.
func bundlesOf(root string) ([]*bundle, error) {
	k8s := filepath.Join(root, "hack", "tools", "k8s")
	stamp, err := versionStamp(filepath.Join(k8s, "go.mod"))
	if err != nil {
		return nil, err
	}
	kubernetes := &bundle{name: kubernetesBundle, dir: k8s, programs: []program{
		{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", ldflags: "-s -w"},
	}}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"} {
		kubernetes.programs = append(kubernetes.programs,
			program{name: name, pkg: "k8s.io/kubernetes/cmd/" + name, ldflags: "-s -w " + stamp})
	}
	kwok := &bundle{
		name:     kwokBundle,
		dir:      filepath.Join(root, "hack", "tools", "kwok"),
		programs: []program{{name: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", ldflags: "-s -w"}},
	}
	for name, path := range map[string]string{
		NodeInitialize: "kustomize/stage/node/fast/node-initialize.yaml",
		NodeHeartbeat:  "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
		PodReady:       "kustomize/stage/pod/fast/pod-ready.yaml",
		KwokRole:       "kustomize/rbac/role.yaml",
	} {
		kwok.copies = append(kwok.copies, copied{module: "sigs.k8s.io/kwok", path: path, name: name})
	}
	slices.SortFunc(kwok.copies, func(a, b copied) int { return cmp.Compare(a.name, b.name) }) // for the key
	kubelet := &bundle{
		name: kubeletBundle,
		dir:  root,
		sources: []string{
			filepath.Join(root, "test", "cluster", "fake-kubelet"),
			filepath.Join(root, "test", "cluster", "kubelet"),
		},
		programs: []program{{name: "fake-kubelet", pkg: modulePath + "/test/cluster/fake-kubelet", ldflags: "-s -w"}},
	}
	helm := &bundle{
		name:     helmBundle,
		dir:      filepath.Join(root, "hack", "tools", "helm"),
		programs: []program{{name: "helm", pkg: "helm.sh/helm/v4/cmd/helm", ldflags: "-s -w"}},
	}
	return []*bundle{kubernetes, kwok, kubelet, helm}, nil
}

// operatorsOf returns the bundle of the operators.
func operatorsOf(root string) *bundle {
	dir := filepath.Join(root, "hack", "tools", "operators")
	return &bundle{
		name: operatorsBundle, dir: dir, sources: []string{filepath.Join(dir, "mpi-operator")},
		programs: []program{
			{name: "jobset", pkg: "sigs.k8s.io/jobset", ldflags: "-s -w"},
			{name: "leaderworkerset", pkg: "sigs.k8s.io/lws/cmd", ldflags: "-s -w"},
			{name: "mpi-operator", pkg: modulePath + "/hack/tools/operators/mpi-operator", ldflags: "-s -w"},
		},
		copies: []copied{
			{module: "sigs.k8s.io/jobset", path: "config", name: "jobset-manifests"},
			{module: "sigs.k8s.io/lws", path: "config", name: "leaderworkerset-manifests"},
			{module: "github.com/kubeflow/mpi-operator", path: "manifests", name: "mpi-operator-manifests"},
		},
	}
}

// longOperatorsOf returns the bundles of the operators that only long tests start. They do not compile with
// the packages of Kubernetes 1.37, so nothing else here needs what they are built from.
func longOperatorsOf(root string) []*bundle {
	dir, training := filepath.Join(root, "hack", "tools", "operators136"), filepath.Join(root, "hack", "tools", "training-operator")
	return []*bundle{{
		name: longBundle, dir: dir, sources: []string{filepath.Join(dir, "kueue")},
		programs: []program{
			{name: "kueue", pkg: modulePath + "/hack/tools/operators136/kueue", ldflags: "-s -w"},
			{name: "trainer", pkg: "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager", ldflags: "-s -w"},
		},
		copies: []copied{
			{module: "sigs.k8s.io/kueue", path: "config", name: "kueue-manifests"},
			{module: "github.com/kubeflow/trainer/v2", path: "manifests", name: "trainer-manifests"},
			{module: "github.com/ray-project/kuberay/ray-operator", path: "config/crd/bases", name: "kuberay-crds"},
		},
	}, {
		name: trainingBundle, dir: training, sources: []string{training},
		programs: []program{{name: "training-operator", pkg: modulePath + "/hack/tools/training-operator", ldflags: "-s -w"}},
		copies:   []copied{{module: "github.com/kubeflow/training-operator", path: "manifests", name: "training-operator-manifests"}},
	}}
}

// versionStamp returns the linker flags that give the Kubernetes programs the version
// that goMod requires. Without a stamp they call themselves v0.0.0 and refuse each other.
func versionStamp(goMod string) (string, error) {
	text, err := os.ReadFile(goMod)
	if err != nil {
		return "", fmt.Errorf("read the Kubernetes version: %w", err)
	}
	m := regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("read the Kubernetes version: %s does not require k8s.io/kubernetes", goMod)
	}
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range [][2]string{
			{"gitVersion", string(m[1])},
			{"gitMajor", string(m[2])},
			{"gitMinor", string(m[3])},
			{"gitTreeState", "archive"},
			{"gitCommit", "unknown"},
		} {
			flags = append(flags, fmt.Sprintf("-X %s.%s=%s", pkg, v[0], v[1]))
		}
	}
	return strings.Join(flags, " "), nil
}

// key returns a hash of everything that the content of the bundle's folder depends on.
func (b *bundle) key() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildFlags(), buildEnv())
	for _, p := range b.programs {
		fmt.Fprintln(h, p.name, p.pkg, p.ldflags)
	}
	fmt.Fprintln(h, b.copies)
	inputs := []string{filepath.Join(b.dir, "go.mod"), filepath.Join(b.dir, "go.sum")}
	for _, dir := range b.sources {
		found, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return "", err
		}
		for _, f := range found {
			if !strings.HasSuffix(f, "_test.go") {
				inputs = append(inputs, f)
			}
		}
	}
	for _, path := range inputs {
		if err := hashFile(h, path); err != nil {
			return "", fmt.Errorf("hash the inputs: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// hashFile adds a file's name and contents to h.
func hashFile(h io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintln(h, filepath.Base(path), info.Size())
	_, err = io.Copy(h, f)
	return err
}
