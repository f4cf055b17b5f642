package group

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSizeOf(t *testing.T) {
	cases := map[string]struct {
		labels  map[string]string
		want    Size
		wantErr string
	}{
		"no labels say nothing":            {},
		"size alone is the minimum too":    {labels: map[string]string{SizeLabel: "4"}, want: Size{4, 4}},
		"min below size":                   {labels: map[string]string{SizeLabel: "4", MinLabel: "2"}, want: Size{4, 2}},
		"min alone leaves the size open":   {labels: map[string]string{MinLabel: "2"}, want: Size{0, 2}},
		"the largest size":                 {labels: map[string]string{SizeLabel: "100000"}, want: Size{100000, 100000}},
		"other labels are none of ours":    {labels: map[string]string{"fluence.group-sizes": "x"}},
		"one more than the largest":        {labels: map[string]string{SizeLabel: "100001"}, wantErr: `label fluence.group-size: "100001": must be a whole number from 1 to 100000`},
		"more than fits 32 bits":           {labels: map[string]string{SizeLabel: "4294967297"}, wantErr: `label fluence.group-size: "4294967297": must be a whole number from 1 to 100000`},
		"zero":                             {labels: map[string]string{SizeLabel: "0"}, wantErr: `label fluence.group-size: "0": must be a whole number from 1 to 100000`},
		"negative":                         {labels: map[string]string{SizeLabel: "-1"}, wantErr: `label fluence.group-size: "-1": must be a whole number from 1 to 100000`},
		"not a number":                     {labels: map[string]string{SizeLabel: "x"}, wantErr: `label fluence.group-size: "x": must be a whole number from 1 to 100000`},
		"an empty value is not an absence": {labels: map[string]string{SizeLabel: ""}, wantErr: `label fluence.group-size: "": must be a whole number from 1 to 100000`},
		"a fraction":                       {labels: map[string]string{MinLabel: "1.5"}, wantErr: `label fluence.group-min: "1.5": must be a whole number from 1 to 100000`},
		"min above size":                   {labels: map[string]string{SizeLabel: "4", MinLabel: "5"}, wantErr: `label fluence.group-min: "5": must not exceed fluence.group-size, which is 4`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := SizeOf(tc.labels)
			if got != tc.want {
				t.Errorf("SizeOf(%v) = %+v, want %+v", tc.labels, got, tc.want)
			}
			if text := errText(err); text != tc.wantErr {
				t.Errorf("SizeOf(%v): error %q, want %q", tc.labels, text, tc.wantErr)
			}
		})
	}
}

