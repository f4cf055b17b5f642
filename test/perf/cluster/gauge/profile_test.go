package gauge

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProfiles(t *testing.T) {
	cases := map[string]struct {
		// answers are the codes of the answers. After the last one the profiles end.
		answers []int
		want    []string // the files that are written
		wantErr string
	}{
		"two":                         {answers: []int{200, 200, 200, 200}, want: []string{"cpu-1", "cpu-2", "heap-1", "heap-2"}},
		"nobody answers at first":     {answers: []int{503, 503, 200, 200}, want: []string{"cpu-1", "heap-1"}},
		"nobody answers in between":   {answers: []int{200, 200, 503, 200, 200}, want: []string{"cpu-1", "cpu-2", "heap-1", "heap-2"}},
		"the heap comes a round late": {answers: []int{200, 503, 200, 200}, want: []string{"cpu-1", "heap-1"}},
		"it never answers":            {answers: []int{403, 403}, wantErr: "403"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir, done, asked := t.TempDir(), make(chan struct{}), 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.URL.String(); got != "/profile?seconds=5" && got != "/heap" {
					t.Errorf("asked for %q", got)
				}
				w.WriteHeader(tc.answers[asked])
				if asked++; asked == len(tc.answers) {
					close(done)
				}
			}))
			defer server.Close()
			err := WriteProfiles(t.Context(), server.Client(), server.URL, func(kind string, n int) string {
				return filepath.Join(dir, kind+"-"+strconv.Itoa(n))
			}, done)
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("WriteProfiles() = %v, want %q", err, tc.wantErr)
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}
