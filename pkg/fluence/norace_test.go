//go:build !race

package fluence

const raceDetector = false
