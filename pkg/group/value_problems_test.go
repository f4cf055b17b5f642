package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flux-k8s/fluence/pkg/match"
)

func TestValueProblems(t *testing.T) {
	const number, trueFalse, duration = "must be a whole number from 1 to 100000", `must be "true" or "false"`, "must be a duration such as 90s, and is ignored"
	// wrong has a wrong value of each key of a pod template, and what is allowed.
	wrong := map[string][2]string{
		SizeLabel:                   {"four", number},
		MinLabel:                    {"0", number},
		ArrayAnnotation:             {"yes", trueFalse},
		ExclusiveAnnotation:         {"yes", trueFalse},
		ExpectAnnotation:            {"always", trueFalse},
		ExpectTimeoutAnnotation:     {"90", duration},
		ExpectTotalAnnotation:       {"-1s", duration},
		RestartTimeoutAnnotation:    {"soon", duration},
		IncompletePolicyAnnotation:  {"Restart", "must be one of wait, restart"},
		IncompleteTimeoutAnnotation: {"10ms", "must be a duration of at least 1s, such as 90s"},
		QueueLabel:                  {"Batch", "cannot be the name of a Queue: a name has lower case letters, digits, dots and hyphens"},
		DurationAnnotation:          {"1h30m", "must be a number of at least 0, with one of the suffixes ms, s, m, h, d or without one for seconds"},
		PreemptionDelayAnnotation:   {"-1s", "must be a duration of at least 0s, such as 5m, and is ignored"},
		MatchPolicyAnnotation:       {"lowest", "must be one of " + strings.Join(match.Policies(), ", ")},
		PodsPerNodeAnnotation:       {"1.5", number},
		StagesAnnotation:            {"two", "must be one of one, together"},
		TopologyRequiredAnnotation:  {"rack,block", "cannot be the name of a level, such as node or rack"},
		TopologyBalancedAnnotation:  {"every rack", "cannot be the name of a level, such as node or rack"},
		TopologyPreferredAnnotation: {"rack,", "one of the levels has no name"},
	}
	for _, k := range Keys() {
		if k.Written || !k.Has(OnPod) || k.Name == Label {
			continue
		}
		value, has := wrong[k.Name]
		if !has {
			t.Errorf("%s %s: the test has no wrong value", k.Form, k.Name)
			continue
		}
		labels, annotations := map[string]string{}, map[string]string{k.Name: value[0]}
		if k.Form == LabelForm {
			labels, annotations = annotations, labels
		}
		want := []string{string(k.Form) + " " + k.Name + `: "` + value[0] + `": ` + value[1]}
		if got := ValueProblems(labels, annotations, false); !slices.Equal(got, want) {
			t.Errorf("problems %q, want %q", got, want)
		}
	}
}

func TestValueProblemsOfSeveralValues(t *testing.T) {
	cases := map[string]struct {
		labels, annotations map[string]string
		alone               bool
		want                []string
	}{
		"none": {},
		"right values": {
			labels:      map[string]string{SizeLabel: "4", MinLabel: "2"},
			annotations: map[string]string{TopologyRequiredAnnotation: "example.com/row", TopologyPreferredAnnotation: "rack, node", ExclusiveAnnotation: "true", ExpectAnnotation: "false", ExpectTimeoutAnnotation: "9000h"},
		},
		"each value of the topology": {
			annotations: map[string]string{ExclusiveAnnotation: "1", PodsPerNodeAnnotation: "0"},
			want:        []string{`annotation ` + ExclusiveAnnotation + `: "1": must be "true" or "false"`, `annotation ` + PodsPerNodeAnnotation + `: "0": must be a whole number from 1 to 100000`},
		},
		"two that contradict each other": {
			annotations: map[string]string{TopologyPreferredAnnotation: "rack", TopologyBalancedAnnotation: "rack"},
			want:        []string{`annotations ` + TopologyPreferredAnnotation + `: "rack" and ` + TopologyBalancedAnnotation + `: "rack": set only one of them`},
		},
		"a minimum above the size": {
			labels: map[string]string{SizeLabel: "2", MinLabel: "3"},
			want:   []string{`label ` + MinLabel + `: "3": must not exceed ` + SizeLabel + `, which is 2`},
		},
		"a pod that is alone has a minimum": {
			labels: map[string]string{MinLabel: "3"}, alone: true,
			want: []string{`label ` + MinLabel + `: "3": a pod without an owner is a group of one; to group it with others, set the label ` + Label + ` on all of them`},
		},
		"a long value is cut": {
			annotations: map[string]string{StagesAnnotation: strings.Repeat("x", 9000)},
			want:        []string{`annotation ` + StagesAnnotation + `: "` + strings.Repeat("x", maxShownValue) + `"...: must be one of one, together`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ValueProblems(tc.labels, tc.annotations, tc.alone); !slices.Equal(got, tc.want) {
				t.Errorf("problems %q, want %q", got, tc.want)
			}
		})
	}
}

