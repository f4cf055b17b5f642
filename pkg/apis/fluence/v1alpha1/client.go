package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// RESTClientFor returns a client of Queues and FluxJobs. It takes from config, which it leaves as
// it is, where the API server is and how to speak to it, and fails where that cannot be
// made use of.
func RESTClientFor(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("build the scheme of Queues and FluxJobs: %w", err)
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &GroupVersion
	config.APIPath = "/apis"
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build the client of Queues and FluxJobs: %w", err)
	}
	return client, nil
}
