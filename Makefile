# What a person types; CI runs .ci/run itself.

FLAGS := -trimpath -buildvcs=auto

.PHONY: build fast fast-static release test check bench screenshots clean

build: ## the binary, pure Go
	CGO_ENABLED=0 go build $(FLAGS) -o countersign ./cmd/countersign

# The same with OpenSSL's RSA, where private operations take a quarter to a half of the
# time. Needs a C compiler and OpenSSL 3 with its headers (libssl-dev).
# "countersign-fast version" names the library.
fast: ## the binary with OpenSSL's RSA
	CGO_ENABLED=1 go build $(FLAGS) -tags openssl -o countersign-fast ./cmd/countersign

# OpenSSL's RSA without a shared library, for machines that have no OpenSSL 3 or another.
# It gets security fixes of OpenSSL only by being built again.
fast-static: ## OpenSSL's RSA in one file
	CGO_ENABLED=1 go build $(FLAGS) -tags openssl,netgo,osusergo -ldflags '-linkmode external -extldflags "-static"' -o countersign-fast ./cmd/countersign

# deploy/release.sh says what it needs. The same commit gives the same bytes.
release: ## binaries, packages, images, SBOM and checksums, in dist/
	bash deploy/release.sh

test: ## the tests
	go test ./...

check: ## what CI runs
	bash .ci/run

bench: build ## measure this machine
	./countersign bench

screenshots: ## the pictures of README.md, with chromium
	COUNTERSIGN_README=$(CURDIR)/docs go test ./internal/console -run TestScreenshots -count=1 -v -timeout 20m

clean:
	rm -rf countersign countersign-fast dist
