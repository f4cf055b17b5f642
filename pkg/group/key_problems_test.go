package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestKeyProblems(t *testing.T) {
	const p = "fluence.flux-framework.org/"
	on := func(place Place, kind string, labels, annotations string) KeyedObject {
		read := func(keys string) map[string]string {
			m := map[string]string{}
			for key := range strings.FieldsSeq(keys) {
				m[key] = "x"
			}
			return m
		}
		return KeyedObject{Place: place, Kind: kind, Labels: read(labels), Annotations: read(annotations)}
	}
	template := func(labels, annotations string) KeyedObject { return on(OnPod, "", labels, annotations) }
	const none = ": there is no such key, and it has no effect"
	cases := map[string]struct {
		objects []KeyedObject
		want    []string
	}{
		"no keys of the project":                             {objects: []KeyedObject{template("app example.com/expect", "kubernetes.io/x fluent.d")}},
		"all keys of a pod template":                         {objects: []KeyedObject{template(SizeLabel+" "+MinLabel+" "+Label, TopologyRequiredAnnotation+" "+DefaultedAnnotation)}},
		"a letter is missing in an annotation":               {objects: []KeyedObject{template("", p+"topology-require")}, want: []string{"annotation " + p + "topology-require of the pod template" + none + "; did you mean " + TopologyRequiredAnnotation + "?"}},
		"a hyphen is missing in a label":                     {objects: []KeyedObject{template("fluence.groupsize", "")}, want: []string{"label fluence.groupsize of the pod template" + none + "; did you mean fluence.group-size?"}},
		"a misspelt label is an annotation":                  {objects: []KeyedObject{template("", "fluence.groupsize")}, want: []string{"annotation fluence.groupsize of the pod template" + none + "; did you mean the label fluence.group-size?"}},
		"the domain is misspelt":                             {objects: []KeyedObject{template("", "fluence.flux-framwork.org/exclusive")}, want: []string{"annotation fluence.flux-framwork.org/exclusive of the pod template" + none + "; did you mean " + ExclusiveAnnotation + "?"}},
		"a subdomain is another's":                           {objects: []KeyedObject{template("topology."+p+"rack kwok."+p+"x", "")}},
		"nothing is near":                                    {objects: []KeyedObject{template("", p+"make-it-quick-please")}, want: []string{"annotation " + p + "make-it-quick-please of the pod template" + none}},
		"an annotation of the Job itself":                    {objects: []KeyedObject{on(OnWorkload, "Job", "", TopologyRequiredAnnotation), template("", "")}, want: []string{"annotation " + TopologyRequiredAnnotation + " of the Job: has no effect there, only as an annotation of the pod template or PodGroup or native PodGroup"}},
		"an annotation of Job and template":                  {objects: []KeyedObject{on(OnWorkload, "Job", "", TopologyRequiredAnnotation), template("", TopologyRequiredAnnotation)}},
		"a size label of the Job itself":                     {objects: []KeyedObject{on(OnWorkload, "Job", MinLabel, "")}},
		"a size label of a PodGroup":                         {objects: []KeyedObject{on(OnPodGroup, "", MinLabel, "")}, want: []string{"label " + MinLabel + " of the PodGroup: has no effect there, only as a label of the pod template"}},
		"an annotation is written as a label":                {objects: []KeyedObject{template(ExclusiveAnnotation, "")}, want: []string{"label " + ExclusiveAnnotation + " of the pod template: has no effect; it has to be an annotation"}},
		"a label is written as an annotation":                {objects: []KeyedObject{template("", SizeLabel)}, want: []string{"annotation " + SizeLabel + " of the pod template: has no effect; it has to be a label"}},
		"a label of namespaces at a pod":                     {objects: []KeyedObject{template(WholeNodesLabel, "")}, want: []string{"label " + WholeNodesLabel + " of the pod template: has no effect there, only as a label of the Namespace"}},
		"one name is a label and an annotation":              {objects: []KeyedObject{template("", ExpectAnnotation), on(OnNamespace, "", ExpectLabel, "")}},
		"a namespace's label expect at a pod":                {objects: []KeyedObject{template(ExpectLabel, "")}, want: []string{"label " + ExpectLabel + " of the pod template: has no effect; it has to be an annotation"}},
		"lost members of a native PodGroup":                  {objects: []KeyedObject{on(OnNativePodGroup, "", "", IncompletePolicyAnnotation)}, want: []string{"annotation " + IncompletePolicyAnnotation + " of the native PodGroup: has no effect there, only as an annotation of the pod template or PodGroup"}},
		"a key that no API server would take":                {objects: []KeyedObject{template("", p+"exclusivé\x01")}, want: []string{`annotation "` + p + `exclusiv\u00e9\x01" of the pod template` + none + "; did you mean " + ExclusiveAnnotation + "?"}},
		"two templates with the same wrong key":              {objects: []KeyedObject{template("", p+"topology-require"), template("", p+"topology-require")}, want: []string{"annotation " + p + "topology-require of the pod template" + none + "; did you mean " + TopologyRequiredAnnotation + "?"}},
		"a label that the Job has from its template":         {objects: []KeyedObject{on(OnWorkload, "Job", "fluence.groupsize", ""), template("fluence.groupsize", "")}, want: []string{"label fluence.groupsize of the pod template" + none + "; did you mean fluence.group-size?"}},
		"a label of the Job with another value":              {objects: []KeyedObject{{Place: OnWorkload, Kind: "Job", Labels: map[string]string{"fluence.groupsize": "2"}}, template("fluence.groupsize", "")}, want: []string{"label fluence.groupsize of the Job" + none + "; did you mean fluence.group-size?", "label fluence.groupsize of the pod template" + none + "; did you mean fluence.group-size?"}},
		"a key that only Fluence writes is not a suggestion": {objects: []KeyedObject{template("", p+"min-members")}, want: []string{"annotation " + p + "min-members of the pod template" + none}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := KeyProblems(tc.objects...); !slices.Equal(got, tc.want) {
				t.Errorf("KeyProblems = %q,\nwant %q", got, tc.want)
			}
		})
	}
}

