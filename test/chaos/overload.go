package chaos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/stack"
)

// overload gives Fluence few concurrent requests at the API server for a while,
// by the server's flow control, while several groups are created at once.
// Further requests wait in a queue, and requests beyond the queue are refused.
// So the server itself decides which request is slow or refused, and when. Other
// clients are not held up, so that they change the cluster as fast as ever.
type overload struct {
	// Share is Fluence's share of the server's concurrency, in the units
	// of flow control: 0 is one request at a time, 1 is about three.
	Share int
	// Line is the length of the queue.
	Line int
	// Reads holds up reads too, not only writes. Leases holds up requests for leases too.
	Reads, Leases bool
	// Groups are created at once.
	Groups []Workload
	For    time.Duration
	Rest   time.Duration
}

// overloaded is the name of the priority level and of the flow schema.
const overloaded = "chaos-overload"

func drawOverload(d *dice) Action {
	o := overload{
		Share:  oneOf(d, 0, 1, 1, 1),
		Line:   oneOf(d, 1, 4, 16),
		Reads:  d.chance(30),
		Leases: d.chance(30),
		For:    time.Duration(d.between(1000, 6000)) * time.Millisecond,
		Rest:   time.Duration(d.IntN(1000)) * time.Millisecond,
	}
	for range d.between(4, 12) {
		w := drawWorkload(d, oneOf(d, Job, Job, Pods, StatefulSet))
		w.Workers, w.Worker, w.Leader = d.between(2, 8), Shape{MilliCPU: oneOf(d, 50, 100, 250), MiB: 64}, nil
		w.Min = min(w.Min, w.Workers)
		o.Groups = append(o.Groups, w)
	}
	return o
}

func (o overload) String() string {
	pods := 0
	for _, g := range o.Groups {
		pods += g.Size()
	}
	return fmt.Sprintf("share %d and a line of %d for %v, reads=%t, leases=%t, %d groups of %d pods, rest %v", o.Share, o.Line, o.For, o.Reads, o.Leases, len(o.Groups), pods, o.Rest)
}

func (o overload) do(ctx context.Context, r *run) error {
	return r.begin(ctx, func(ctx context.Context) error {
		excuse := r.checker.ExcuseTime
		if o.Reads { // a watch that ended cannot begin again
			excuse = r.checker.Excuse
		}
		end := excuse("API server overloaded")
		defer end()
		before, err := r.refused(ctx)
		if err != nil {
			return err
		}
		if err := o.narrow(ctx, r); err != nil {
			return fmt.Errorf("overload the API server: %w", err)
		}
		made := o.come(ctx, r)
		pause(ctx, o.For)
		after, err := r.refused(ctx)
		if err = errors.Join(err, r.widen(ctx), made()); err != nil {
			return err
		}
		r.stats.overload(after - before)
		// A process that lost its lease ends when it finds out.
		pause(ctx, time.Second)
		return r.rest(ctx, end, o.Rest)
	})
}

// come creates the groups, and returns a function that waits until they are created.
func (o overload) come(ctx context.Context, r *run) (wait func() error) {
	var all errgroup.Group
	for _, w := range o.Groups {
		all.Go(func() error {
			if err := (create{w}).do(ctx, r); err != nil && !r.moot(err) {
				return fmt.Errorf("a group of an overload: %w", err)
			}
			return nil
		})
	}
	return all.Wait
}

// narrow limits Fluence's concurrent requests.
func (o overload) narrow(ctx context.Context, r *run) error {
	level := &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: overloaded},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(o.Share)),
				BorrowingLimitPercent:    new(int32(0)),
				LimitResponse: flowcontrolv1.LimitResponse{
					Type:    flowcontrolv1.LimitResponseTypeQueue,
					Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: int32(o.Line)},
				},
			},
		},
	}
	schema := &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: overloaded},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: overloaded},
			MatchingPrecedence:         2, // before all others except exempt
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{
					Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: "system:serviceaccounts:" + stack.Namespace},
				}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{o.rule()},
			}},
		},
	}
	if o.Reads {
		schema.Spec.Rules[0].NonResourceRules = []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/version"}}}
	}
	err := r.try(ctx, func(ctx context.Context) error {
		_, err := r.client.FlowcontrolV1().PriorityLevelConfigurations().Create(ctx, level, metav1.CreateOptions{})
		return err
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	err = r.try(ctx, func(ctx context.Context) error {
		_, err := r.client.FlowcontrolV1().FlowSchemas().Create(ctx, schema, metav1.CreateOptions{})
		return err
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// rule returns the requests that are held up.
func (o overload) rule() flowcontrolv1.ResourcePolicyRule {
	rule := flowcontrolv1.ResourcePolicyRule{
		Verbs:     []string{"create", "update", "patch", "delete"},
		APIGroups: []string{"", "events.k8s.io", podGroups.Group},
		Resources: []string{rbacv1.ResourceAll}, Namespaces: []string{flowcontrolv1.NamespaceEvery}, ClusterScope: true,
	}
	if o.Reads {
		rule.Verbs = []string{flowcontrolv1.VerbAll}
	}
	if o.Leases {
		rule.APIGroups = append(rule.APIGroups, "coordination.k8s.io")
	}
	return rule
}

// widen removes the limit.
func (r *run) widen(ctx context.Context) error {
	for _, remove := range []func(context.Context) error{
		func(ctx context.Context) error {
			return r.client.FlowcontrolV1().FlowSchemas().Delete(ctx, overloaded, metav1.DeleteOptions{})
		},
		func(ctx context.Context) error {
			return r.client.FlowcontrolV1().PriorityLevelConfigurations().Delete(ctx, overloaded, metav1.DeleteOptions{})
		},
	} {
		if err := r.try(ctx, remove); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("end the overload of the API server: %w", err)
		}
	}
	return nil
}

// refused returns the number of requests that the API
// server has refused in overloads since it started.
func (r *run) refused(ctx context.Context) (n int, err error) {
	var text []byte
	err = r.try(ctx, func(ctx context.Context) (err error) {
		text, err = r.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("count what the API server refused: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "apiserver_flowcontrol_rejected_requests_total{") || !strings.Contains(line, overloaded) {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("count what the API server refused: %w", err)
		}
		n += int(v)
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("count what the API server refused: %w", err)
	}
	return n, nil
}
