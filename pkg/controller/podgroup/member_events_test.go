package podgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A memberStory is a group of one Job or StatefulSet, whose pods come and go.
type memberStory struct {
	*testing.T
	index *podIndex
	o     observation
	m     memory
}

// put puts pod number i into the index. A nil state removes it.
func (s *memberStory) put(i int, state func(*corev1.Pod)) {
	pod := pods(1)[0]
	ofTrain(pod)
	pod.Name, pod.UID, pod.Labels = fmt.Sprint("p", i), types.UID(fmt.Sprint("p", i)), map[string]string{}
	if state == nil {
		s.index.remove(pod)
		return
	}
	state(pod)
	if pod.Spec.NodeName != "" {
		pod.Spec.NodeName = fmt.Sprint("node-", i)
	}
	s.index.set(pod)
}

// told decides once, and returns the events of these reasons.
func (s *memberStory) told(reasons ...string) string {
	name := s.o.key
	s.o.pods = s.index.under(name.Namespace, name.Name)
	s.m.members.lose(s.index.takeLost(name))
	s.o.now = s.o.now.Add(2 * time.Minute)
	d, m := DefaultConfig().decide(s.o, s.m)
	if s.m = m; d.status != nil {
		s.o.podGroup.Status = *d.status
	}
	var texts []string
	for _, e := range d.events {
		if slices.Contains(reasons, e.reason) {
			texts = append(texts, e.text)
		}
	}
	return strings.Join(texts, ", ")
}

func newMemberStory(t *testing.T, minMember int32, o observation) *memberStory {
	s := &memberStory{T: t, index: newPodIndex(), o: o, m: settled}
	s.o.podGroup = podGroup(minMember, func(pg *scheduling.PodGroup) { pg.Name = s.o.key.Name })
	return s
}

func TestALostMemberIsToldOnce(t *testing.T) {
	running := in(corev1.PodRunning)
	failed := func(p *corev1.Pod) { in(corev1.PodFailed)(p); p.Status.Reason = "Evicted" }
	s := newMemberStory(t, 4, of(job(4)))
	step := func(what, want string) {
		t.Helper()
		if got := s.told(reason.MemberLost, reason.Recovered); got != want {
			t.Errorf("%s: told %q, want %q", what, got, want)
		}
	}
	s.put(0, bound)
	s.put(0, nil)
	step("a pod is deleted before the group has started", "")
	for i := range 4 {
		s.put(i, running)
	}
	step("the group runs", "")
	s.put(3, func(p *corev1.Pod) { running(p); deleting(p) })
	step("one pod is drained", "pod p3 on node node-3 is being deleted: 3 of 4 pods are on nodes")
	s.put(3, nil)
	s.put(2, failed)
	step("and another fails", "")
	s.put(4, running)
	step("one is replaced", "")
	s.put(5, running)
	step("both are replaced", "4 of 4 pods are on nodes again")
	step("nothing changes", "")
	s.put(0, failed)
	s.put(1, nil)
	step("two more are lost at once", "pod p0 on node node-0 has failed (Evicted), and 1 more are lost: 2 of 4 pods are on nodes")
	s.put(6, running)
	s.put(7, running)
	step("both are replaced again", "4 of 4 pods are on nodes again")
	s.put(7, in(corev1.PodSucceeded))
	step("one has done its work", "")
	s.o.topOwners[0].suspended = true
	s.put(6, nil)
	step("the Job is suspended", "")
}

// A pod that is replaced before its loss is reported makes no recovery. A loss that another process has reported does.
func TestARecoveryIsToldOfALossThatWasTold(t *testing.T) {
	running := in(corev1.PodRunning)
	s := newMemberStory(t, 2, of(job(2)))
	s.put(0, running)
	s.put(1, running)
	if got := s.told(reason.Recovered); got != "" {
		t.Errorf("a group that starts: told %q", got)
	}
	s.put(1, nil)
	s.put(2, running)
	if got := s.told(reason.MemberLost, reason.Recovered); got != "" {
		t.Errorf("a pod is replaced at once: told %q", got)
	}
	s.put(2, nil)
	s.m = memory{uid: s.m.uid, hadPods: true} // the controller is started anew
	for range 4 {
		if got := s.told(reason.MemberLost, reason.Recovered); got != "" {
			t.Errorf("one of two is missing: told %q", got)
		}
	}
	s.put(3, running)
	if got := s.told(reason.Recovered); got != "2 of 2 pods are on nodes again" {
		t.Errorf("both are back: told %q", got)
	}
}

// A rolling update takes one pod after another, and the group is complete in between.
func TestTheLostMembersOfARollingUpdateAreToldOnceForATime(t *testing.T) {
	running := in(corev1.PodRunning)
	s := newMemberStory(t, 4, of(job(4)))
	for i := range 4 {
		s.put(i, running)
	}
	s.told()
	var told []string
	for i := range 4 {
		s.put(i, nil)
		told = append(told, s.told(reason.MemberLost))
		s.put(i+4, running)
		if got := s.told(reason.MemberLost); got != "" {
			t.Errorf("told %q of a complete group", got)
		}
	}
	// Each pod takes four minutes, and the time between two events is five.
	for i, got := range told {
		want := ""
		if i%2 == 0 {
			want = fmt.Sprintf("pod p%d on node node-%d was deleted: 3 of 4 pods are on nodes", i, i)
		}
		if got != want {
			t.Errorf("pod %d is replaced: told %q, want %q", i, got, want)
		}
	}
}

