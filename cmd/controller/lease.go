package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/leaderelection"
)

// leaseTimes are the times of the lease by which one replica works at a time.
type leaseTimes struct {
	// duration is how long the lease of a replica that
	// died keeps the next one waiting. Defaults to 15s.
	duration time.Duration
	// renew is how long the replica that works tries to
	// renew its lease before it gives up. Defaults to 10s.
	renew time.Duration
	// retry is how often each replica tries to get or renew the lease. Defaults to 2s.
	retry time.Duration
}

func defaultLeaseTimes() leaseTimes {
	return leaseTimes{duration: 15 * time.Second, renew: 10 * time.Second, retry: 2 * time.Second}
}

const (
	durationFlag = "leader-elect-lease-duration"
	renewFlag    = "leader-elect-renew-deadline"
	retryFlag    = "leader-elect-retry-period"
)

func (l *leaseTimes) addFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&l.duration, durationFlag, l.duration, "How long the other replicas wait for the lease of a leader that died.")
	fs.DurationVar(&l.renew, renewFlag, l.renew, "How long the leader tries to renew its lease before it gives up and exits; less than the lease's duration.")
	fs.DurationVar(&l.retry, retryFlag, l.retry, "How often each replica tries to get or renew the lease; less than 5/6 of the deadline.")
}

// check fails for times with which no replica can hold
// a lease. An error names the flag and its value.
func (l *leaseTimes) check() error {
	switch {
	case l.duration < time.Second || l.duration%time.Second != 0:
		return fmt.Errorf("--%s %s: must be whole seconds, at least one", durationFlag, l.duration) // as a Lease has it
	case l.retry <= 0:
		return fmt.Errorf("--%s %s: must be more than 0", retryFlag, l.retry)
	case l.duration <= l.renew:
		return fmt.Errorf("--%s %s: must be longer than --%s, %s", durationFlag, l.duration, renewFlag, l.renew)
	case l.renew <= time.Duration(leaderelection.JitterFactor*float64(l.retry)):
		return fmt.Errorf("--%s %s: must be longer than %g times --%s, %s", renewFlag, l.renew, leaderelection.JitterFactor, retryFlag, l.retry)
	default:
		return nil
	}
}
