package fluence

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func TestFactoryRefuses(t *testing.T) {
	leads := func() bool { return true }
	fails := func(context.Context, *Args) (Matcher, error) { return nil, errors.New("no such socket") }
	cases := map[string]struct {
		factory frameworkruntime.PluginFactory
		args    runtime.Object
		handle  func(*rig) fwk.Handle
		want    string
	}{
		"arguments that are wrong": {
			factory: Factory(fails, leads), args: raw("matchPolicy: fifo"),
			handle: func(r *rig) fwk.Handle { return r.fwk },
			want:   `args.matchPolicy: Unsupported value: "fifo"`,
		},
		"a scheduler that cannot run filters on request": {
			factory: Factory(fails, leads),
			handle:  func(r *rig) fwk.Handle { return struct{ fwk.Handle }{r.fwk} },
			want:    "cannot run PreFilter plugins on request",
		},
		"a matcher that cannot be dialled": {
			factory: Factory(fails, leads),
			handle:  func(r *rig) fwk.Handle { return r.fwk },
			want:    "connect to the matcher at unix:///run/fluence/fluxion.sock: no such socket",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				pl, err := tc.factory(r.ctx, tc.args, tc.handle(r))
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					r.Errorf("plugin %v, error %v; want an error with %q", pl, err, tc.want)
				}
			})
		})
	}
}

func TestFactoryMakesOnePlugin(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		factory := Factory(func(context.Context, *Args) (Matcher, error) { return r.matcher, nil }, func() bool { return true })
		if _, err := factory(r.ctx, nil, r.fwk); err != nil {
			r.Fatal(err)
		}
		_, err := factory(r.ctx, nil, r.fwk)
		if want := `profile "fluence": plugin Fluence is enabled in profile "fluence" already, and may be enabled once; for the order of the queue alone, enable FluenceSort`; err == nil || err.Error() != want {
			r.Errorf("error %v, want %s", err, want)
		}
	})
}

// A profile that failed does not block the next one.
func TestFailedProfileDoesNotBlockTheNext(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		fails := true
		factory := Factory(func(context.Context, *Args) (Matcher, error) {
			if fails {
				return nil, errors.New("no")
			}
			return r.matcher, nil
		}, func() bool { return true })
		if _, err := factory(r.ctx, nil, r.fwk); err == nil {
			t.Error("no error")
		}
		fails = false
		if _, err := factory(r.ctx, nil, r.fwk); err != nil {
			t.Error(err)
		}
	})
}

func TestPluginAsksForNoEvent(t *testing.T) {
	pl := &Fluence{}
	if events, err := pl.EventsToRegister(t.Context()); len(events) != 0 || err != nil {
		t.Errorf("events = %v, %v; want none", events, err)
	}
}

// With a signature, a pod could get the result that was found for another.
func TestNoPodIsSigned(t *testing.T) {
	if _, signs := fwk.Plugin(&Fluence{}).(fwk.SignPlugin); signs {
		t.Error("the plugin signs pods, want none signed in its profile")
	}
}