func TestMorePodsThanTheSizeAreNotTold(t *testing.T) {
	s := newMemberStory(t, 2, of(job(4)))
	running := in(corev1.PodRunning)
	step := func(what, want string) {
		t.Helper()
		if got := s.told(reason.AllPlaced); got != want {
			t.Errorf("%s: told %q, want %q", what, got, want)
		}
	}
	for i := range 3 {
		s.put(i, running)
	}
	step("one of four is missing", "")
	s.put(3, in(corev1.PodRunning))
	s.put(4, func(*corev1.Pod) {})
	step("a rollout adds a fifth, which waits", "")
	s.put(4, running)
	step("the fifth has a node", "")
	s.put(0, nil)
	step("the rollout has ended", "all 4 pods have nodes; the group starts with 2")
	s.put(5, running)
	step("the next rollout", "")
	s.put(1, nil)
	step("the next rollout has ended", "")
}

// A reconcile that fails after it has seen a lost member leaves the event to the next one.
func TestALostMemberIsToldAfterAFailedWrite(t *testing.T) {
	train := job(4)
	o := of(train)
	pg := podGroup(4, func(pg *scheduling.PodGroup) { pg.Name = o.key.Name })
	var members []*corev1.Pod
	objs := []client.Object{train, pg}
	for i, pod := range pods(4, in(corev1.PodRunning), ofTrain) {
		pod.Name, pod.UID, pod.Labels = fmt.Sprint("p", i), types.UID(fmt.Sprint("p", i)), nil
		members, objs = append(members, pod), append(objs, pod)
	}
	o = o.with(pg, members)
	pg.Status = nextStatus(o, DefaultConfig().wantedSize(o))
	r := fakeReconciler(t, objs...)
	recorder := events.NewFakeRecorder(10)
	r.events, r.memories = recorder, map[types.NamespacedName]memory{}
	var broken error
	r.client = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return broken
	}})
	reconcile := func() error {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: o.key})
		return err
	}
	if err := reconcile(); err != nil {
		t.Fatal(err)
	}
	r.pods.remove(members[3])
	broken = errors.New("away")
	if err := reconcile(); !errors.Is(err, broken) {
		t.Fatalf("Reconcile() = %v, want %v", err, broken)
	}
	if n := len(recorder.Events); n != 0 {
		t.Fatalf("%d events before the decision is written", n)
	}
	broken = nil
	if err := reconcile(); err != nil {
		t.Fatal(err)
	}
	close(recorder.Events)
	var told []string
	for e := range recorder.Events {
		if strings.Contains(e, reason.MemberLost) {
			told = append(told, e)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "pod p3 on node n was deleted: 3 of 4 pods are on nodes") {
		t.Errorf("events %q, want one of the lost pod", told)
	}
}

func TestLaterPodsAreToldOnce(t *testing.T) {
	s := newMemberStory(t, 2, of(job(4)))
	running := in(corev1.PodRunning)
	step := func(what, want string) {
		t.Helper()
		if got := s.told(reason.AllPlaced); got != want {
			t.Errorf("%s: told %q, want %q", what, got, want)
		}
	}
	const all = "all 4 pods have nodes; the group starts with 2"
	s.put(0, running)
	s.put(1, running)
	step("the minimum runs", "")
	s.put(2, running)
	step("one follows", "")
	s.put(3, running)
	step("all have followed", all)
	s.put(3, nil)
	step("one is gone", "")
	s.put(4, running)
	step("and is back", "")

	s = newMemberStory(t, 4, of(job(4)))
	for i := range 4 {
		s.put(i, running)
		step("a group that starts as a whole", "")
	}
}

// Without a size label nobody says how many pods of two Jobs start together.
func TestAGroupOfSeveralOwnersWithoutASizeIsWarnedOf(t *testing.T) {
	second := job(2, func(j *batchv1.Job) { j.Name, j.UID = "eval", "other-uid" })
	two := func(edits ...func(*corev1.Pod)) observation {
		o := of(job(4), second).with(podGroup(6, ours, byTrain, referring("Job", "eval", "other-uid")), pods(1, ofTrain))
		o.key = key
		for _, pod := range o.pods {
			for _, edit := range edits {
				edit(pod.pod)
			}
		}
		return o
	}
	one := of(job(4)).with(podGroup(4, ours, byTrain), pods(1, ofTrain))
	one.key = key
	own := of(job(4)).with(podGroup(4, ours, byTrain), pods(1, ofTrain))
	theirs := two()
	theirs.podGroup = podGroup(6)
	cases := map[string]struct {
		o    observation
		want bool
	}{
		"two Jobs":                                   {two(), true},
		"two Jobs, and a label says the size":        {two(labelled(group.SizeLabel, "6")), false},
		"two Jobs, and a user has made the PodGroup": {theirs, false},
		"one Job that no label names":                {own, false},
		"one Job":                                    {one, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			is := func(n pendingEvent) bool {
				return n.reason == reason.SizeUnknown && strings.Contains(n.text, group.SizeLabel)
			}
			d, m := DefaultConfig().decide(tc.o, settled)
			if d.apply != nil {
				t.Fatalf("applies %+v first", d.apply)
			}
			if got := slices.ContainsFunc(d.events, is); got != tc.want {
				t.Errorf("events %+v, want a warning: %t", d.events, tc.want)
			}
			if d, _ = DefaultConfig().decide(tc.o, m); slices.ContainsFunc(d.events, is) {
				t.Errorf("warned twice: %+v", d.events)
			}
		})
	}
}

func TestAPodGroupThatIsMadeAgain(t *testing.T) {
	r := &reconciler{}
	if r.rememberCreation(key, now) {
		t.Error("the first one is not made again")
	}
	if !r.rememberCreation(key, now.Add(time.Minute)) {
		t.Error("the second one is made again")
	}
	if r.rememberCreation(key, now.Add(time.Hour)) {
		t.Error("one of an hour later is another group's")
	}
}
