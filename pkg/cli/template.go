package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// writeJSONPath writes what a JSONPath template of kubectl selects from v.
func writeJSONPath(w io.Writer, template string, v any) error {
	return selectPath(w, "--output "+formatJSONPath, template, v)
}

// writeColumns writes a table with a row for each item of v. columns are as kubectl takes them:
// HEADER:PATH, separated by commas. A cell without a value is <none>.
func writeColumns(w io.Writer, columns string, v any) error {
	data, err := asData(v)
	if err != nil {
		return err
	}
	items := []any{data}
	if list, ok := data.(map[string]any)["items"].([]any); ok {
		items = list
	}
	rows := make([][]string, len(items)+1)
	for column := range strings.SplitSeq(columns, ",") {
		head, path, ok := strings.Cut(column, ":")
		if !ok || head == "" || path == "" {
			return fmt.Errorf("--output %s: %q: must be HEADER:PATH, such as NAME:.name", formatColumns, column)
		}
		path = "{." + strings.TrimPrefix(strings.Trim(path, "{}"), ".") + "}"
		rows[0] = append(rows[0], head)
		for i, item := range items {
			var cell strings.Builder
			if err := selectPath(&cell, "--output "+formatColumns, path, item); err != nil {
				return err
			}
			if cell.Len() == 0 {
				cell.WriteString("<none>")
			}
			rows[i+1] = append(rows[i+1], printable(cell.String()))
		}
	}
	return table(w, rows)
}

// selectPath writes what a template selects from v. flag names the flag with the template in errors.
func selectPath(w io.Writer, flag, template string, v any) error {
	data, err := asData(v)
	if err != nil {
		return err
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return fmt.Errorf("%s: %q: %w", flag, template, err)
	}
	if err := path.Execute(w, data); err != nil {
		return fmt.Errorf("%s: %q: %w", flag, template, err)
	}
	return nil
}

// asData returns a value as its JSON says it. Numbers stay as they are written.
func asData(v any) (data any, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&data); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return data, nil
}
