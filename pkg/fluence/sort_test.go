package fluence

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/test/objects"
)

// others is the name of the second profile.
const others = "other"

// twoProfiles reads the configuration that is shipped for several profiles.
func twoProfiles(t *testing.T) *config.KubeSchedulerConfiguration {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "scheduler-config-profiles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := configscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*config.KubeSchedulerConfiguration)
}

// build builds another scheduler with these profiles.
func (r *rig) build(profiles []config.KubeSchedulerProfile) (*scheduler.Scheduler, error) {
	place, sort := Factories(func(context.Context, *Args) (Matcher, error) { return r.matcher, nil }, func() bool { return true })
	registry := frameworkruntime.Registry{}
	r.must(registry.Register(Name, place))
	r.must(registry.Register(SortName, sort))
	return scheduler.New(r.ctx, r.client, informers.NewSharedInformerFactory(r.client, 0), nil,
		func(string) events.EventRecorderLogger { return r.recorder },
		scheduler.WithKubeConfig(&rest.Config{Host: "http://api.test", Transport: transport{podGroups: r.podGroupAPI, owners: r.owners, binds: r.binds, queues: newQueueAPI()}}),
		scheduler.WithProfiles(profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(registry))
}

func TestASecondProfileSortsByTheGroupsOfTheFirst(t *testing.T) {
	for name, arrange := range map[string]func([]config.KubeSchedulerProfile){
		"Fluence's first": func([]config.KubeSchedulerProfile) {},
		"Fluence's last":  slices.Reverse[[]config.KubeSchedulerProfile],
	} {
		t.Run(name, func(t *testing.T) {
			cfg := twoProfiles(t)
			arrange(cfg.Profiles)
			if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
				t.Fatal(err)
			}
			inRig(t, nil, func(r *rig) {
				sched, err := r.build(cfg.Profiles)
				r.must(err)
				var groups *gang.Groups
				for _, p := range sched.Profiles[profile].PreEnqueuePlugins() {
					if pl, ok := p.(*Fluence); ok {
						groups = pl.groups
					}
				}
				for _, p := range sched.Profiles[others].PreEnqueuePlugins() {
					if p.Name() == Name || p.Name() == SortName {
						r.Errorf("profile %s has %s under preEnqueue", others, p.Name())
					}
				}
				noon := time.Now().Truncate(time.Hour)
				groups.PutPodGroup(types.NamespacedName{Namespace: ns, Name: "z"}, gang.PodGroup{UID: "pg", MinMember: 2, Created: noon})
				early, late := objects.Pod("early", objects.InGroup("z")), objects.Pod("late", objects.InGroup("z"))
				early.CreationTimestamp, late.CreationTimestamp = metav1.NewTime(noon), metav1.NewTime(noon.Add(time.Hour))
				groups.PutPod(early, time.Now())
				groups.PutPod(late, time.Now())
				want := []fwk.QueuedEntityInfo{
					queuedAt(t, foreign("urgent", 1), noon.Add(time.Hour)),
					queuedAt(t, foreign("before", 0), noon.Add(-time.Second)),
					queued(t, early),
					// The group's time counts, although the pod came long after the next one.
					queued(t, late),
					queuedAt(t, foreign("first-in-the-queue", 0), noon.Add(time.Second)),
					// The pod is older, but was refused meanwhile.
					queuedAt(t, foreign("aged", 0), noon.Add(time.Minute)),
				}
				for i, a := range want {
					for j, b := range want {
						for _, name := range []string{profile, others} {
							if got := sched.Profiles[name].QueueSortFunc()(a, b); got != (i < j) {
								r.Errorf("profile %s: entity %d before entity %d: %v", name, i, j, got)
							}
						}
					}
				}
			})
		})
	}
}

// foreign returns a pod of the second profile.
func foreign(name string, priority int32) *corev1.Pod {
	return objects.Pod(name, func(p *corev1.Pod) { p.Spec.SchedulerName, p.Spec.Priority = others, &priority })
}

func queuedAt(t *testing.T, pod *corev1.Pod, at time.Time) fwk.QueuedEntityInfo {
	t.Helper()
	q := queued(t, pod).(*schedulerframework.QueuedPodInfo)
	q.Timestamp = at
	return q
}

func TestProfilesThatWouldPlaceTwiceOrSortOtherwiseAreRefused(t *testing.T) {
	sortBy := func(name string) config.PluginSet {
		return config.PluginSet{Enabled: []config.Plugin{{Name: name}}, Disabled: []config.Plugin{{Name: "*"}}}
	}
	cases := map[string]struct {
		change func(ours, theirs *config.KubeSchedulerProfile)
		want   string
	}{
		"both enable Fluence": {
			change: func(_, theirs *config.KubeSchedulerProfile) {
				theirs.Plugins.MultiPoint.Enabled = append(theirs.Plugins.MultiPoint.Enabled, config.Plugin{Name: Name})
			},
			want: `profile "other": plugin Fluence is enabled in profile "fluence" already, and may be enabled once; for the order of the queue alone, enable FluenceSort`,
		},
		"both sort by Fluence, and one has no arguments": {
			change: func(ours, theirs *config.KubeSchedulerProfile) {
				ours.Plugins.QueueSort, theirs.Plugins.QueueSort = sortBy(Name), sortBy(Name)
			},
			want: `profile "other": plugin Fluence is enabled in profile "fluence" already, and may be enabled once; for the order of the queue alone, enable FluenceSort`,
		},
		"one keeps the sorting of kube-scheduler": {
			change: func(_, theirs *config.KubeSchedulerProfile) { theirs.Plugins.QueueSort = config.PluginSet{} },
			want:   `different queue sort plugins for profile "other"`,
		},
		"FluenceSort has arguments": {
			change: func(ours, _ *config.KubeSchedulerProfile) {
				ours.PluginConfig = append(ours.PluginConfig, config.PluginConfig{Name: SortName, Args: &runtime.Unknown{Raw: []byte(`{"matchPolicy":"low"}`)}})
			},
			want: `profile "fluence": plugin FluenceSort takes no arguments`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				cfg := twoProfiles(t)
				tc.change(&cfg.Profiles[0], &cfg.Profiles[1])
				if _, err := r.build(cfg.Profiles); err == nil || !strings.Contains(err.Error(), tc.want) {
					r.Errorf("error %v, want %s", err, tc.want)
				}
			})
		})
	}
}

// Without Fluence the order is the one of kube-scheduler's own plugin.
func TestSortingWithoutFluenceGoesByPriorityAndTime(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	_, factory := Factories(nil, nil)
	plugin, err := factory(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []fwk.QueuedEntityInfo{
		queuedAt(t, foreign("urgent", 2), noon.Add(time.Hour)),
		queuedAt(t, objects.Pod("b"), noon),
		queuedAt(t, objects.Pod("c"), noon),
		queuedAt(t, objects.Pod("a"), noon.Add(time.Second)),
	}
	less := plugin.(*Sort).Less
	for i, a := range want {
		for j, b := range want {
			if got := less(a, b); got != (i < j) {
				t.Errorf("entity %d before entity %d: %v", i, j, got)
			}
		}
	}
}