func TestKeyProblemsAreFew(t *testing.T) {
	wrong := map[string]string{}
	for c := 'a'; c <= 'z'; c++ {
		wrong["fluence.flux-framework.org/nonesuch-"+string(c)] = ""
	}
	got := KeyProblems(KeyedObject{Place: OnPod, Annotations: wrong})
	if len(got) != MaxKeyProblems || got[MaxKeyProblems-1] != "19 more labels and annotations of Fluence have no effect" {
		t.Errorf("%d problems, the last is %q", len(got), got[len(got)-1])
	}
}

// An object can have tens of thousands of keys. Nearest names are sought for the first of them only.
func TestKeyProblemsOfAnObjectWithManyKeys(t *testing.T) {
	const n = 30000
	keys := map[string]string{}
	for i := range n {
		keys[fmt.Sprintf("fluence.group-s%05d", i)] = "x"
	}
	first := KeyProblems(KeyedObject{Place: OnWorkload, Kind: "StatefulSet", Labels: keys, Annotations: keys}, KeyedObject{Place: OnPod, Labels: keys})
	if len(first) != MaxKeyProblems {
		t.Fatalf("%d problems, want %d", len(first), MaxKeyProblems)
	}
	if got, want := first[MaxKeyProblems-1], fmt.Sprintf("%d more labels and annotations of Fluence have no effect", 3*n-MaxKeyProblems+1); got != want {
		t.Errorf("the last problem is %q, want %q", got, want)
	}
	if again := KeyProblems(KeyedObject{Place: OnWorkload, Kind: "StatefulSet", Labels: keys, Annotations: keys}, KeyedObject{Place: OnPod, Labels: keys}); !slices.Equal(first, again) {
		t.Errorf("problems %q, and then %q", first, again)
	}
}

func FuzzKeyProblems(f *testing.F) {
	f.Add("fluence.group-size", "fluence.flux-framework.org/topology-require", "fluence.é")
	f.Add("fluence."+strings.Repeat("x", 400), "fluence.flux-framework.org/"+strings.Repeat("\x00", 400), "fluence.flux-framework.or\xff/exclusive")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		keys := map[string]string{a: "", b: "", c: ""}
		for _, place := range []Place{OnPod, OnWorkload, OnPodGroup, OnNativePodGroup, OnNamespace} {
			problems := KeyProblems(KeyedObject{Place: place, Kind: "StatefulSet", Labels: keys, Annotations: keys})
			if len(problems) > MaxKeyProblems {
				t.Fatalf("%d problems", len(problems))
			}
			for _, text := range problems {
				if len(text) > MaxKeyProblem || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\x00") {
					t.Errorf("problem of %d bytes: %q", len(text), text)
				}
			}
		}
	})
}
