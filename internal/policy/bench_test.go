package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// BenchmarkDecide: one decision, sums at no cost.
func BenchmarkDecide(b *testing.B) {
	example, err := os.ReadFile("testdata/example.toml")
	if err != nil {
		b.Fatal(err)
	}
	hundred := new(strings.Builder)
	hundred.WriteString("default = \"allow\"\n")
	for i := range 100 {
		fmt.Fprintf(hundred, "[[rule]]\nname = \"%d\"\neffect = \"deny\"\nsymbol = [\"X%d\"]\namount-above = \"%d.5\"\n", i, i, i)
	}
	blocked := new(strings.Builder)
	blocked.WriteString("default = \"allow\"\n[lists]\nblocked = [\n")
	for i := range 20_000 {
		fmt.Fprintf(blocked, "\"0x%040x\",\n", i)
	}
	blocked.WriteString("]\n[[rule]]\nname = \"r\"\neffect = \"deny\"\naddress-in = \"blocked\"\n")
	for name, file := range map[string]string{
		"one-rule":        withRule(`amount-max = "1000.5"`),
		"example-8-rules": string(example),
		"100-rules":       hundred.String(),
		"20000-addresses": blocked.String(),
		"exact-orders":    "",
	} {
		b.Run(name, func(b *testing.B) {
			var p Policy = ExactOrders()
			if file != "" {
				p = mustPolicy(b, file)
			}
			r := someRequest(b, to("TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf"))
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				ruling, err := p.Decide(ctx, r)
				if err != nil || ruling.Effect != Allow {
					b.Fatal(ruling, err)
				}
			}
		})
	}
}

// BenchmarkParse: reading the example, once at the start of the process.
func BenchmarkParse(b *testing.B) {
	file, err := os.ReadFile("testdata/example.toml")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		mustPolicy(b, string(file))
	}
}
