// Package tools builds the pinned programs of a control
// plane once, into a cache folder, and returns their paths.
//
// The go.mod and go.sum files under hack/tools, the sources of fake-kubelet and this
// package decide what is built. A folder's name has a hash of what it was built from. So
// a folder that exists is complete and current, and a second call starts no compiler. Two
// processes may call Build at the same time: one builds and the other waits. Invariant:
// an interrupted build leaves nothing that a later build takes for its result.
package tools

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Binaries are the paths of the programs. All paths are absolute.
type Binaries struct {
	// Etcd is the API server's store.
	Etcd string
	// APIServer is kube-apiserver.
	APIServer string
	// ControllerManager is kube-controller-manager.
	ControllerManager string
	// Scheduler is the stock kube-scheduler.
	Scheduler string
	// Kubectl is the command-line client.
	Kubectl string
	// Kwok simulates nodes and the pods that run on them.
	Kwok string
	// Kubelet is this repository's fake-kubelet, which decides which pods fit their node.
	Kubelet string
	// Helm renders and installs the chart.
	Helm string
	// KwokFiles is the folder with the files of the kwok
	// module: NodeInitialize and the other constants.
	KwokFiles string
}

// These are files of the kwok module in the folder Binaries.KwokFiles.
const (
	NodeInitialize = "node-initialize.yaml"
	NodeHeartbeat  = "node-heartbeat-with-lease.yaml"
	PodReady       = "pod-ready.yaml"
	KwokRole       = "role.yaml"
)

// Build builds the missing programs, and returns all programs. It writes its
// progress to log, one line for each program. It writes nothing if there is
// nothing to build. The repository is the one above the current directory.
func Build(ctx context.Context, log io.Writer) (*Binaries, error) {
	root, cache, err := folders()
	if err != nil {
		return nil, err
	}
	return build(ctx, root, cache, log)
}

// folders returns the repository's folder and the cache folder.
func folders() (root, cache string, err error) {
	if root, err = RepositoryRoot(); err != nil {
		return "", "", err
	}
	if cache, err = os.UserCacheDir(); err != nil {
		return "", "", fmt.Errorf("find the cache folder: %w", err)
	}
	return root, filepath.Join(cache, "fluence"), nil
}

// Operators are the paths of operators: controllers of other projects that make pods. All
// paths are absolute. They are built from the modules that hack/tools/operators pins.
type Operators struct {
	// JobSet is the controller of JobSet. JobSetManifests is the folder config of its module.
	JobSet, JobSetManifests string
	// LeaderWorkerSet is the controller of LeaderWorkerSet. LeaderWorkerSetManifests is the folder
	// config of its module.
	LeaderWorkerSet, LeaderWorkerSetManifests string
	// MPIOperator is the controller of MPIJob. MPIOperatorManifests is the folder manifests of its
	// module.
	MPIOperator, MPIOperatorManifests string
}

// BuildOperators builds the missing operators, as Build builds the programs of a control plane.
func BuildOperators(ctx context.Context, log io.Writer) (*Operators, error) {
	root, cache, err := folders()
	if err != nil {
		return nil, err
	}
	in, err := buildOne(ctx, operatorsOf(root), cache, log)
	if err != nil {
		return nil, err
	}
	return &Operators{
		JobSet: in("jobset"), JobSetManifests: in("jobset-manifests"),
		LeaderWorkerSet: in("leaderworkerset"), LeaderWorkerSetManifests: in("leaderworkerset-manifests"),
		MPIOperator: in("mpi-operator"), MPIOperatorManifests: in("mpi-operator-manifests"),
	}, nil
}

// LongOperators are the paths of the operators that only long tests start. All paths are absolute. They
// are built from the modules that hack/tools/operators136 and hack/tools/training-operator pin.
type LongOperators struct {
	// Kueue is the controller of Kueue. KueueManifests is the folder config of its module.
	Kueue, KueueManifests string
	// Trainer is the controller of TrainJob. TrainerManifests is the folder manifests of its module.
	Trainer, TrainerManifests string
	// TrainingOperator is the controller of PyTorchJob and the other kinds of kubeflow.org/v1.
	// TrainingOperatorManifests is the folder manifests of its module.
	TrainingOperator, TrainingOperatorManifests string
	// KubeRayCRDs is the folder of the CRDs of KubeRay. Its controller is not built.
	KubeRayCRDs string
}

// BuildLongOperators builds the missing ones of these operators. The first time it takes minutes.
func BuildLongOperators(ctx context.Context, log io.Writer) (*LongOperators, error) {
	root, cache, err := folders()
	if err != nil {
		return nil, err
	}
	bundles := longOperatorsOf(root)
	in, err := buildOne(ctx, bundles[0], cache, log)
	if err != nil {
		return nil, err
	}
	training, err := buildOne(ctx, bundles[1], cache, log)
	if err != nil {
		return nil, err
	}
	return &LongOperators{
		Kueue: in("kueue"), KueueManifests: in("kueue-manifests"),
		Trainer: in("trainer"), TrainerManifests: in("trainer-manifests"),
		KubeRayCRDs:      in("kuberay-crds"),
		TrainingOperator: training("training-operator"), TrainingOperatorManifests: training("training-operator-manifests"),
	}, nil
}

// buildOne builds a bundle, and returns a function that returns the path of a file in its folder.
func buildOne(ctx context.Context, b *bundle, cache string, log io.Writer) (in func(name string) string, err error) {
	dir, err := b.ensure(ctx, cache, &progress{log: log, total: len(b.programs)})
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", b.name, err)
	}
	return func(name string) string { return filepath.Join(dir, name) }, nil
}

// build does the work of Build for a repository and a cache folder.
func build(ctx context.Context, root, cache string, log io.Writer) (*Binaries, error) {
	bundles, err := bundlesOf(root)
	if err != nil {
		return nil, err
	}
	progress := &progress{log: log}
	for _, b := range bundles {
		progress.total += len(b.programs)
	}
	dirs := map[string]string{}
	for _, b := range bundles {
		if dirs[b.name], err = b.ensure(ctx, cache, progress); err != nil {
			return nil, fmt.Errorf("build %s: %w", b.name, err)
		}
	}
	k8s, kwok, kubelet := dirs[kubernetesBundle], dirs[kwokBundle], dirs[kubeletBundle]
	return &Binaries{
		Etcd:              filepath.Join(k8s, "etcd"),
		APIServer:         filepath.Join(k8s, "kube-apiserver"),
		ControllerManager: filepath.Join(k8s, "kube-controller-manager"),
		Scheduler:         filepath.Join(k8s, "kube-scheduler"),
		Kubectl:           filepath.Join(k8s, "kubectl"),
		Kwok:              filepath.Join(kwok, "kwok"),
		Kubelet:           filepath.Join(kubelet, "fake-kubelet"),
		Helm:              filepath.Join(dirs[helmBundle], "helm"),
		KwokFiles:         kwok,
	}, nil
}
