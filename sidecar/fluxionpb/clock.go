package fluxionpb

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// encodeTime leaves the zero time unset. The reader rejects times outside of the years 1 to 9999.
func encodeTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func decodeTime(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, fieldError(field, "%w", err)
	}
	return t.AsTime(), nil
}

func encodeDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// decodeDuration also fails for a valid message that exceeds a time.Duration.
func decodeDuration(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, fieldError(field, "%w", err)
	}
	short := d.AsDuration()
	if back := durationpb.New(short); back.Seconds != d.Seconds || back.Nanos != d.Nanos {
		return 0, fieldError(field, "%d seconds is more than a duration holds", d.Seconds)
	}
	return short, nil
}
