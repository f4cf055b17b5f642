# What a developer does here, each as one command. `make help` lists it.

# The same settings everywhere: what one command compiled the next one reuses. Without
# what debuggers read, a test program is linked in half the time.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false -ldflags=-w

BIN := $(CURDIR)/bin
RUN := $(CURDIR)/.run
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# Packages without the tests that need a control plane.
OURS := ./cmd/... ./pkg/... ./sidecar/... ./sig-scheduler-plugins/...

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the three programs and the plugin of kubectl into bin.
	@for p in scheduler sidecar controller; do \
		echo "Building bin/fluence-$$p"; \
		go build -ldflags "-X main.version=$(VERSION)" -o $(BIN)/fluence-$$p ./cmd/$$p || exit 1; \
	done
	@echo "Building bin/kubectl-fluence"
	@go build -ldflags "-X main.version=$(VERSION)" -o $(BIN)/kubectl-fluence ./cmd/kubectl-fluence

.PHONY: run
run: ## Bring up a control plane with 16 simulated nodes and Fluence, and place a Job of 8.
	@echo "Building bin/fluence-run"
	@go build -o $(BIN)/fluence-run ./test/stack/fluence-run
	@$(BIN)/fluence-run up --dir $(RUN)

.PHONY: down
down: ## Stop what `make run` left running.
	@echo "Stopping what runs in $(RUN)"
	@go build -o $(BIN)/fluence-run ./test/stack/fluence-run
	@$(BIN)/fluence-run down --dir $(RUN)

.PHONY: tools
tools: ## Build the programs of the test control plane, once, into the cache.
	@echo "Building the programs of the test control plane; the first time it takes ten minutes or more"
	@go run ./test/cluster/fluence-cluster build

# The end-to-end stories wait most of the time. The other packages are tested beside them,
# and give way to them.
.PHONY: test
test: tools race ## Run all tests; those of our own packages also under the race detector.
	@echo "Compiling all tests"
	@go list -export -test ./... >/dev/null
	@echo "Running the end-to-end stories and, beside them, the tests of all other packages, one at a time"
	@$(MAKE) --no-print-directory -j2 test-stories test-others

.PHONY: test-stories test-others
test-stories:
	@go test -count=1 -vet=off -timeout=60m ./test/e2e
test-others:
	@nice go test -count=1 -p=1 -vet=off -timeout=45m $$(go list ./... | grep -v '/test/e2e$$')

# The race detector needs all that a package imports compiled once more. The scheduler's
# program imports the whole API server; what it plugs together is in pkg.
RACED := ./cmd/controller ./cmd/sidecar ./pkg/... ./sidecar/... ./sig-scheduler-plugins/...
SHORT := -short
RACE = CGO_ENABLED=1 go test -race $(SHORT) -vet=off -timeout=60m
# In a bubble of testing/synctest two goroutines may run timers at once, in the one context that the race
# detector has for them; its own memory is damaged by that. So the package whose tests run a whole scheduler in
# virtual time runs on one CPU. What is ordered by no lock or channel is found there just the same.
VIRTUAL := ./pkg/fluence
.PHONY: race race-build race-virtual race-others
race: race-build ## Run the tests of our own packages under the race detector.
	@$(MAKE) --no-print-directory -j2 race-virtual race-others
race-build:
	@echo "Running the tests of our own packages under the race detector"
	@CGO_ENABLED=1 go list -race -export -test $(RACED) >/dev/null
race-virtual:
	@$(RACE) -cpu=1 $(VIRTUAL)
race-others:
	@$(RACE) $$(go list $(RACED) | grep -v '$(VIRTUAL:.%=%)$$')

