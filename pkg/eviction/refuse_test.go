package eviction

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/preemption"
)

var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("a policy"))

// refuse answers some requests with an error for ever.
func refuse(err error, requests ...string) func(string, int) error {
	return func(r string, _ int) error {
		if slices.Contains(requests, r) {
			return err
		}
		return nil
	}
}

// jobOf lets a victim be suspended.
func jobOf(v preemption.Victim) preemption.Victim {
	v.Suspend = group.Owner{Group: "batch", Kind: "Job", Name: v.Name, UID: types.UID("job-" + v.Name)}
	return v
}

// A right, an admission policy or an old CRD may refuse a request for ever.
func TestAPlanIsStoppedWhoseRequestsAreRefused(t *testing.T) {
	noField := apierrors.NewInternalError(errors.New(".status.conditions: field not declared in schema"))
	cases := map[string]struct {
		fail func(string, int) error
		// want are requests that are sent, and none those that are not.
		want, none  []string
		wantRefusal string
		// wantPending is how many victims go on to their end.
		wantPending int
	}{
		"a mark: nobody is touched": {
			fail: refuse(forbidden, "mark b", "take back b"), want: []string{"take back a"}, none: []string{"suspend a", "take back b", "delete b-0"}, wantRefusal: "Forbidden",
		},
		"a mark, by an old CRD": {fail: refuse(noField, "mark a"), want: []string{"take back b"}, none: []string{"take back a", "suspend a", "delete b-0"}, wantRefusal: "the CRD of PodGroups has no conditions"},
		"a mark that may have been written: it is taken back": {
			fail: func(r string, nth int) error {
				switch {
				case r == "mark b" && nth == 1:
					return apierrors.NewInternalError(errors.New("no answer"))
				case r == "mark b":
					return forbidden
				}
				return nil
			},
			want: []string{"take back a", "take back b"}, none: []string{"suspend a", "delete b-0"}, wantRefusal: "Forbidden",
		},
		"all deletions of a victim: it is taken back, and the other one ends": {
			fail: refuse(forbidden, "delete b-0", "delete b-1"), want: []string{"suspend a", "delete a-0", "delete a-1", "close a", "take back pod b-0", "take back b"}, wantRefusal: "Forbidden",
		},
		"one deletion of a victim: it goes on": {
			fail: refuse(forbidden, "delete b-1"), want: []string{"delete a-0", "delete a-1", "close a", "delete b-0"}, none: []string{"take back b", "close b"}, wantRefusal: "Forbidden", wantPending: 1,
		},
		"a suspension: the pods are deleted": {
			fail: refuse(forbidden, "suspend a"), want: []string{"delete a-0", "delete a-1", "close a", "close b"}, none: []string{"take back a"},
		},
		"a suspension and the deletions: all is taken back": {
			fail: refuse(forbidden, "suspend a", "delete a-0", "delete a-1", "delete b-0", "delete b-1"), want: []string{"take back a", "take back b"}, wantRefusal: "Forbidden",
		},
		"for a moment: the plan goes on": {
			fail: func(r string, nth int) error {
				if strings.HasPrefix(r, "delete") && nth < maxRefusals/2 {
					return forbidden
				}
				return nil
			},
			want: []string{"close a", "close b"}, none: []string{"take back a", "take back b"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := run(t, func(f *fakeAPI, e *Evictor) {
				f.fail = tc.fail
				b := f.victim("b")
				f.pods["b-0"].Status.Conditions = []corev1.PodCondition{{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: markOf(urgent, b).Message("lab"),
				}}
				e.Start(preemption.Plan{For: urgent, Victims: []preemption.Victim{jobOf(f.victim("a")), b}})
			}, func(_ *fakeAPI, e *Evictor) {
				time.Sleep(45 * time.Second)
				if got := e.Refusal(urgent.UID); got != tc.wantRefusal {
					t.Errorf("the refusal is %q, want %q", got, tc.wantRefusal)
				}
				if stopped := e.Of(urgent.UID) == nil; stopped != (tc.wantRefusal != "") {
					t.Errorf("the plan is stopped: %t", stopped)
				}
				if got := e.IsRefused("a") || e.IsRefused("b"); got != (tc.wantRefusal != "") {
					t.Errorf("a victim is left out of further plans: %t", got)
				}
				pending := e.Pending()
				if len(pending) != tc.wantPending {
					t.Errorf("%d victims are going to end, want %d", len(pending), tc.wantPending)
				}
				for _, v := range pending {
					if !v.Refused {
						t.Errorf("%s does not count as refused", v.Name)
					}
				}
				if key := (types.NamespacedName{Namespace: "lab", Name: "a"}); e.IsMarked(key) {
					t.Error("the victim that is taken back or gone counts as marked")
				}
				time.Sleep(refusalPause)
				if tc.wantPending == 0 && (e.IsRefused("a") || e.IsRefused("b")) {
					t.Error("a victim is left out of plans for ever")
				}
			})
			for _, r := range tc.want {
				if !slices.Contains(got, r) {
					t.Errorf("no %q in %q", r, got)
				}
			}
			for _, r := range tc.none {
				if slices.Contains(got, r) {
					t.Errorf("%q was sent: %q", r, got)
				}
			}
		})
	}
}
