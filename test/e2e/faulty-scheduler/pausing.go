package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// pausing lets the pods with the label pausing wait between their reservation and
// their bind until this file exists: the window in which races are lost.
type pausing struct {
	File string `json:"file"`
}

var _ fwk.PreBindPlugin = &pausing{}

func newPausing(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	p := &pausing{}
	if err := fwkruntime.DecodeInto(args, p); err != nil {
		return nil, fmt.Errorf("plugin Pausing: %w", err)
	}
	return p, nil
}

// Name returns the plugin's name.
func (*pausing) Name() string { return "Pausing" }

// PreBindPreFlight picks the pods that wait.
func (*pausing) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if pod.Labels["pausing"] == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// PreBind waits.
func (p *pausing) PreBind(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ string) *fwk.Status {
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		_, err := os.Stat(p.File)
		return err == nil, nil
	})
	return fwk.AsStatus(err)
}