func TestJobSizeProblem(t *testing.T) {
	tooFew := func(key, value string, makes, lacks int) string {
		return fmt.Sprintf("label %s: %q: the Job makes only %d of these pods at a time (spec.parallelism, spec.completions): the group would wait for %d more", key, value, makes, lacks)
	}
	cases := map[string]struct {
		spec                string
		labels, annotations map[string]string
		want                string
	}{
		"a minimum above the parallelism":        {spec: `{"parallelism": 2}`, labels: map[string]string{MinLabel: "5"}, want: tooFew(MinLabel, "5", 2, 3)},
		"a size above the parallelism":           {spec: `{"parallelism": 2, "completions": 8}`, labels: map[string]string{SizeLabel: "3"}, want: tooFew(SizeLabel, "3", 2, 1)},
		"a minimum above the completions":        {spec: `{"parallelism": 8, "completions": 1}`, labels: map[string]string{SizeLabel: "8", MinLabel: "2"}, want: tooFew(MinLabel, "2", 1, 1)},
		"a Job of one pod":                       {spec: `{}`, labels: map[string]string{MinLabel: "2"}, want: tooFew(MinLabel, "2", 1, 1)},
		"as many as the Job makes":               {spec: `{"parallelism": 2}`, labels: map[string]string{MinLabel: "2"}},
		"a larger size with a smaller minimum":   {spec: `{"parallelism": 2}`, labels: map[string]string{SizeLabel: "5", MinLabel: "2"}},
		"a group that several Jobs may share":    {spec: `{"parallelism": 2}`, labels: map[string]string{MinLabel: "5", Label: "band"}},
		"a native PodGroup":                      {spec: `{"parallelism": 2, "template": {"spec": {"schedulingGroup": {"podGroupName": "band"}}}}`, labels: map[string]string{MinLabel: "5"}},
		"a Job that makes no pods for now":       {spec: `{"parallelism": 0}`, labels: map[string]string{MinLabel: "5"}},
		"labels that were filled in":             {spec: `{"parallelism": 2}`, labels: map[string]string{SizeLabel: "5", MinLabel: "5"}, annotations: map[string]string{DefaultedAnnotation: "5/5"}},
		"a value that is reported as wrong":      {spec: `{"parallelism": 2}`, labels: map[string]string{MinLabel: "x"}},
		"a spec that the API server will refuse": {spec: `{"parallelism": -2}`, labels: map[string]string{MinLabel: "5"}},
		"no labels":                              {spec: `{"parallelism": 2}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := JobSizeProblem([]byte(tc.spec), tc.labels, tc.annotations); got != tc.want {
				t.Errorf("problem %q, want %q", got, tc.want)
			}
		})
	}
}

// What the scheduler accepts is no problem, and the texts are bounded.
func FuzzValueProblems(f *testing.F) {
	f.Add("4", "rack", "rack,node", "true", "2")
	f.Add("x", "a b", "rack,,\xff", "é", strings.Repeat("\x01", 300))
	f.Fuzz(func(t *testing.T, size, required, preferred, exclusive, perNode string) {
		annotations := map[string]string{TopologyRequiredAnnotation: required, TopologyPreferredAnnotation: preferred, ExclusiveAnnotation: exclusive, PodsPerNodeAnnotation: perNode}
		labels := map[string]string{SizeLabel: size}
		problems := ValueProblems(labels, annotations, false)
		_, wrongSize := UserSizeOf(labels, annotations)
		_, wrongTopology := TopologyAnnotationsOf(annotations).Parse([]Level{{Type: "rack", Key: "example.com/rack"}})
		if wrongSize == nil && wrongTopology == nil && len(problems) > 0 {
			t.Errorf("problems %q of values that are accepted", problems)
		}
		if wrongSize != nil && len(problems) == 0 {
			t.Errorf("no problem, but %v", wrongSize)
		}
		for _, text := range problems {
			if len(text) > MaxKeyProblem || !utf8.ValidString(text) {
				t.Errorf("problem of %d bytes: %q", len(text), text)
			}
		}
	})
}
