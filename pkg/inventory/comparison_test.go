package inventory

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestAViewShowsThePodsOnItsNodesAndThoseThatTheEngineHasThere(t *testing.T) {
	here := []match.Node{{Name: "n2", Jobs: []match.Job{{ID: 7, Slots: []match.Slot{translate.HeldSlot(pod("a", "u1", "n2", "1"))}}}}}
	cases := map[string]struct {
		listed []match.Node
		pods   []any
		// want are the keys with a pod. read are the pods whose holds were read.
		want, read []string
	}{
		"a pod on a node of the page":             {nil, []any{pod("a", "u1", "n2", "1")}, []string{"u1"}, []string{"a"}},
		"on the first and the last node":          {nil, []any{pod("a", "u1", "n1", "1"), pod("b", "u2", "n3", "1")}, []string{"u1", "u2"}, []string{"a", "b"}},
		"on a node beside the page":               {nil, []any{pod("a", "u1", "n7", "1")}, []string{"u1"}, []string{"a"}},
		"elsewhere":                               {nil, []any{pod("a", "u1", "n5", "1"), pod("b", "u2", "n0", "1")}, nil, nil},
		"elsewhere, and the engine has it here":   {here, []any{pod("a", "u1", "n5", "1"), pod("b", "u2", "n5", "1")}, []string{"u1"}, []string{"a"}},
		"here, and the engine has it here":        {here, []any{pod("a", "u1", "n2", "1"), pod("b", "u2", "n5", "1")}, []string{"u1"}, []string{"a"}},
		"finished, and the engine has it here":    {here, []any{pod("a", "u1", "n5", "1", objects.InPhase(corev1.PodSucceeded))}, nil, nil},
		"without a node":                          {nil, []any{pod("a", "u1", "", "1")}, nil, nil},
		"without a node, and the engine has it":   {here, []any{pod("a", "u1", "", "1")}, nil, nil},
		"no pod is there for what the engine has": {here, nil, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := &comparison{from: "n1", to: "n3", extraNodes: map[string]bool{"n7": true}, nodes: map[string]*nodeSides{}, slots: map[string]*slotSides{}}
			v.addEngineNodes(tc.listed, nil)
			var read []string
			pods := newInformer()
			done(addNodeIndex(pods))
			for _, p := range tc.pods {
				done(pods.store.Add(p))
			}
			done(v.addPods(pods.store, func(p *corev1.Pod) hold {
				read = append(read, p.Name)
				return hold{job: 7, slot: translate.HeldSlot(p)}
			}))
			slices.Sort(read)
			var got []string
			for _, key := range slices.Sorted(maps.Keys(v.slots)) {
				if s := v.slots[key]; s.pod != nil {
					if got = append(got, key); s.pod.UID != types.UID(key) || len(s.cluster) != 1 {
						t.Errorf("%s is that of pod %s, which holds %+v, want it to hold one slot", key, s.pod.UID, s.cluster)
					}
				}
			}
			if !slices.Equal(got, tc.want) || !slices.Equal(read, tc.read) {
				t.Errorf("keys %q with a pod, and %q were read; want %q and %q", got, read, tc.want, tc.read)
			}
		})
	}
}
