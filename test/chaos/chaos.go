package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// readEvery is the interval at which the counters are read.
const readEvery = 2 * time.Second

// Run carries out the plan of a configuration on a new cluster. An error means
// that the run could not be carried out. The result has what Fluence did wrong.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return Result{}, err
	}
	plan, err := NewPlan(cfg)
	if err != nil {
		return Result{}, err
	}
	temporary := cfg.Keep && cfg.Dir == ""
	if temporary { // a folder of the cluster's would be removed with it
		if cfg.Dir, err = os.MkdirTemp("", "fluence-chaos-"); err != nil {
			return Result{}, fmt.Errorf("make a folder: %w", err)
		}
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Dir:   cfg.Dir,
		Nodes: firstNodes(cfg.Nodes),
		// Native PodGroups are served.
		FeatureGates:  map[string]bool{"GenericWorkload": true},
		RuntimeConfig: map[string]bool{"scheduling.k8s.io/v1beta1": true},
		ExtraArgs: map[string][]string{
			cluster.KubeAPIServer: {"--event-ttl=10m"},
		},
		Log: cfg.Log,
	})
	if err != nil {
		return Result{}, err
	}
	result, err := runOn(ctx, cfg, plan, c)
	wrong := err != nil || !result.Passed()
	err = errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	if temporary && !wrong {
		err = errors.Join(err, os.RemoveAll(cfg.Dir))
	} else if cfg.Dir != "" {
		fmt.Fprintf(cfg.Log, "Logs and the audit log are in %s\n", cfg.Dir)
	}
	return result, err
}

// runOn carries out a plan on a cluster that has no Fluence yet.
func runOn(ctx context.Context, cfg Config, plan Plan, c *cluster.Cluster) (Result, error) {
	r, err := prepare(ctx, cfg, c)
	if err != nil {
		return Result{}, err
	}
	events, err := os.Create(filepath.Join(c.Dir(), "events.log"))
	if err != nil {
		return Result{}, fmt.Errorf("write down the events: %w", err)
	}
	defer events.Close()
	r.history.file = events
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.watch(ctx); err != nil {
		return Result{}, err
	}
	err = r.carryOut(ctx, plan)
	if err == nil {
		err = r.finish(ctx)
	}
	r.keeper.leave()
	r.tell(cfg.Log)
	return r.result(), err
}

// prepare starts Fluence and creates what the events need.
func prepare(ctx context.Context, cfg Config, c *cluster.Cluster) (*run, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	mode := "Never"
	if cfg.Preemption {
		mode = "LowerPriority"
	}
	args := map[string]any{"topologyLevels": levels(), "preemption": map[string]any{"mode": mode}}
	flags := []string{"--leader-elect=false", "--incomplete-timeout=" + incompleteTimeout.String(), "--empty-group-delay=" + linger.String()}
	if cfg.Promises > 0 {
		args["promises"], args["enforceDuration"] = map[string]any{"depth": cfg.Promises}, true
		flags = append(flags, "--enforce-duration")
	}
	s, err := stack.Start(ctx, c, stack.Config{
		Args:           args,
		Profile:        func(config map[string]any) { lead(config, cfg.Lease) },
		SidecarMetrics: address,
		Standby:        cfg.Standby,
		ControllerArgs: flags,
		Log:            cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	config := s.RESTConfig()
	r := &run{cfg: cfg, stack: s, lane: make(chan struct{}, 1), tally: newTally(s)}
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if r.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := r.furnish(ctx); err != nil || !cfg.Queues {
		return r, err
	}
	return r, r.makeQueues(ctx)
}

// lead sets a scheduler's lease to a short duration.
func lead(config map[string]any, lease time.Duration) {
	election := config["leaderElection"].(map[string]any)
	election["leaseDuration"], election["renewDeadline"], election["retryPeriod"] = lease.String(), (lease * 3 / 4).String(), (lease / 10).String()
}

// furnish creates the namespaces and the priority classes.
func (r *run) furnish(ctx context.Context) error {
	names := []string{foreignNamespace}
	for n := range namespaces {
		names = append(names, namespaceName(n))
	}
	for _, name := range names {
		if _, err := r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{wholeNodesLabel: "allowed"}}}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create a namespace: %w", err)
		}
		// The API server refuses pods in a namespace without a service account.
		if err := r.waitServiceAccount(ctx, name); err != nil {
			return err
		}
	}
	policy := corev1.PreemptNever
	if r.cfg.Preemption {
		policy = corev1.PreemptLowerPriority
	}
	for _, p := range []int32{-10, 10, 100} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: priorityClass(p)}, Value: p, PreemptionPolicy: &policy}
		if _, err := r.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create a priority class: %w", err)
		}
	}
	return nil
}

// watch begins to watch the cluster, the processes and Fluence.
func (r *run) watch(ctx context.Context) (err error) {
	if r.view, err = watchCluster(ctx, r.client); err != nil {
		return err
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	r.keeper = newKeeper(ctx, r.stack, r.cfg.Standby, r.tally.read, func(process string) {
		if process == stack.Controller {
			r.checker.ControllerBegan()
		}
	})
	if err := r.keeper.well(ctx); err != nil {
		return err
	}
	go r.pulse(ctx)
	go func() {
		tick := time.NewTicker(readEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				r.look(ctx)
			}
		}
	}()
	return nil
}
