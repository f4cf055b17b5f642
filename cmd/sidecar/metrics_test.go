package main

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/metricdoc"
)

func TestEachMetricOfTheSidecarIsDocumented(t *testing.T) {
	rows, err := metricdoc.Read()
	if err != nil {
		t.Fatal(err)
	}
	served, err := measure(matchtest.NewFake()).told()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range metricdoc.Differences(rows[metricdoc.Sidecar], served) {
		t.Error(wrong)
	}
}
