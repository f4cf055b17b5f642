package monitoring

import (
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/metricdoc"
)

// The page's rows of the API server's metrics match the metrics that the API server serves.
func TestTheMetricsOfTheAPIServerAreThoseThereAre(t *testing.T) {
	sections, err := metricdoc.Read()
	if err != nil {
		t.Fatal(err)
	}
	rows := sections[metricdoc.APIServer]
	if len(rows) == 0 {
		t.Fatal("there are none")
	}
	created := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", admission.Create, nil, false, nil)
	admissionmetrics.Metrics.ObserveWebhook(t.Context(), "x", time.Second, false, created, "admit", 200)
	admissionmetrics.Metrics.ObserveWebhookFailOpen(t.Context(), "x", "admit")
	served, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range metricdoc.Differences(rows, served) {
		t.Error(wrong)
	}
}

// Each entry of the webhook's configuration has its alerts.
func TestAlertsOnTheWebhookAreOnAllOfIt(t *testing.T) {
	var config admissionregistrationv1.MutatingWebhookConfiguration
	if err := yaml.UnmarshalStrict([]byte(file(t, "manifests", "webhook", "configuration.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	w := well().without("pods.fluence")
	for _, hook := range config.Webhooks {
		name := `name="` + hook.Name + `"`
		slow := w.with(series{`apiserver_admission_webhook_fail_open_count{instance="api",type="admit",` + name + `}`: {0, 1}})
		slow.histogram(called, name, 0.9)
		for _, a := range alerts(t) {
			if (a.Alert == "FluenceWebhookFailsOpen" || a.Alert == "FluenceWebhookSlow") && !slow.fires(t, a.Expr, a.while) {
				t.Errorf("alert %s is silent on %s", a.Alert, hook.Name)
			}
		}
	}
}
