package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A server is an API server. It lists the objects that it was given. It carries out merge patches and deletions if it is
// writable. Otherwise a write is a fault of the command.
type server struct {
	t       *testing.T
	scheme  *runtime.Scheme
	objects map[schema.GroupVersionResource][]runtime.Object
	// forbidden are the resources that may not be read.
	// unknown are the resources that are not served.
	forbidden, unknown map[string]bool
	// minor is its minor version.
	minor string
	// unauthorized is true if no request is accepted.
	unauthorized bool
	// seen is called with the resource of each request before the answer. It may be nil.
	seen func(resource string)

	// writable is true if the command may write. readOnly are resources that it may not write.
	writable bool
	readOnly map[string]bool
	// meanwhile, if set, happens to each object between a read and its change.
	meanwhile func(runtime.Object)

	mu     sync.Mutex
	writes []string
	// reads counts the requests, and accepted has the media types of the last one, by resource.
	reads    map[string]int
	accepted map[string]string
}

func serve(t *testing.T, objects ...runtime.Object) *server {
	t.Helper()
	s := &server{t: t, scheme: runtime.NewScheme(), objects: map[schema.GroupVersionResource][]runtime.Object{}, forbidden: map[string]bool{}, unknown: map[string]bool{}, readOnly: map[string]bool{}, minor: "37", reads: map[string]int{}, accepted: map[string]string{}}
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, scheduling.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s.scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range objects {
		if m, ok := o.(*metav1.PartialObjectMetadata); ok {
			resource, _ := meta.UnsafeGuessKindToResource(m.GroupVersionKind())
			s.objects[resource] = append(s.objects[resource], m)
			continue
		}
		kinds, _, err := s.scheme.ObjectKinds(o)
		if err != nil {
			t.Fatal(err)
		}
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
		resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
		s.objects[resource] = append(s.objects[resource], o)
	}
	return s
}

// kubeconfig starts the server and returns a kubeconfig file for it.
func (s *server) kubeconfig() string {
	s.t.Helper()
	h := httptest.NewServer(s)
	s.t.Cleanup(h.Close)
	s.t.Cleanup(func() {
		if len(s.writes) > 0 && !s.writable {
			s.t.Errorf("the command wrote: %s", strings.Join(s.writes, "; "))
		}
	})
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u"}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"lab"}}]}`, h.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	if r.Method != http.MethodGet {
		s.mu.Lock()
		s.writes = append(s.writes, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, asJSON(body)))
		s.mu.Unlock()
	}
	if s.unauthorized {
		s.fail(w, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	if r.URL.Path == "/version" {
		s.write(w, http.StatusOK, map[string]any{"major": "1", "minor": s.minor})
		return
	}
	gvr, namespace, name := parse(r.URL.Path)
	s.mu.Lock()
	s.reads[gvr.Resource]++
	s.accepted[gvr.Resource] = r.Header.Get("Accept")
	s.mu.Unlock()
	if s.seen != nil {
		s.seen(gvr.Resource)
	}
	switch {
	case s.forbidden[gvr.Resource]:
		s.fail(w, apierrors.NewForbidden(gvr.GroupResource(), name, fmt.Errorf("user %q cannot read it", "u")))
		return
	case s.unknown[gvr.Resource]:
		s.fail(w, apierrors.NewNotFound(gvr.GroupResource(), name))
		return
	}
	listKind := s.listKind(gvr)
	if listKind == "" {
		s.fail(w, apierrors.NewNotFound(gvr.GroupResource(), name))
		return
	}
	items := []runtime.Object{}
	for _, o := range s.objects[gvr] {
		m, err := meta.Accessor(o)
		if err != nil {
			s.t.Error(err)
		}
		if namespace != "" && m.GetNamespace() != namespace {
			continue
		}
		if name == m.GetName() {
			if r.Method != http.MethodGet && s.writable {
				o = s.change(w, r.Method, gvr, o, body)
			}
			if o != nil {
				s.write(w, http.StatusOK, o)
			}
			return
		}
		items = append(items, o)
	}
	if name != "" {
		s.fail(w, apierrors.NewNotFound(gvr.GroupResource(), name))
		return
	}
	s.write(w, http.StatusOK, map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": listKind, "metadata": map[string]any{"resourceVersion": "1"}, "items": items,
	})
}

// asJSON returns the body of a request as JSON. It may be protobuf.
func asJSON(body []byte) string {
	o, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(body, nil, &metav1.DeleteOptions{})
	if err != nil {
		return string(body) // a patch
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// change carries out a write of an object, and returns the object afterwards. It returns nil if the answer was an error.
func (s *server) change(w http.ResponseWriter, method string, gvr schema.GroupVersionResource, o runtime.Object, body []byte) runtime.Object {
	m := o.(metav1.Object)
	if s.readOnly[gvr.Resource] {
		s.fail(w, apierrors.NewForbidden(gvr.GroupResource(), m.GetName(), fmt.Errorf("user %q cannot write it", "u")))
		return nil
	}
	if method == http.MethodDelete {
		s.objects[gvr] = slices.DeleteFunc(s.objects[gvr], func(other runtime.Object) bool { return other == o })
		return o
	}
	if s.meanwhile != nil {
		s.meanwhile(o)
	}
	before, err := json.Marshal(o)
	if err != nil {
		s.t.Error(err)
	}
	after, err := jsonpatch.MergePatch(before, body)
	if err != nil {
		s.t.Error(err)
	}
	changed := reflect.New(reflect.TypeOf(o).Elem()).Interface().(runtime.Object)
	if err := json.Unmarshal(after, changed); err != nil {
		s.t.Error(err)
	}
	s.objects[gvr][slices.Index(s.objects[gvr], o)] = changed
	return changed
}

// parse splits the path of a request.
func parse(path string) (gvr schema.GroupVersionResource, namespace, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "apis" {
		gvr.Group, parts = parts[1], parts[1:]
	}
	gvr.Version, parts = parts[1], parts[2:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	gvr.Resource = parts[0]
	if len(parts) > 1 {
		name = parts[1]
	}
	return gvr, namespace, name
}

// listKind returns the kind of a list. It returns nothing for a resource that is not served.
func (s *server) listKind(gvr schema.GroupVersionResource) string {
	if len(s.objects[gvr]) > 0 {
		if kind := s.objects[gvr][0].GetObjectKind().GroupVersionKind().Kind; !s.scheme.Recognizes(gvr.GroupVersion().WithKind(kind)) {
			return kind + "List"
		}
	}
	for kind := range s.scheme.KnownTypes(gvr.GroupVersion()) {
		if guess, _ := meta.UnsafeGuessKindToResource(gvr.GroupVersion().WithKind(strings.TrimSuffix(kind, "List"))); strings.HasSuffix(kind, "List") && guess == gvr {
			return kind
		}
	}
	if !slices.ContainsFunc(group.SuspendableKinds(), func(k group.SuspendableKind) bool { return k.Group == gvr.Group }) {
		s.t.Errorf("no list of %s is known", gvr)
	}
	return ""
}

func (s *server) fail(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	s.write(w, int(status.Code), status)
}

func (s *server) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.t.Error(err)
	}
}
