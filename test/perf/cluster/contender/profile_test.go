package contender

import "testing"

func TestTheLastOfSeveralFlagsCounts(t *testing.T) {
	cases := map[string]struct {
		line   string
		want   string
		wantOK bool
	}{
		"one":     {"scheduler\x00--secure-port=1\x00-v=2\x00", "1", true},
		"several": {"scheduler\x00--secure-port=1\x00-v=2\x00--secure-port=2\x00", "2", true},
		"none":    {"scheduler\x00-v=2\x00", "", false},
		"ended":   {"", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, ok := lastFlag([]byte(tc.line), "--secure-port="); got != tc.want || ok != tc.wantOK {
				t.Errorf("lastFlag() = %q, %t, want %q, %t", got, ok, tc.want, tc.wantOK)
			}
		})
	}
}