# Where the source of flux-sched lies, and below which prefix it is installed.
FLUX_SCHED_ROOT :=
FLUX_PREFIX := /usr
FLUX_TAGS := fluxion
REAPI := resource/reapi/bindings/c/reapi_cli.h
WITH_FLUXION = CGO_ENABLED=1 CGO_CFLAGS="-I$(FLUX_SCHED_ROOT) -I$(FLUX_SCHED_ROOT)/resource/reapi/bindings/c -I$(FLUX_PREFIX)/include" \
	CGO_LDFLAGS="-L$(FLUX_PREFIX)/lib -L$(FLUX_PREFIX)/lib/flux -lreapi_cli -lflux-idset -lstdc++ -ljansson -lhwloc -lflux-hostlist -lboost_graph -lyaml-cpp"
FLUX_LIBRARIES = LD_LIBRARY_PATH="$(FLUX_PREFIX)/lib:$(FLUX_PREFIX)/lib/flux:$$LD_LIBRARY_PATH" MALLOC_ARENA_MAX=1
# The flags of the sidecar in the stories: units that are small enough for pods of parts of a CPU.
FLUX_ARGS := --engine=fluxion --granule=core=50,memory=10485760
# Stories that need a policy that a graph loaded with lonode does not offer, and the burst of thousands of pods.
FLUX_SKIP := ^(TestAGroupIsPlacedByTheAnnotatedPolicy|TestThePolicyOfAGroupIsItsOwn|TestAPolicyThatIsNoneIsRefusedByName)$$|Burst
# STORIES names the stories to run; all if it is empty, and none if it is "none".
STORIES :=
.PHONY: test-fluxion
test-fluxion: ## Test over the real Fluxion: FLUX_SCHED_ROOT is its source tree, STORIES names end-to-end stories.
	@test -n "$(FLUX_SCHED_ROOT)" || { echo "test-fluxion: FLUX_SCHED_ROOT is not set: it names the source tree of flux-sched 0.54.0, whose headers are needed; see docs/fluxion.md" >&2; exit 1; }
	@test -f "$(FLUX_SCHED_ROOT)/$(REAPI)" || { echo "test-fluxion: FLUX_SCHED_ROOT=$(FLUX_SCHED_ROOT) has no $(REAPI): it is no source tree of flux-sched; see docs/fluxion.md" >&2; exit 1; }
	@echo "Running the suite and the recorded answers over Fluxion"
	@$(WITH_FLUXION) $(FLUX_LIBRARIES) go test -tags $(FLUX_TAGS) -count=1 -timeout=20m ./sidecar/fluxion
	@test "$(STORIES)" != none || exit 0; $(MAKE) --no-print-directory test-fluxion-stories

.PHONY: test-fluxion-stories
test-fluxion-stories: tools
	@echo "Building bin/fluence-sidecar-fluxion"
	@$(WITH_FLUXION) go build -tags $(FLUX_TAGS) -ldflags "-X main.version=$(VERSION)" -o $(BIN)/fluence-sidecar-fluxion ./cmd/sidecar
	@echo "Running the end-to-end stories over Fluxion"
	@$(FLUX_LIBRARIES) go test -count=1 -vet=off -timeout=90m ./test/e2e -run '$(STORIES)' -skip '$(FLUX_SKIP)' \
		-args -sidecar=$(BIN)/fluence-sidecar-fluxion -sidecar-args="$(FLUX_ARGS)"

# E2E=-plain runs them on the plain manifests instead of the Helm chart.
E2E :=
.PHONY: e2e
e2e: tools ## Run the end-to-end stories alone.
	@go test -count=1 -timeout=45m ./test/e2e $(E2E)

# SEED=0 draws a fresh seed; CHAOS holds further flags, such as --keep.
SEED := 0
EVENTS := 500
CHAOS :=
.PHONY: chaos
chaos: tools ## Let EVENTS things happen to Fluence that SEED decides, and check what must hold.
	@go build -o $(BIN)/fluence-chaos ./test/chaos/fluence-chaos
	@$(BIN)/fluence-chaos run --seed=$(SEED) --events=$(EVENTS) $(CHAOS)

