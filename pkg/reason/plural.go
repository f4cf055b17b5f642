package reason

import "fmt"

// Plural says how many of something there are: "1 node", "3 nodes".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
