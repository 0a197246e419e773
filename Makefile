# What a person types; CI runs .ci/run itself.

FLAGS := -trimpath

.PHONY: build fast test check bench clean

build: ## the binary, pure Go
	CGO_ENABLED=0 go build $(FLAGS) -o countersign ./cmd/countersign

# The same with BoringCrypto's RSA, part of the stock toolchain: private
# operations take about a third of the time at 1024 bit. Needs a C compiler,
# Linux, and amd64 or arm64. "countersign-fast version" says whether it is in use.
fast: ## the binary with BoringCrypto's RSA
	GOEXPERIMENT=boringcrypto CGO_ENABLED=1 go build $(FLAGS) -o countersign-fast ./cmd/countersign

test: ## the tests
	go test ./...

check: ## what CI runs
	bash .ci/run

bench: build ## measure this machine
	./countersign bench --out bench-report.json --html bench-report.html

clean:
	rm -f countersign countersign-fast bench-report*
