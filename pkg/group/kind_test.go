package group

import (
	"reflect"
	"testing"
)

// Otherwise a kind with half a description would be half supported, without an error.
func TestEachKindIsDescribed(t *testing.T) {
	for _, k := range Kinds() {
		name := k.Kind + "." + k.Group
		if k.FormsGroup != k.Sized() {
			t.Errorf("%s: its pods have a group named for it: %t, and kind.go says how to read its size: %t", name, k.FormsGroup, k.Sized())
		}
		if k.NeverFormsGroup && k.FormsGroup || k.NeedsPodGroup && !k.FormsGroup {
			t.Errorf("%s: named %t, gang %t and never %t contradict each other", name, k.FormsGroup, k.NeedsPodGroup, k.NeverFormsGroup)
		}
		if k.FormsGroup != (k.Resource != "") {
			t.Errorf("%s: its pods have a group named for it: %t, and kind.go has its resource: %q", name, k.FormsGroup, k.Resource)
		}
		if k.FormsGroup != (k.Lifecycle != nil) {
			t.Errorf("%s: its pods have a group named for it: %t, and kind.go has its lifecycle: %t", name, k.FormsGroup, k.Lifecycle != nil)
		}
		if l := k.Lifecycle; l != nil && (l.Endless != (l.Completed == "") || l.Endless != (l.Failed == "") || !l.Endless && l.SuspendPath == nil) {
			t.Errorf("%s: of its lifecycle %+v something is missing", name, *l)
		}
		if is := k.Version != "" && k.New != nil && k.NewList != nil; is != k.Watched {
			t.Errorf("%s: watched %t, and kind.go has its version, New and NewList: %t", name, k.Watched, is)
		}
		if k.Watched {
			if is := reflect.TypeOf(k.New()).Elem().Name(); is != k.Kind {
				t.Errorf("%s: New makes a %s", name, is)
			}
			if is, ok := WatchedKindOf(k.New()); !ok || is.Kind != k.Kind || is.Group != k.Group {
				t.Errorf("%s: what New makes is watched: %t, as a %s.%s", name, ok, is.Kind, is.Group)
			}
			if is, ok := WatchedKindOf(k.NewList()); ok {
				t.Errorf("%s: a list of them is watched as a %s", name, is.Kind)
			}
			if is := reflect.TypeOf(k.NewList()).Elem().Name(); is != k.Kind+"List" {
				t.Errorf("%s: NewList makes a %s", name, is)
			}
		}
		for _, p := range k.children {
			if !KindOf(Owner{Group: p.group, Kind: p.kind}).Watched {
				t.Errorf("%s controls objects of the kind %s.%s, and these are not watched", name, p.kind, p.group)
			}
		}
	}
}
