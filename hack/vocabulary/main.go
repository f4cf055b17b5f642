// Command vocabulary finds words that this project no longer uses: names that a
// reader cannot guess, and phrases that have to be read twice. make lint runs it.
//
//	vocabulary words.txt FOLDER...
//
// A line of the list is one of
//
//	name WORD BETTER [FOLDER]   a word of a declared name: GivenBack has the words given and back
//	file NAME BETTER [FOLDER]   the name of a file without its ending
//	text PHRASE | BETTER        a phrase in a comment or on a page
//
// A line with a FOLDER applies only below that folder.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: vocabulary words.txt FOLDER...")
		os.Exit(2)
	}
	found, err := run(os.Args[1], os.Args[2:])
	for _, f := range found {
		fmt.Fprintln(os.Stdout, f)
	}
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%d words that were given up; %s says what to write instead", len(found), os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vocabulary:", err)
		os.Exit(1)
	}
}

// run returns each use, in the folders, of a word on the list.
func run(list string, folders []string) ([]string, error) {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	v, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	var found []string
	var errs []error
	for _, folder := range folders {
		uses, err := v.walk(folder)
		found, errs = append(found, uses...), append(errs, err)
	}
	return found, errors.Join(errs...)
}
