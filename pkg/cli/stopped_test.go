package cli

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

func TestASchedulerThatHasStoppedIsNoted(t *testing.T) {
	silent, old := well(), well()
	silent.MatcherAnswers = false
	old.MatcherAnswers, old.Updated = false, noon.Add(-time.Hour)
	expired := lease("fluence-scheduler", 40*time.Second)
	expiredOnly := []runtime.Object{expired}
	cases := map[string]struct {
		objects   []runtime.Object
		forbidden []string
		renewing  time.Duration
		want      string // "": no note
		every     bool   // the note is the same for all commands
	}{
		"it is well":                                     {objects: healthy(well())},
		"it has not renewed its lease":                   {objects: expiredOnly, want: "note: the scheduler has not renewed its lease for 40s: "},
		"no scheduler leads":                             {objects: []runtime.Object{free("fluence-scheduler")}, want: "note: no scheduler is the leader: its lease is free: "},
		"its matcher does not answer":                    {objects: healthy(silent), want: "note: the matcher does not answer (reported 60s ago): groups wait until it does", every: true},
		"its report is by the process before":            {objects: append(healthy(silent)[:1:1], acquired(lease("fluence-scheduler", time.Second), 30*time.Second))},
		"its report is old":                              {objects: healthy(old)},
		"it runs without an election":                    {},
		"the lease may not be read":                      {objects: expiredOnly, forbidden: []string{"leases"}},
		"its report may not be read":                     {objects: healthy(silent), forbidden: []string{"configmaps"}},
		"the clock of the user is ahead, and it is well": {objects: []runtime.Object{lease("fluence-scheduler", time.Second)}, renewing: 20 * time.Second, want: "note: the clock of this machine is about 18s ahead", every: true},
	}
	commands := map[string]string{"groups": oldAnswers, "why training --now": placesNothing, "simulate -f -": placesNothing}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for args, follows := range commands {
				objects := cluster()
				for _, o := range tc.objects {
					objects = append(objects, o.DeepCopyObject()) // a call renews the leases
				}
				_, errOut, code := call{args: args, stdin: manifest("small", 1, "1"), objects: objects, forbidden: tc.forbidden, renewing: tc.renewing}.run(t)
				want := tc.want
				if want != "" && !tc.every {
					want += follows
				}
				noted := strings.Contains(errOut, "lease") || strings.Contains(errOut, "matcher") || strings.Contains(errOut, "clock")
				if code == ExitError || noted != (want != "") || !strings.Contains(errOut, want) {
					t.Errorf("%s: exit code %d, notes %q; want %q", args, code, errOut, want)
				}
			}
		})
	}
}
