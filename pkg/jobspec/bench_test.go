package jobspec

import (
	"fmt"
	"testing"
)

// excluding asks for slots on any but this number of nodes, as
// a scheduler does that knows which nodes a pod must not use.
func excluding(nodes int) *Jobspec {
	j := small()
	hosts := Constraint{Op: OpHostlist}
	for i := range nodes {
		hosts.Values = append(hosts.Values, fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", i/256, i%256))
	}
	j.Attributes.System.Fluence = map[string]SlotAttributes{"s": {Constraints: &Constraint{Op: OpNot, Args: []Constraint{hosts}}}}
	return j
}

var excluded = []int{0, 3_000}

func BenchmarkParse(b *testing.B) {
	for _, nodes := range excluded {
		text, err := excluding(nodes).Encode()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("excluded=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, nodes := range excluded {
		j := excluding(nodes)
		b.Run(fmt.Sprintf("excluded=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := j.Encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	c := excluding(3_000).Attributes.System.Fluence["s"].Constraints
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Compile(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCondition(b *testing.B) {
	holds, err := excluding(3_000).Attributes.System.Fluence["s"].Constraints.Compile()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if holds("ip-10-0-3-7.ec2.internal", -1, nil) {
			b.Fatal("an excluded node is let in")
		}
	}
}
