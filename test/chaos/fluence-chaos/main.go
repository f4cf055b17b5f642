// Command fluence-chaos runs Fluence on a new control plane and does to it whatever may
// happen, in an order that a seed decides. It reports whether Fluence kept its promises.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flux-k8s/fluence/test/chaos"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, errTold) {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(1)
}

func command() *cobra.Command {
	var cfg chaos.Config
	standby, preemption, queues := bySeed, bySeed, bySeed
	cmd := &cobra.Command{
		Use:   "fluence-chaos",
		Short: "Let everything happen to Fluence that a seed can think of",
		// Errors are printed before the last line, which has the result.
		SilenceUsage: true, SilenceErrors: true,
	}
	flags := cmd.PersistentFlags()
	flags.Uint64Var(&cfg.Seed, "seed", 0, "what decides the events; 0 draws a fresh one")
	flags.IntVar(&cfg.Events, "events", 500, "how many events happen")
	flags.IntVar(&cfg.Nodes, "nodes", 24, "how many nodes there are at first")
	flags.StringToIntVar(&cfg.Weights, "weights", nil, "weights of kinds of events over the defaults, such as kill=0,burst=10")
	flags.StringVar(&preemption, "preemption", preemption, "yes: groups evict others of a lower priority; no: they do not; seed: if the seed divided by 4 leaves 2 or 3")
	flags.StringVar(&queues, "queues", queues, "yes: there are queues, and Jobs and pods in them; no: there are none; seed: if the seed divided by 8 leaves 4 or more")
	flags.IntVar(&cfg.Promises, "promises", 0, "how many groups that wait are promised room; above 0 most groups have an end, which is enforced")
	run := &cobra.Command{
		Use:   "run",
		Short: "Carry a plan out; the last line sums it up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Log = cmd.OutOrStdout()
			return carryOut(cmd.Context(), cfg, switches{standby, preemption, queues}, given(cmd.Flags()))
		},
	}
	flags = run.Flags()
	flags.IntVar(&cfg.MaxGroups, "max-groups", 60, "how many groups live at a time")
	flags.IntVar(&cfg.MaxPods, "max-pods", 400, "how many of their pods live at a time")
	flags.Float64Var(&cfg.Rate, "rate", 25, "how many events happen a second at the most")
	flags.StringVar(&standby, "standby", standby, "yes: run a second scheduler, so that killing the leader is a failover; no: do not; seed: if the seed is odd")
	flags.DurationVar(&cfg.Lease, "lease", 0, "how long a scheduler that says nothing still leads (default 3s)")
	flags.DurationVar(&cfg.Settle, "settle", 0, "bound of the wait for rest at the end (default 2m)")
	flags.StringVar(&cfg.Dir, "dir", "", "folder of the cluster's state; a temporary one by default")
	flags.BoolVar(&cfg.Keep, "keep", false, "keep the cluster's folder if something was wrong")
	plan := &cobra.Command{
		Use:   "plan",
		Short: "Print a plan, one event a line",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := (switches{standby, preemption, queues}).set(&cfg); err != nil {
				return err
			}
			plan, err := chaos.NewPlan(cfg)
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), plan)
			return nil
		},
	}
	cmd.AddCommand(run, plan)
	return cmd
}

// errTold means that the run did not pass and the output has the reasons.
var errTold = errors.New("the run did not pass")

// bySeed lets the seed decide.
const bySeed = "seed"

// chosen reads a flag that is yes, no or bySeed.
func chosen(flag, value string, bySeeds bool) (bool, error) {
	switch value {
	case bySeed:
		return bySeeds, nil
	case "yes", "no":
		return value == "yes", nil
	default:
		return false, fmt.Errorf("--%s=%s: must be yes, no or seed", flag, value)
	}
}

// given returns the flags that were given besides seed and events, as given.
func given(flags *pflag.FlagSet) string {
	var all []string
	flags.Visit(func(f *pflag.Flag) {
		if f.Name == "seed" || f.Name == "events" {
			return
		}
		value := f.Value.String()
		if f.Value.Type() == "stringToInt" {
			value = strings.Trim(value, "[]")
		}
		all = append(all, "--"+f.Name+"="+value)
	})
	if len(all) == 0 {
		return ""
	}
	return " CHAOS='" + strings.Join(all, " ") + "'"
}

// switches are the values of the flags that are yes, no or bySeed.
type switches struct{ standby, preemption, queues string }

// set sets what the switches say.
func (s switches) set(cfg *chaos.Config) (err error) {
	if cfg.Standby, err = chosen("standby", s.standby, cfg.Seed%2 == 1); err != nil {
		return err
	}
	if cfg.Preemption, err = chosen("preemption", s.preemption, cfg.Seed%4 >= 2); err != nil {
		return err
	}
	cfg.Queues, err = chosen("queues", s.queues, cfg.Seed%8 >= 4)
	return err
}

func carryOut(ctx context.Context, cfg chaos.Config, by switches, flags string) error {
	if cfg.Seed == 0 {
		cfg.Seed = fresh()
	}
	if err := by.set(&cfg); err != nil {
		return err
	}
	fmt.Fprintf(cfg.Log, "seed %d, %d events, standby %t, preemption %t, queues %t, promises %d; again by: make chaos SEED=%d EVENTS=%d%s\n", cfg.Seed, cfg.Events, cfg.Standby, cfg.Preemption, cfg.Queues, cfg.Promises, cfg.Seed, cfg.Events, flags)
	result, err := chaos.Run(ctx, cfg)
	if err != nil {
		fmt.Fprintln(cfg.Log, "Error:", err)
	}
	result.Seed = cfg.Seed
	if why := result.Why(); why != "" {
		fmt.Fprintln(cfg.Log, "Did not pass:", why)
	}
	fmt.Fprintln(cfg.Log, result)
	if err != nil || !result.Passed() {
		return errTold
	}
	return nil
}

// fresh returns a random seed that is short enough to type.
func fresh() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])%1_000_000_000 + 1
}
