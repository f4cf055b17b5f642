// Package operators runs controllers of other projects on a test cluster: those of JobSet,
// LeaderWorkerSet and MPIJob, and in long tests those of Kueue, Trainer and the training operator. They
// are the real programs, with the roles, the CRDs and the webhooks of their modules. They run as processes
// beside the control plane, with the rights of their service accounts.
//
//	manifests.go  What of a module's manifests is installed?
//	start.go      How is an operator started?
//	operators.go  Which operators are there?
package operators

import (
	"context"
	"fmt"
	"io"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// A Name is the name of an operator, and of its process.
type Name string

// The operators. The last three are for long tests: their first build takes minutes.
const (
	JobSet          Name = "jobset"
	LeaderWorkerSet Name = "leaderworkerset"
	MPIOperator     Name = "mpi-operator"
	Kueue           Name = "kueue"
	Trainer         Name = "trainer"
	// TrainingOperator has the kinds of kubeflow.org/v1, except MPIJob.
	TrainingOperator Name = "training-operator"
)

// An operator is how one operator is installed and started.
type operator struct {
	manifests
	// namespace and account are those of the operator's service account.
	namespace, account string
	// start starts the process and waits until it works.
	start func(ctx context.Context, r running) error
}

// operatorOf builds the program of an operator, and returns how it is installed and started.
func operatorOf(ctx context.Context, name Name, log io.Writer) (operator, error) {
	of := operatorsOf
	if name == Kueue || name == Trainer || name == TrainingOperator {
		of = longOperatorsOf
	}
	all, err := of(ctx, log)
	if err != nil {
		return operator{}, err
	}
	op, ok := all[name]
	if !ok {
		return operator{}, fmt.Errorf("start operator %q: there is none of this name", name)
	}
	return op, nil
}

// operatorsOf returns the operators of all tests, by name.
func operatorsOf(ctx context.Context, log io.Writer) (map[Name]operator, error) {
	built, err := tools.BuildOperators(ctx, log)
	if err != nil {
		return nil, err
	}
	return map[Name]operator{
		JobSet: {
			namespace: "jobset-system", account: "jobset-controller-manager",
			manifests: manifests{folder: built.JobSetManifests, kustomizations: []string{"default"}, crds: []string{"jobsets.jobset.x-k8s.io"}},
			start:     managerStart(built.JobSet, "config.jobset.x-k8s.io/v1alpha1"),
		},
		LeaderWorkerSet: {
			namespace: "lws-system", account: "lws-controller-manager",
			manifests: manifests{folder: built.LeaderWorkerSetManifests, kustomizations: []string{"default"}, crds: []string{"leaderworkersets.leaderworkerset.x-k8s.io"}},
			start:     managerStart(built.LeaderWorkerSet, "config.lws.x-k8s.io/v1alpha1"),
		},
		MPIOperator: {
			namespace: "kubeflow", account: "mpi-operator",
			manifests: manifests{folder: built.MPIOperatorManifests, kustomizations: []string{"base"}, namespace: "kubeflow", crds: []string{"mpijobs.kubeflow.org"}},
			start:     mpiStart(built.MPIOperator),
		},
	}, nil
}

// longOperatorsOf returns the operators of long tests, by name.
func longOperatorsOf(ctx context.Context, log io.Writer) (map[Name]operator, error) {
	built, err := tools.BuildLongOperators(ctx, log)
	if err != nil {
		return nil, err
	}
	return map[Name]operator{
		Kueue: {
			namespace: "kueue-system", account: "kueue-controller-manager",
			manifests: manifests{folder: built.KueueManifests, kustomizations: []string{"default"}, crds: []string{
				"clusterqueues.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io", "resourceflavors.kueue.x-k8s.io", "workloads.kueue.x-k8s.io",
			}},
			start: managerStart(built.Kueue, "config.kueue.x-k8s.io/v1beta2", func(config map[string]any) {
				config["manageJobsWithoutQueueName"] = false
				config["integrations"] = map[string]any{"frameworks": []string{"batch/job", "jobset.x-k8s.io/jobset"}}
				config["featureGates"] = map[string]bool{"MultiKueue": false}
			}),
		},
		Trainer: {
			namespace: "kubeflow-system", account: "kubeflow-trainer-controller-manager",
			// The folder overlays/manager would fetch the manifests of JobSet.
			manifests: manifests{
				folder: built.TrainerManifests, kustomizations: []string{"base/crds", "base/rbac", "base/webhook"}, namespace: "kubeflow-system",
				crds: []string{"trainjobs.trainer.kubeflow.org", "trainingruntimes.trainer.kubeflow.org", "clustertrainingruntimes.trainer.kubeflow.org"},
			},
			start: trainerStart(built.Trainer),
		},
		TrainingOperator: {
			namespace: "training", account: "training-operator",
			manifests: manifests{
				folder: built.TrainingOperatorManifests, kustomizations: []string{"base"}, namespace: "training",
				without: "mpijobs.kubeflow.org", // the CRD of the MPI operator has the same name
				crds:    []string{"pytorchjobs.kubeflow.org", "tfjobs.kubeflow.org", "xgboostjobs.kubeflow.org", "paddlejobs.kubeflow.org", "jaxjobs.kubeflow.org"},
			},
			start: trainingStart(built.TrainingOperator),
		},
	}, nil
}

// Start installs an operator in a cluster, and starts it as a process of this name. Start returns
// when the operator works. Its log is in the cluster's folder of logs. args are further flags. It may
// be called once for each operator.
func Start(ctx context.Context, c *cluster.Cluster, name Name, log io.Writer, args ...string) error {
	op, err := operatorOf(ctx, name, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "Starting %s\n", name)
	ports, err := cluster.FreePorts(1)
	if err != nil {
		return err
	}
	if err := op.install(ctx, c, ports[0]); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	kubeconfig, err := c.KubeconfigFor("system:serviceaccount:"+op.namespace+":"+op.account, "system:serviceaccounts", "system:serviceaccounts:"+op.namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	r := running{Cluster: c, name: string(name), args: args, kubeconfig: kubeconfig, webhookPort: ports[0]}
	if err := op.start(ctx, r); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}
