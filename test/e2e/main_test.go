// Package e2e tests Fluence as users meet it: all three programs
// as processes, on a real control plane with simulated nodes.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/rights"
	"github.com/flux-k8s/fluence/test/stack"
)

// fluence is the stack on which all stories run, one after another.
var fluence *stack.Stack

// plain installs Fluence by the plain manifests instead of the chart.
var plain = flag.Bool("plain", false, "install Fluence by the plain manifests, without the chart")

var (
	// sidecar is another sidecar to run the stories with, such as one with Fluxion's library.
	sidecar = flag.String("sidecar", "", "the absolute path of a program to run instead of the fluence-sidecar of this repository")
	// sidecarArgs are its flags beside those of the installation.
	sidecarArgs = flag.String("sidecar-args", "", "further flags of the sidecar, with blanks between them")
)

// metricsAddress is the address of the sidecar's metrics.
var metricsAddress string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{StockScheduler: true, Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if metricsAddress, err = freeAddress(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	chart := &stack.Chart{}
	if *plain {
		chart = nil
	}
	fluence, err = stack.Start(ctx, c, stack.Config{
		Chart:          chart,
		SidecarBinary:  *sidecar,
		SidecarArgs:    strings.Fields(*sidecarArgs),
		SidecarMetrics: metricsAddress,
		Args:           map[string]any{"topologyLevels": []string{"topology.kubernetes.io/zone"}},
		Verbosity:      4,
		Log:            os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if !*plain {
		if missing := missingRights(); len(missing) > 0 {
			fmt.Fprintln(os.Stderr, "FAIL: rights that the chart does not give:", strings.Join(missing, "; "))
			return 1
		}
	}
	return code
}

// missingRights returns the rights that Fluence's accounts were refused in all stories and
// do not have. An API server that is starting may refuse a right that it has not read yet.
func missingRights() []string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var missing []string
	for _, account := range []string{stack.Scheduler, stack.Controller} {
		user := "system:serviceaccount:" + stack.Namespace + ":" + account
		record, err := rights.Read(fluence.AuditEvents(), user)
		if err != nil {
			missing = append(missing, err.Error())
		}
		for _, r := range record.Denied {
			if granted, err := mayNow(ctx, user, r); err != nil || !granted {
				missing = append(missing, fmt.Sprintf("%s: %s (%v)", account, r, err))
			}
		}
	}
	return missing
}

// mayNow asks the API server whether a service account has a right.
func mayNow(ctx context.Context, user string, r rights.Right) (bool, error) {
	resource, sub, _ := strings.Cut(r.Resource, "/")
	review, err := fluence.Client().AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + stack.Namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: sub, Namespace: r.Namespace, Name: r.Name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
