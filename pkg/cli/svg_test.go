package cli

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/simulate"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

// elements returns the names of the elements of a picture, the texts in it, and the names of all attributes. It
// fails if the picture is not well-formed.
func elements(t *testing.T, picture []byte) (names map[string]int, texts []string, attributes map[string]bool) {
	t.Helper()
	names, attributes = map[string]int{}, map[string]bool{}
	d := xml.NewDecoder(bytes.NewReader(picture))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return names, texts, attributes
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			names[token.Name.Local]++
			for _, a := range token.Attr {
				attributes[a.Name.Local] = true
			}
		case xml.CharData:
			texts = append(texts, string(token))
		}
	}
}

// named is the map of a cluster in which a rack, a node, a group and a pod have a name.
func named(t *testing.T, name string) []byte {
	t.Helper()
	c, err := simulate.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	n := node(name, "a", name)
	member := pod(name, name, "2", objects.InGroup(name))
	v := treeOf([]*corev1.Node{n}, []*corev1.Pod{member}, nil, nil, simulate.OwnersOf(nil), []translate.Level{{Type: "rack", Key: "example.com/rack"}}, c)
	var b bytes.Buffer
	if err := writeSVG(&b, panel{title: name, tree: v, marked: map[string]bool{"lab/" + name: true}}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The API server allows none of these names. A proxy or another server might.
func FuzzNamesAreEscapedInPictures(f *testing.F) {
	for _, name := range []string{
		"node-1", "<script>alert(1)</script>", `"/><image href="x`, "&amp;", "]]>", "<!--", "a\x00b", "\xff\xfe", "\u202e", strings.Repeat("x", 1000), "é", "'",
	} {
		f.Add(name)
	}
	plain := map[string]int{}
	f.Fuzz(func(t *testing.T, name string) {
		if len(plain) == 0 {
			plain, _, _ = elements(t, named(t, "plain"))
		}
		got, _, attributes := elements(t, named(t, name))
		for element, n := range got {
			if plain[element] == 0 || n > plain[element] {
				t.Errorf("%q makes %d elements %s, want at most %d", name, n, element, plain[element])
			}
		}
		for _, a := range []string{"href", "onload", "style", "class"} {
			if attributes[a] {
				t.Errorf("%q makes an attribute %s", name, a)
			}
		}
	})
}

func TestPicturesAreTheSameEachTime(t *testing.T) {
	objects := large()
	first, errOut, code := call{args: "graph -o svg" + levels, objects: objects}.run(t)
	if code != ExitYes {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	shuffled := make([]runtime.Object, 0, len(objects))
	for i := range objects {
		shuffled = append(shuffled, objects[len(objects)-1-i])
	}
	if second, _, _ := (call{args: "graph -o svg" + levels, objects: shuffled}.run(t)); second != first {
		t.Error("the same objects in another order give another picture")
	}
	names, texts, _ := elements(t, []byte(first))
	if names["title"] != 1000 || !strings.Contains(strings.Join(texts, " "), "lab/job-simulation-87efaf7992: 600 pods") {
		t.Errorf("%d nodes, and the texts %q", names["title"], texts)
	}
}
