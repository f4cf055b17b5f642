package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// crds are the CRDs in the order of the page.
var crds = []string{
	"manifests/crds/scheduling.x-k8s.io_podgroups.yaml",
	"manifests/crds/fluence.flux-framework.org_queues.yaml",
	"manifests/crds/fluence.flux-framework.org_fluxjobs.yaml",
}

// kinds describes the fields of each kind by its CRD.
func kinds() (string, error) {
	var all []string
	for _, path := range crds {
		text, err := kind(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n"), nil
}

// kind describes the fields of one kind by the CRD with this path.
func kind(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var crd apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		return "", err
	}
	if len(crd.Spec.Versions) != 1 {
		return "", fmt.Errorf("%d versions, want 1", len(crd.Spec.Versions))
	}
	version, names := crd.Spec.Versions[0], crd.Spec.Names
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s of `%s/%s`. Short names: `%s`.\n\n", names.Kind, names.Kind, crd.Spec.Group, version.Name, strings.Join(names.ShortNames, "`, `"))
	var rows [][]string
	for _, part := range []string{"spec", "status"} {
		schema := version.Schema.OpenAPIV3Schema.Properties[part]
		rows = append(rows, fields(part, schema)...)
	}
	b.WriteString(table([]string{"field", "type", "means"}, rows))
	fmt.Fprintf(&b, "\nThe columns of `kubectl get %s`; those with \"wide\" need `-o wide`:\n\n", names.ShortNames[0])
	var columns [][]string
	for _, c := range version.AdditionalPrinterColumns {
		name := code(strings.ToUpper(c.Name))
		if c.Priority > 0 {
			name += " (wide)"
		}
		columns = append(columns, []string{name, code(strings.TrimPrefix(c.JSONPath, "."))})
	}
	b.WriteString(table([]string{"column", "field"}, columns))
	return b.String(), nil
}

// known lists the names of fields with types of Kubernetes. Kubernetes describes what is below them.
var known = []string{"affinity", "conditions", "defaultFor", "namespaceSelector", "requires", "tolerations"}

// fields returns a row for each field of a schema, in the order of their names. It does not go below known fields.
func fields(path string, schema apiextensions.JSONSchemaProps) [][]string {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		at := path + "." + name
		rows = append(rows, []string{code(at), typeOf(p), described(name, p.Description)})
		switch {
		case slices.Contains(known, name):
		case p.Items != nil && p.Items.Schema != nil:
			rows = append(rows, fields(at+"[]", *p.Items.Schema)...)
		default:
			rows = append(rows, fields(at, p)...)
		}
	}
	return rows
}

// described returns a description that begins with the name of the field in the CRD. The text begins with its Go name.
func described(name, text string) string {
	text = oneLine(text)
	if len(text) > len(name) && strings.EqualFold(text[:len(name)], name) {
		return code(name) + text[len(name):]
	}
	return text
}

// typeOf returns the type of a field with its bounds and its default.
func typeOf(p apiextensions.JSONSchemaProps) string {
	kind := p.Type
	if p.Format != "" {
		kind = p.Format
	}
	var bounds []string
	if p.Minimum != nil {
		bounds = append(bounds, fmt.Sprintf("at least %.0f", *p.Minimum))
	}
	if p.Maximum != nil {
		bounds = append(bounds, fmt.Sprintf("at most %.0f", *p.Maximum))
	}
	if p.MaxLength != nil {
		bounds = append(bounds, fmt.Sprintf("at most %d characters", *p.MaxLength))
	}
	if p.MaxItems != nil {
		bounds = append(bounds, fmt.Sprintf("at most %d items", *p.MaxItems))
	}
	for _, v := range p.Enum {
		bounds = append(bounds, string(v.Raw))
	}
	if p.Default != nil && p.Type != "object" {
		bounds = append(bounds, "default "+string(p.Default.Raw))
	}
	return strings.Join(append([]string{kind}, bounds...), ", ")
}