func TestWhatAUserSaysOfTheSize(t *testing.T) {
	array := func(value string) map[string]string { return map[string]string{ArrayAnnotation: value} }
	filled := map[string]string{ArrayAnnotation: "true", DefaultedAnnotation: "8/1"}
	cases := map[string]struct {
		labels, annotations map[string]string
		want                Size
		wantErr             string
	}{
		"nothing":                                    {},
		"labels":                                     {labels: map[string]string{SizeLabel: "8", MinLabel: "4"}, want: Size{8, 4}},
		"labels that were filled in":                 {labels: map[string]string{SizeLabel: "8", MinLabel: "1"}, annotations: map[string]string{DefaultedAnnotation: "8/1"}},
		"an array":                                   {annotations: array("true"), want: Size{0, 1}},
		"an array that is none":                      {labels: map[string]string{SizeLabel: "8"}, annotations: array("false"), want: Size{8, 8}},
		"an array whose sizes were filled in":        {labels: map[string]string{SizeLabel: "8", MinLabel: "1"}, annotations: filled, want: Size{0, 1}},
		"an array with a minimum":                    {labels: map[string]string{MinLabel: "4"}, annotations: array("true"), wantErr: `annotation fluence.flux-framework.org/array: "true" and label fluence.group-min: "4": set only one of them`},
		"an array with a size":                       {labels: map[string]string{SizeLabel: "4"}, annotations: array("true"), wantErr: `annotation fluence.flux-framework.org/array: "true" and label fluence.group-size: "4": set only one of them`},
		"an array with a size beside filled in ones": {labels: map[string]string{SizeLabel: "9", MinLabel: "1"}, annotations: filled, wantErr: `annotation fluence.flux-framework.org/array: "true" and label fluence.group-size: "9": set only one of them`},
		"another value":                              {annotations: array("yes"), wantErr: `annotation fluence.flux-framework.org/array: "yes": must be "true" or "false"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := UserSizeOf(tc.labels, tc.annotations)
			if got != tc.want || errText(err) != tc.wantErr {
				t.Errorf("UserSizeOf() = %+v, error %q, want %+v, error %q", got, errText(err), tc.want, tc.wantErr)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestSizeOfPods(t *testing.T) {
	labels := func(size, least string) map[string]string {
		m := map[string]string{}
		if size != "" {
			m[SizeLabel] = size
		}
		if least != "" {
			m[MinLabel] = least
		}
		return m
	}
	cases := map[string]struct {
		pods    []map[string]string
		want    Size
		wantErr bool
	}{
		"no pods":                               {},
		"only the leader says a size":           {pods: []map[string]string{nil, labels("4", ""), nil}, want: Size{4, 4}},
		"where pods disagree the larger counts": {pods: []map[string]string{labels("4", "2"), labels("6", "1")}, want: Size{6, 2}},
		"one wrong label spoils the group":      {pods: []map[string]string{labels("4", ""), labels("x", "")}, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var forth, back []*corev1.Pod
			for _, l := range tc.pods {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: l}}
				forth, back = append(forth, pod), append([]*corev1.Pod{pod}, back...)
			}
			for _, pods := range [][]*corev1.Pod{forth, back} {
				got, err := SizeOfPods(pods)
				if got != tc.want || (err != nil) != tc.wantErr {
					t.Errorf("SizeOfPods() = %+v, %v, want %+v, error %t", got, err, tc.want, tc.wantErr)
				}
			}
		})
	}
}

func TestWithDefault(t *testing.T) {
	cases := map[string]struct {
		size Size
		def  int32
		want Size
	}{
		"nothing said":                  {Size{}, 4, Size{4, 4}},
		"nothing said, nothing known":   {Size{}, 0, Size{1, 1}},
		"all said":                      {Size{8, 2}, 4, Size{8, 2}},
		"only min said":                 {Size{0, 2}, 4, Size{4, 2}},
		"min said larger than the rest": {Size{0, 9}, 4, Size{9, 9}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.size.WithDefault(tc.def); got != tc.want {
				t.Errorf("%+v.WithDefault(%d) = %+v, want %+v", tc.size, tc.def, got, tc.want)
			}
		})
	}
}

func FuzzSizeOf(f *testing.F) {
	for _, s := range []string{"", "0", "1", "-1", "+1", "100000", "100001", "4294967297", "0x10", "1_0", " 1", "１"} {
		f.Add(s, "1")
		f.Add("4", s)
	}
	f.Fuzz(func(t *testing.T, size, least string) {
		labels := map[string]string{SizeLabel: size, MinLabel: least}
		got, err := SizeOf(labels)
		if err != nil {
			if got != (Size{}) || !strings.Contains(err.Error(), strconv.Quote(size)) && !strings.Contains(err.Error(), strconv.Quote(least)) {
				t.Errorf("SizeOf(%q, %q) = %+v and an error that names no value: %v", size, least, got, err)
			}
			return
		}
		if got.Min < 1 || got.Min > got.Size || got.Size > MaxSize {
			t.Errorf("SizeOf(%q, %q) = %+v breaks 1 <= min <= size <= %d", size, least, got, MaxSize)
		}
		for _, s := range []string{size, least} {
			if strings.Trim(s, "0123456789") != "" {
				t.Errorf("SizeOf(%q, %q) took %q for a number", size, least, s)
			}
		}
	})
}
