package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// The output formats, except the text that is the default.
const (
	formatJSON = "json"
	formatYAML = "yaml"
	formatWide = "wide"
	formatJGF  = "jgf"
	formatName = "name"
	formatSVG  = "svg"
	// These end in "=", and a template or a list of columns follows.
	formatJSONPath = "jsonpath="
	formatColumns  = "custom-columns="
)

// An outputFormat is the value of the flag -o.
type outputFormat struct {
	value string
	valid []string
}

// addOutputFlag adds the flag -o. It accepts more in addition to json and yaml.
func addOutputFlag(cmd *cobra.Command, more ...string) *outputFormat {
	f := &outputFormat{valid: append([]string{formatJSON, formatYAML}, more...)}
	cmd.Flags().StringVarP(&f.value, "output", "o", "", "one of "+strings.Join(f.valid, ", "))
	err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(f.valid, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag was added right above
	}
	return f
}

func (f *outputFormat) validate() error {
	takes := func(valid string) bool {
		return valid == f.value || strings.HasSuffix(valid, "=") && strings.HasPrefix(f.value, valid) && f.value != valid
	}
	if f.value != "" && !slices.ContainsFunc(f.valid, takes) {
		return fmt.Errorf("--output: %q: must be one of %s", f.value, strings.Join(f.valid, ", "))
	}
	return nil
}

// print writes v as JSON or YAML if the user asked for it. Otherwise it writes what text writes.
func (f *outputFormat) print(w io.Writer, v any, text func(io.Writer) error) error {
	switch f.value {
	case formatJSON:
		out, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		_, err = fmt.Fprintf(w, "%s\n", out)
		return err
	case formatYAML:
		out, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		_, err = w.Write(out)
		return err
	}
	if template, ok := strings.CutPrefix(f.value, formatJSONPath); ok {
		text = func(w io.Writer) error { return writeJSONPath(w, template, v) }
	}
	if columns, ok := strings.CutPrefix(f.value, formatColumns); ok {
		text = func(w io.Writer) error { return writeColumns(w, columns, v) }
	}
	// The text is buffered, so that a failed write to w
	// is an error even if text ignores its own errors.
	var b bytes.Buffer
	if err := text(&b); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// table writes rows as aligned columns.
func table(w io.Writer, rows [][]string) error {
	t := newTable(w)
	_, err := t.add(rows)
	return err
}

// A growingTable is a table to which rows are added later. Its columns do not become narrower.
type growingTable struct {
	w interface {
		io.Writer
		Flush() error
		RememberedWidths() []int
	}
}

// cellPadding is the number of characters between two columns, as kubectl has it.
const cellPadding = 3

// newTable returns a table without rows, whose first columns have at least these widths in characters.
func newTable(w io.Writer, widths ...int) growingTable {
	t := printers.GetNewTabWriter(w)
	for i := range widths {
		widths[i] += cellPadding
	}
	t.SetRememberedWidths(widths)
	return growingTable{t}
}

// add writes rows. wider is true if a column has become wider by them.
func (t *growingTable) add(rows [][]string) (wider bool, err error) {
	before := t.w.RememberedWidths()
	for _, row := range rows {
		fmt.Fprintln(t.w, strings.Join(row, "\t"))
	}
	err = t.w.Flush()
	return !slices.Equal(before, t.w.RememberedWidths()), err
}

// notes writes the limits of an answer to stderr, each once.
func (o *options) notes(notes []string) {
	for i, n := range notes {
		if !slices.Contains(notes[:i], n) {
			fmt.Fprintf(o.ErrOut, "note: %s\n", n)
		}
	}
}

// printable returns a text from the cluster as a terminal may show it: with '?' for each character that is not
// printed, such as a control character. Users of the cluster choose such texts, and a terminal obeys escape sequences.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// maxName is the length in bytes of the longest name of an object:
// https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names.
const maxName = 253

// printableName is printable for NAME or KIND/NAME. It cuts what is longer than a name can be.
func printableName(name string) string {
	parts := strings.SplitN(name, "/", 2)
	for i, part := range parts {
		parts[i] = printable(strings.ToValidUTF8(part[:min(len(part), maxName)], ""))
	}
	return strings.Join(parts, "/")
}

// age returns the time that has passed since t, as kubectl writes it.
func (o *options) age(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(0, o.now().Sub(t.Time)).Round(time.Second))
}

// A paint is a colour or style of a terminal, as its number in ECMA-48.
type paint int

const (
	bold   paint = 1
	dim    paint = 2
	red    paint = 31
	green  paint = 32
	yellow paint = 33
	// plain is the colour of a terminal's other text. Its number has as many digits as those of the colours,
	// so that the cells of a column stay aligned.
	plain paint = 39
)

// paint colours text if colours are wanted.
func (o *options) paint(p paint, text string) string {
	if text == "" || o.color == "never" || o.color == "auto" && !o.terminal {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", p, text)
}
