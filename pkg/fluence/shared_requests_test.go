package fluence

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestPodsWithEqualRequestsShareThem(t *testing.T) {
	requests := sharedRequests()
	first := requests(objects.Pod("a", objects.CPU("2")))
	address := func(m map[string]int64) uintptr { return reflect.ValueOf(m).Pointer() }
	if same := requests(objects.Pod("b", objects.CPU("2000m"))); address(same) != address(first) {
		t.Error("equal requests have maps of their own")
	}
	for i := range 2 * maxShared {
		pod := objects.Pod("c", objects.CPU(fmt.Sprintf("%dm", i+1)))
		if got, want := requests(pod), translate.Requests(pod); !maps.Equal(got, want) {
			t.Fatalf("requests of %d milli-CPU are %v, want %v", i+1, got, want)
		}
	}
	if again := requests(objects.Pod("d", objects.CPU("2"))); address(again) == address(first) {
		t.Error("the known requests are not bounded")
	}
}
