package fluxjob

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// The values of the label action.
const (
	actionCreated   = "created"
	actionReleased  = "released"
	actionTakenBack = "taken_back"
	actionFinished  = "finished"
	actionDeleted   = "deleted"
)

// newCounter registers the counter of FluxJobs, or finds it if it is registered already.
func newCounter(r prometheus.Registerer) (*prometheus.CounterVec, error) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fluence_controller_fluxjobs_total", Help: "FluxJobs that the controller created, released, took back from their workloads, found finished or deleted, by action.",
	}, []string{"action"})
	err := r.Register(c)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if registered, is := before.ExistingCollector.(*prometheus.CounterVec); is {
			c, err = registered, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register a metric: %w", err)
	}
	for _, action := range []string{actionCreated, actionReleased, actionTakenBack, actionFinished, actionDeleted} {
		c.WithLabelValues(action)
	}
	return c, nil
}
