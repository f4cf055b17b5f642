package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// ofNative returns a pod that names a native PodGroup.
func ofNative(podGroup string, i int, cpu string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s-%[2]d}
spec:
  schedulerName: fluence
  schedulingGroup: {podGroupName: %[1]s}
  containers:
  - {name: main, image: busybox, resources: {requests: {cpu: "%[3]s"}}}
---
`, podGroup, i, cpu)
}

// nativeGang returns a native PodGroup of which minCount pods start together.
func nativeGang(name string, minCount int) string {
	return fmt.Sprintf(`apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: %s}
spec: {schedulingPolicy: {gang: {minCount: %d}}}
---
`, name, minCount)
}

// tellNative begins a story on a stack of its own. Its control plane has the gates of native
// PodGroups, and its API server does not serve them yet, unless edit changes that. The leases
// outlast an API server that starts again.
func tellNative(t *testing.T, edit func(*cluster.Config, *stack.Config)) *story {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cfg := cluster.Config{FeatureGates: map[string]bool{"GenericWorkload": true, "WorkloadWithJob": true}, Log: t.Output()}
	metrics, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	ownCfg := stack.Config{
		Binaries:       fluence.Built(),
		SidecarBinary:  *sidecar,
		SidecarArgs:    strings.Fields(*sidecarArgs),
		SidecarMetrics: metrics,
		Profile: func(config map[string]any) {
			election := config["leaderElection"].(map[string]any)
			election["leaseDuration"], election["renewDeadline"] = "60s", "50s"
		},
		ControllerArgs: []string{"--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s"},
		Verbosity:      4,
		Log:            t.Output(),
	}
	edit(&cfg, &ownCfg)
	c, err := cluster.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	own, err := stack.Start(ctx, c, ownCfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, Stack: own, ns: "native"}
	s.kubectl("create", "namespace", s.ns)
	t.Cleanup(func() {
		if s.Failed() {
			s.dump(context.WithoutCancel(s.Context()))
		}
	})
	s.eventually("the namespace has its service account", func(ctx context.Context) (bool, string) {
		_, err := s.Client().CoreV1().ServiceAccounts(s.ns).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return s
}

// native waits until a native PodGroup, found by the prefix of its name,
// is as done wants it, and returns it.
func (s *story) native(prefix, what string, done func(*schedulingv1beta1.PodGroup) bool) *schedulingv1beta1.PodGroup {
	s.Helper()
	var found *schedulingv1beta1.PodGroup
	s.eventually("native PodGroup "+prefix+"* "+what, func(ctx context.Context) (bool, string) {
		list, err := s.Client().SchedulingV1beta1().PodGroups(s.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range list.Items {
			if pg := &list.Items[i]; strings.HasPrefix(pg.Name, prefix) {
				found = pg
				return done(pg), fmt.Sprintf("%v %+v", pg.Annotations, pg.Status.Conditions)
			}
		}
		return false, "none"
	})
	return found
}

// The two conditions that the scheduler writes on a native PodGroup.
const (
	nativeScheduled = "fluence.flux-framework.org/Scheduled"
	initially       = schedulingv1beta1.PodGroupInitiallyScheduled
)

// nativeRefused waits until both conditions have a reason and these words.
func (s *story) nativeRefused(prefix, reason string, words ...string) {
	s.Helper()
	s.native(prefix, fmt.Sprintf("is refused: %s %q", reason, words), func(pg *schedulingv1beta1.PodGroup) bool {
		own, theirs := meta.FindStatusCondition(pg.Status.Conditions, nativeScheduled), meta.FindStatusCondition(pg.Status.Conditions, initially)
		if own == nil || theirs == nil || own.Status != metav1.ConditionFalse || theirs.Status != metav1.ConditionFalse ||
			own.Reason != reason || theirs.Reason != "Unschedulable" || !strings.HasPrefix(theirs.Message, reason+": ") {
			return false
		}
		for _, w := range words {
			if !strings.Contains(own.Message, w) || !strings.Contains(theirs.Message, w) {
				return false
			}
		}
		return true
	})
}

// nativePlaced waits until both conditions say that the group has started.
func (s *story) nativePlaced(prefix string) {
	s.Helper()
	s.native(prefix, "is placed", func(pg *schedulingv1beta1.PodGroup) bool {
		return meta.IsStatusConditionTrue(pg.Status.Conditions, nativeScheduled) && meta.IsStatusConditionTrue(pg.Status.Conditions, initially)
	})
}

// Native PodGroups on a real control plane: before they are served, as gangs
// of bare pods, and as what the Job controller makes of each Job.
func TestNativePodGroups(t *testing.T) {
	s := tellNative(t, func(*cluster.Config, *stack.Config) {})
	s.nodes("n", 2, "4")
	processes := map[string]any{stack.Scheduler: s.Process(stack.Scheduler), stack.Controller: s.Process(stack.Controller)}

	// The API is off: its pods say so, and others are scheduled.
	s.applyText(ofNative("early", 0, "1") + ofNative("early", 1, "1") + lonePod("other", "fluence"))
	s.running("other", 1)
	s.told("early-", "NoPodGroup", "the API server does not serve podgroups.scheduling.k8s.io")
	s.noneOnNodes("early-")

	// It is turned on: they start without a restart of Fluence.
	if err := s.Serve(s.Context(), map[string]bool{"scheduling.k8s.io/v1beta1": true}); err != nil {
		t.Fatal(err)
	}
	s.restore(cluster.KubeControllerManager)
	s.applyText(nativeGang("early", 2))
	s.within(2*time.Minute, "the early pods run", 100*time.Millisecond, func(context.Context) (bool, string) {
		n := len(s.onNodes("early-"))
		return n == 2, fmt.Sprintf("%d have nodes", n)
	})
	s.nativePlaced("early")
	for name, p := range processes {
		if s.Process(name) != p {
			t.Errorf("%s was started again", name)
		}
	}

	// A gang gathers its pods, starts as a whole, and has started for ever.
	s.applyText(nativeGang("crew", 4) + ofNative("crew", 0, "100m") + ofNative("crew", 1, "100m") + ofNative("crew", 2, "100m"))
	s.nativeRefused("crew", "Gathering", "waits for 1 more pod: has 3 of minCount 4")
	s.noneOnNodes("crew-")
	s.applyText(ofNative("crew", 3, "100m"))
	s.running("crew-", 4)
	s.nativePlaced("crew")
	s.kubectl("delete", "pods", "-n", s.ns, "crew-0", "crew-1", "crew-2", "crew-3", "early-0", "early-1", "other", "--force", "--grace-period=0")
	s.applyText(ofNative("crew", 9, "100m"))
	again := s.native("crew", "gathers again", func(pg *schedulingv1beta1.PodGroup) bool {
		return meta.IsStatusConditionFalse(pg.Status.Conditions, nativeScheduled)
	})
	if !meta.IsStatusConditionTrue(again.Status.Conditions, initially) {
		t.Errorf("%s is not True any more: %+v", initially, again.Status.Conditions)
	}

	// Room for two of three: none starts, and all do with one more node.
	s.applyText(nativeGang("wide", 3) + ofNative("wide", 0, "3") + ofNative("wide", 1, "3") + ofNative("wide", 2, "3"))
	s.nativeRefused("wide", "NeverFits", "needs 3 pods", "could hold 2")
	s.noneOnNodes("wide-")
	s.nodes("more", 1, "4")
	s.running("wide-", 3)
	s.nativePlaced("wide")
	s.kubectl("delete", "pods", "-n", s.ns, "wide-0", "wide-1", "wide-2", "crew-9", "--force", "--grace-period=0")

	// A Job that says nothing has a native PodGroup, and is still all or nothing.
	s.applyText(job("plain", 4, "3"))
	s.native("plain-", "has the minimum of its Job", func(pg *schedulingv1beta1.PodGroup) bool {
		return pg.Annotations[group.MinMemberAnnotation] == "4" && pg.Spec.SchedulingPolicy.Basic != nil
	})
	s.nativeRefused("plain-", "NeverFits", "needs 4 pods", "could hold 3")
	s.noneOnNodes("plain-")
	s.nodes("last", 1, "4")
	s.running("plain-", 4)
	s.nativePlaced("plain-")

	// A Job of a higher priority evicts it. It is suspended until its pods have gone, and runs again afterwards.
	s.applyText(strings.Replace(job("urgent", 4, "3"), "      schedulerName:", "      priorityClassName: "+s.priorities(1000)(1000)+"\n      schedulerName:", 1))
	s.running("urgent-", 4)
	s.kubectl("delete", "job", "urgent", "-n", s.ns, "--timeout=60s")
	s.running("plain-", 4)
	s.kubectl("delete", "job", "plain", "-n", s.ns, "--timeout=60s")
	s.eventually("its pods are gone", func(context.Context) (bool, string) {
		n := len(s.pods("plain-"))
		return n == 0, fmt.Sprintf("%d are left", n)
	})

	// A Job that asks for basic by name starts pod by pod, and one that asks for a gang does not. The
	// controller finds the native API at its start now.
	s.restart(stack.Controller, func(*stack.Config) {})
	s.applyText(strings.Replace(job("single", 5, "3"), "spec:\n", "spec:\n  scheduling: {schedulingPolicy: {basic: {}}}\n", 1))
	s.native("single-", "has the minimum 1", func(pg *schedulingv1beta1.PodGroup) bool { return pg.Annotations[group.MinMemberAnnotation] == "1" })
	s.running("single-", 4)
	s.applyText(strings.Replace(job("gang", 2, "3"), "spec:\n", "spec:\n  scheduling: {schedulingPolicy: {gang: {minCount: 2}}}\n", 1))
	s.nativeRefused("gang-", "NoRoom", "needs 2 pods")

	// None of these groups ever had a PodGroup of Fluence.
	for e, err := range s.AuditEvents() {
		if err != nil {
			t.Fatal(err)
		}
		if r := e.ObjectRef; e.Verb == "create" && r != nil && r.APIGroup == "scheduling.x-k8s.io" && r.Namespace == s.ns {
			t.Errorf("%s created %s %s", e.User.Username, r.Resource, r.Name)
		}
	}
}

// told waits until an event about a pod with a name prefix has a reason and these words.
func (s *story) told(prefix, reason string, words ...string) {
	s.Helper()
	s.eventually(fmt.Sprintf("an event of pods %s* with %s %q", prefix, reason, words), func(ctx context.Context) (bool, string) {
		list, err := s.Client().EventsV1().Events(s.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var seen []string
		for _, e := range list.Items {
			if e.Regarding.Kind != "Pod" || !strings.HasPrefix(e.Regarding.Name, prefix) {
				continue
			}
			seen = append(seen, e.Reason+" "+e.Note)
			ok := e.Reason == reason && e.Type == corev1.EventTypeWarning
			for _, w := range words {
				ok = ok && strings.Contains(e.Note, w)
			}
			if ok {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%q", seen)
	})
}

func TestTheSchedulerEndsAtStartWithTheGateOfNativePodGroups(t *testing.T) {
	for _, gates := range []string{"GenericWorkload=true", "AllBeta=true"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := exec.CommandContext(ctx, filepath.Join(fluence.Built(), stack.Scheduler), "--feature-gates="+gates).CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), "feature gate GenericWorkload: true: fluence-scheduler does not work with this gate") {
			t.Errorf("--feature-gates=%s: %v, want an error that names the gate:\n%s", gates, err, out)
		}
	}
}
