package golden

import (
	"encoding/json"
	"fmt"
	"os"
)

// A SortVector says how libstdc++'s std::sort leaves a list.
type SortVector struct {
	Kind string `json:"kind"`
	// Order is "less" or "greater", the comparison that was given.
	Order  string  `json:"order"`
	Scores []int64 `json:"scores"`
	// Result lists positions in Scores.
	Result []int `json:"result"`
}

// SortVectors reads a file of vectors; it fails if there is none in it.
func SortVectors(path string) ([]SortVector, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var vectors []SortVector
	if err := json.Unmarshal(text, &vectors); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(vectors) == 0 {
		return nil, fmt.Errorf("%s: no vector", path)
	}
	return vectors, nil
}
