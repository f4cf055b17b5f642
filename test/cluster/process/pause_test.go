package process

import (
	"testing"
	"time"
)

func TestAPausedProcessStandsUntilItGoesOn(t *testing.T) {
	p := start(t, group(t, false), "p", "polite")
	for range 20 {
		if err := p.Pause(within(t, 20*time.Second)); err != nil {
			t.Fatalf("Pause() = %v", err)
		}
		if stands, err := allStopped(p.PID()); !stands || err != nil {
			t.Fatalf("after Pause() all threads stand: %t, %v", stands, err)
		}
		if err := p.Resume(); err != nil {
			t.Fatalf("Resume() = %v", err)
		}
	}
	if err := p.Stop(within(t, 20*time.Second)); err != nil {
		t.Fatalf("Stop() = %v", err)
	}
	if err := p.Pause(within(t, 20*time.Second)); err == nil {
		t.Error("Pause() of a process that has ended succeeded")
	}
}
