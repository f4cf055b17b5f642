package fluence

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/test/objects"
)

// quota returns a ResourceQuota that has its limits in hard, of which used is in use.
func quota(name string, hard, used corev1.ResourceList, edit ...func(*corev1.ResourceQuota)) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	q.Spec.Hard, q.Status.Hard, q.Status.Used = hard, hard, used
	objects.All(edit...)(q)
	return q
}

func TestWhatQuotasLeave(t *testing.T) {
	of := func(n int, edit ...func(*corev1.Pod)) []gang.PodCount {
		return []gang.PodCount{{Pod: objects.Pod("p", edit...), N: n}}
	}
	scoped := func(scopes ...corev1.ResourceQuotaScope) func(*corev1.ResourceQuota) {
		return func(q *corev1.ResourceQuota) { q.Spec.Scopes = scopes }
	}
	cases := map[string]struct {
		quotas         []*corev1.ResourceQuota
		held, expected []gang.PodCount
		want           int
		why            string
	}{
		"no quota":               {nil, nil, of(5), 5, ""},
		"enough":                 {[]*corev1.ResourceQuota{quota("a", objects.Amounts("requests.cpu", "8"), objects.Amounts("requests.cpu", "3"))}, nil, of(5), 5, ""},
		"CPUs for some":          {[]*corev1.ResourceQuota{quota("a", objects.Amounts("requests.cpu", "8"), objects.Amounts("requests.cpu", "6500m"))}, nil, of(5), 1, `ResourceQuota "a" leaves no more requests.cpu`},
		"the short name":         {[]*corev1.ResourceQuota{quota("a", objects.Amounts("cpu", "8"), objects.Amounts("cpu", "6"))}, nil, of(5), 2, `ResourceQuota "a" leaves no more cpu`},
		"pods for some":          {[]*corev1.ResourceQuota{quota("a", objects.Amounts("pods", "4"), objects.Amounts("pods", "2"))}, nil, of(5), 2, `ResourceQuota "a" leaves no more pods`},
		"a device":               {[]*corev1.ResourceQuota{quota("a", objects.Amounts("requests.example.com/gpu", "2"), nil)}, nil, of(5, objects.Asking("example.com/gpu", "1")), 2, `ResourceQuota "a" leaves no more requests.example.com/gpu`},
		"more is used":           {[]*corev1.ResourceQuota{quota("a", objects.Amounts("pods", "2"), objects.Amounts("pods", "4"))}, nil, of(5), 0, `ResourceQuota "a" leaves no more pods`},
		"some are held":          {[]*corev1.ResourceQuota{quota("a", objects.Amounts("requests.cpu", "8"), nil)}, of(6), of(5), 2, `ResourceQuota "a" leaves no more requests.cpu`},
		"too many are held":      {[]*corev1.ResourceQuota{quota("a", objects.Amounts("requests.cpu", "8"), nil)}, of(9), of(5), 0, `ResourceQuota "a" leaves no more requests.cpu`},
		"of two the least":       {[]*corev1.ResourceQuota{quota("a", objects.Amounts("pods", "4"), nil), quota("b", objects.Amounts("pods", "3"), nil)}, nil, of(5), 3, `ResourceQuota "b" leaves no more pods`},
		"other resources":        {[]*corev1.ResourceQuota{quota("a", objects.Amounts("services", "0", "requests.storage", "0"), nil)}, nil, of(5), 5, ""},
		"the first kind alone":   {[]*corev1.ResourceQuota{quota("a", objects.Amounts("requests.cpu", "8"), nil)}, nil, append(of(3, objects.CPU("2")), of(5, objects.CPU("3"))...), 3, `ResourceQuota "a" leaves no more requests.cpu`},
		"for pods without limit": {[]*corev1.ResourceQuota{quota("a", objects.Amounts("pods", "0"), nil, scoped(corev1.ResourceQuotaScopeTerminating))}, nil, of(5), 5, ""},
		"for such pods":          {[]*corev1.ResourceQuota{quota("a", objects.Amounts("pods", "0"), nil, scoped(corev1.ResourceQuotaScopeNotTerminating))}, nil, of(5), 0, `ResourceQuota "a" leaves no more pods`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q, err := newQuotas(fake.NewClientset())
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range tc.quotas {
				if err := q.informer.GetIndexer().Add(one); err != nil {
					t.Fatal(err)
				}
			}
			if n, why := q.within(ns, tc.held, tc.expected); n != tc.want || why != tc.why {
				t.Errorf("within = %d, %q; want %d, %q", n, why, tc.want, tc.why)
			}
			if n, why := q.within("other", tc.held, tc.expected); why != "" || n == 0 {
				t.Errorf("in another namespace: %d, %q", n, why)
			}
		})
	}
}

// Without the right to read ResourceQuotas there are none, and the log says so once.
func TestWithoutTheRightToReadQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(quota("a", objects.Amounts("pods", "0"), nil))
		forbidden := apierrors.NewForbidden(corev1.Resource("resourcequotas"), "", nil)
		client.PrependReactor("list", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
		client.PrependWatchReactor("resourcequotas", func(clienttesting.Action) (bool, watch.Interface, error) { return true, nil, forbidden })
		q, err := newQuotas(client)
		if err != nil {
			t.Fatal(err)
		}
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		go q.run(ctx)
		time.Sleep(10 * time.Minute)
		if n, why := q.within(ns, nil, []gang.PodCount{{Pod: objects.Pod("p"), N: 3}}); n != 3 || why != "" {
			t.Errorf("within = %d, %q; want all", n, why)
		}
		cancel()
		synctest.Wait()
		text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		if n := strings.Count(text, "may not read ResourceQuotas"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, text)
		}
		if n := len(client.Actions()); n < 2 {
			t.Errorf("asked %s, want it to be tried again", fmt.Sprint(client.Actions()))
		}
	})
}
