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

const crdPath = "manifests/crds/scheduling.x-k8s.io_podgroups.yaml"

// podGroup describes the fields of a PodGroup by its CRD.
func podGroup() (string, error) {
	text, err := os.ReadFile(crdPath)
	if err != nil {
		return "", err
	}
	var crd apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		return "", fmt.Errorf("%s: %w", crdPath, err)
	}
	if len(crd.Spec.Versions) != 1 {
		return "", fmt.Errorf("%s: %d versions, want 1", crdPath, len(crd.Spec.Versions))
	}
	version := crd.Spec.Versions[0]
	var b strings.Builder
	fmt.Fprintf(&b, "## PodGroup\n\n%s of `%s/%s`. Short names: `%s`.\n\n", crd.Spec.Names.Kind, crd.Spec.Group, version.Name, strings.Join(crd.Spec.Names.ShortNames, "`, `"))
	var rows [][]string
	for _, part := range []string{"spec", "status"} {
		schema := version.Schema.OpenAPIV3Schema.Properties[part]
		rows = append(rows, fields(part, schema)...)
	}
	b.WriteString(table([]string{"field", "type", "means"}, rows))
	b.WriteString("\nThe columns of `kubectl get fpg`; those with \"wide\" need `-o wide`:\n\n")
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

// fields returns the rows of the fields below a schema, by name. It leaves out the fields of
// a condition, because all kinds of Kubernetes have the same ones.
func fields(path string, schema apiextensions.JSONSchemaProps) [][]string {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		at := path + "." + name
		rows = append(rows, []string{code(at), typeOf(p), described(name, p.Description)})
		switch {
		case name == "conditions":
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

// typeOf returns the type of a field with its bounds.
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
	return strings.Join(append([]string{kind}, bounds...), ", ")
}
