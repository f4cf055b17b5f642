package v1alpha1

import (
	"strings"
	"testing"
	"time"
)

func TestDurationOf(t *testing.T) {
	cases := map[string]struct {
		job     string
		queue   *Queue
		want    time.Duration
		wantErr string
	}{
		"the job says it":            {job: "2h", queue: queueWith("1h"), want: 2 * time.Hour},
		"the queue says it":          {queue: queueWith("1h"), want: time.Hour},
		"nobody does":                {queue: queueWith("")},
		"there is no queue":          {},
		"the job wants no limit":     {job: "inf", queue: queueWith("1h")},
		"the job says no duration":   {job: "2w", queue: queueWith("1h"), wantErr: `spec.duration: "2w"`},
		"the queue says no duration": {queue: queueWith("x"), wantErr: `spec.defaults.duration of Queue batch: "x"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DurationOf(&FluxJobSpec{Duration: tc.job}, tc.queue)
			if got != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("DurationOf() = %v, %v, want %v, %s", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func queueWith(duration string) *Queue {
	q := &Queue{Spec: QueueSpec{Defaults: QueueDefaults{Duration: duration}}}
	q.Name = "batch"
	return q
}

func TestGracePeriod(t *testing.T) {
	for text, want := range map[string]time.Duration{"": DefaultGrace, "0s": 0, "1.5m": 90 * time.Second, "inf": DefaultGrace, "x": DefaultGrace} {
		if got := (&Queue{Spec: QueueSpec{Grace: text}}).GracePeriod(); got != want {
			t.Errorf("grace %q is %v, want %v", text, got, want)
		}
	}
}

func TestLongestDuration(t *testing.T) {
	q := queueWith("")
	if got, err := q.LongestDuration(); got != 0 || err != nil {
		t.Errorf("without a limit: %v, %v", got, err)
	}
	q.Spec.Limits.Duration = "1d"
	if got, err := q.LongestDuration(); got != 24*time.Hour || err != nil {
		t.Errorf("of a day: %v, %v", got, err)
	}
}
