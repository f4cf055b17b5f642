package podgroup

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	cases := map[string]struct {
		edit    func(*Config)
		wantErr string
	}{
		"the defaults":               {edit: func(*Config) {}},
		"no scheduler":               {func(c *Config) { c.SchedulerName = "" }, "schedulerName: "},
		"the default scheduler":      {func(c *Config) { c.SchedulerName = "default-scheduler" }, "schedulerName: "},
		"no time for empty groups":   {func(c *Config) { c.EmptyDelay = 0 }, "emptyDelay: 0s: "},
		"no time for the first":      {func(c *Config) { c.FirstStatusDelay = 0 }, "firstStatusDelay: 0s: "},
		"negative time for counts":   {func(c *Config) { c.CountDelay = -time.Second }, "countDelay: -1s: "},
		"shorter later than first":   {func(c *Config) { c.StatusDelay = time.Millisecond }, "statusDelay: 1ms: must be at least countDelay, 1s"},
		"too little time to recover": {func(c *Config) { c.IncompleteTimeout = time.Millisecond }, "incompleteTimeout: 1ms: "},
		"no time between looks":      {func(c *Config) { c.CRDPoll = 0 }, "crdPoll: 0s: "},
		"no time for calls":          {func(c *Config) { c.Timeout = 0 }, "timeout: 0s: "},
		"nobody to work":             {func(c *Config) { c.Workers = 0 }, "workers: 0: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			tc.edit(&c)
			err := c.validate()
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.HasPrefix(err.Error(), tc.wantErr) {
				t.Errorf("validate() = %v, want an error that begins with %q", err, tc.wantErr)
			}
		})
	}
}
