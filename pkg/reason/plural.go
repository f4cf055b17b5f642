package reason

import "fmt"

// Plural returns a number with its noun: "1 node", "3 nodes". It adds "s" for the plural.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
