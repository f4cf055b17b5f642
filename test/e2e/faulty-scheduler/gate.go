package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// gate stops pods at a step of their scheduling as long as a file demands it. The file's
// first word is the step: "PreFilter", before the match, or "PreBind", after it. A second
// word is a label, and then only pods with that label stop. Without the file all pass.
type gate struct {
	File string `json:"file"`
}

var (
	_ fwk.PreFilterPlugin = &gate{}
	_ fwk.PreBindPlugin   = &gate{}
)

// gateEvery is the interval at which the file is read while a pod is stopped.
const gateEvery = 5 * time.Millisecond

func newGate(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	g := &gate{}
	if err := fwkruntime.DecodeInto(args, g); err != nil {
		return nil, fmt.Errorf("plugin Gate: %w", err)
	}
	return g, nil
}

// Name returns the plugin's name.
func (*gate) Name() string { return "Gate" }

// PreFilter stops the whole scheduling cycle.
func (g *gate) PreFilter(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, g.pass(ctx, "PreFilter", pod)
}

// PreFilterExtensions returns nil, because there is nothing to extend.
func (*gate) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PreBindPreFlight returns nil, so that PreBind is called.
func (*gate) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

// PreBind stops this pod alone.
func (g *gate) PreBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	return g.pass(ctx, "PreBind", pod)
}

// pass returns when the file lets the pod pass.
func (g *gate) pass(ctx context.Context, step string, pod *corev1.Pod) *fwk.Status {
	said := false
	err := wait.PollUntilContextCancel(ctx, gateEvery, true, func(context.Context) (bool, error) {
		stops, err := g.stops(step, pod)
		if stops && !said {
			said = true
			klog.InfoS("Stopped on purpose", "step", step, "pod", klog.KObj(pod))
		}
		return !stops, err
	})
	if err != nil {
		return fwk.AsStatus(err)
	}
	return nil
}

func (g *gate) stops(step string, pod *corev1.Pod) (bool, error) {
	text, err := os.ReadFile(g.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	words := strings.Fields(string(text))
	if len(words) == 0 || words[0] != step {
		return false, nil
	}
	if len(words) == 1 {
		return true, nil
	}
	_, labelled := pod.Labels[words[1]]
	return labelled, nil
}
