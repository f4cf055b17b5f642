package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/statusmap"
	"github.com/flux-k8s/fluence/test/stack"
)

// The leading scheduler reports its state, with the rights that it has.
func TestTheSchedulerKeepsItsFigures(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "2")
	s.applyText(job("fits", 2, "2"))
	s.running("fits-", 2)
	s.eventually("figures of what runs", func(ctx context.Context) (bool, string) {
		cm, err := s.Client().CoreV1().ConfigMaps(stack.Namespace).Get(ctx, statusmap.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		f, err := statusmap.Read(cm.Data)
		if err != nil {
			t.Fatal(err)
		}
		fresh := time.Since(f.Updated) < statusmap.MaxWriteInterval+2*statusmap.MinWriteInterval
		return fresh && f.MatcherAnswers && f.Epoch != 0 && f.Nodes >= 2 && f.PodsWithRoom >= 2 && f.GroupsByPhase["held"] > 0 && f.LastMatch != nil && f.Leader != "" && f.Version != "",
			fmt.Sprintf("%+v", f)
	})
}
