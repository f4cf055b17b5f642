package golden

import (
	"encoding/json"
	"fmt"
	"os"
)

// A SortVector is a list and its order after std::sort of libstdc++.
type SortVector struct {
	Kind string `json:"kind"`
	// Order is the comparison: "less" or "greater".
	Order  string  `json:"order"`
	Scores []int64 `json:"scores"`
	// Result has positions in Scores.
	Result []int `json:"result"`
}

// SortVectors reads a file of vectors. It fails if the file has none.
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