SOAK := --nodes=5000 --max-groups=4000 --max-pods=50000 --settle=30m
SOAKEVENTS := 50000
.PHONY: soak
soak: ## The same for hours on a large cluster: SOAKEVENTS, and how large by SOAK.
	@$(MAKE) --no-print-directory chaos EVENTS=$(SOAKEVENTS) CHAOS='$(SOAK) $(CHAOS)'

# PART names one part of it, or several; one that is not there lists them. SEED is for all.
PART :=
.PHONY: long
long: ## Run in full what `make test` runs in small, for a day; PART names a part.
	@go run ./test/long -dir=$(BIN)/long -seed=$(SEED) $(PART)

.PHONY: bench
bench: ## Run all benchmarks.
	@go test -run='^$$' -bench=. -benchmem $(OURS)

.PHONY: perf
perf: tools ## Measure restarts, outages, rest and reasons, on a control plane.
	@go test -run='^$$' -bench=. -benchtime=1x -timeout=60m -v ./test/perf

# BENCH=help lists the rows; BENCHFLAGS holds further flags, such as
# '-repetitions 1 -arg matchPolicy=low -out FILE', and --help lists them.
BENCH := quick
BENCHFLAGS :=
.PHONY: bench-cluster
bench-cluster: tools ## Compare Fluence with kube-scheduler on a control plane, by the row BENCH.
	@go build -o $(BIN)/bench-cluster ./test/perf/cluster
	@$(BIN)/bench-cluster -row=$(BENCH) $(BENCHFLAGS)

.PHONY: bench-table
bench-table: ## Write the tables of docs/performance.md from the results of bench-cluster.
	@go run ./test/perf/cluster -table

FUZZTIME := 20s
.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME.
	@hack/fuzz.sh $(FUZZTIME)

.PHONY: lint
lint: ## Check the code.
	@echo "Building golangci-lint; the first time it takes ten minutes or more"
	@cd hack/tools/golangci-lint && go build -o $(BIN)/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@$(BIN)/golangci-lint run --timeout=20m --allow-parallel-runners ./...
	@go run ./hack/vocabulary hack/vocabulary/words.txt cmd hack pkg sidecar test docs README.md CONTRIBUTING.md

.PHONY: generate
generate: ## Write the generated code and the reference pages anew.
	@hack/update-codegen.sh
	@hack/update-proto.sh
	@go run ./hack/reference

.PHONY: verify
verify: ## Check that the generated code and the reference pages are up to date.
	@hack/verify-codegen.sh
	@hack/verify-proto.sh
	@go run ./hack/reference -check

# VULNDB names another database than the Go project's, such as file:///copy.
VULNDB :=
.PHONY: vuln
vuln: modules ## Look for known weaknesses in what the programs call; needs the Go project's database.
	@cd hack/tools/govulncheck && go build -o $(BIN)/govulncheck golang.org/x/vuln/cmd/govulncheck
	@go run ./hack/vuln -govulncheck $(BIN)/govulncheck -db "$(VULNDB)" ./cmd/...

.PHONY: sbom
sbom: modules build ## List what the programs are made of, as CycloneDX, in bin/sbom.
	@cd hack/tools/cyclonedx-gomod && go build -o $(BIN)/cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	@mkdir -p $(BIN)/sbom
	@for p in fluence-scheduler fluence-sidecar fluence-controller kubectl-fluence; do \
		echo "Writing bin/sbom/$$p.cdx.json"; \
		$(BIN)/cyclonedx-gomod bin -json -std -noserial -notimestamp -version "$(VERSION)" -output $(BIN)/sbom/$$p.cdx.json $(BIN)/$$p || exit 1; \
	done

.PHONY: modules
modules: ## Check that the modules here are those of go.sum.
	@go mod verify

.PHONY: clean
clean: ## Remove what was built here.
	@rm -rf $(BIN)
