# Burst. `make help` lists the targets.
.NOTPARALLEL:
.DEFAULT_GOAL := build

PREFIX  ?= /usr
DESTDIR ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# No C in our Go programs: one file runs on any Linux.
export CGO_ENABLED := 0

# The version comes from VERSION and not from go's own look at git, which
# fails where the clone belongs to another user.
# BURST_COMMIT and SOURCE_DATE_EPOCH, by default the commit's time, are what "burst version" says.
BURST_COMMIT ?= $(shell git describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
CLI     := github.com/burst-hpc/burst/cmd/internal/cli
LDFLAGS := -s -w -X $(CLI).Version=$(VERSION) -X $(CLI).Commit=$(BURST_COMMIT) -X $(CLI).Epoch=$(SOURCE_DATE_EPOCH)

# What users run goes to bin, the rest to sbin.
USER_PROGRAMS := burst burst-srun

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install what is missing of Slurm, MUNGE, MPI, gcc (Debian, Ubuntu), and moto
	@packaging/deps.sh --moto

# Only tests need moto.
.PHONY: deps-demo
deps-demo:
	@packaging/deps.sh

# Debian 12 and Ubuntu 24.04 have no package of it.
.PHONY: deps-containers
deps-containers: go ## a real Apptainer for tests, and a registry, into build/containers: needs root
	@packaging/deps-containers.sh

.PHONY: deps-ulfm
deps-ulfm: ## an Open MPI 5 with ULFM from PyPI into build/ulfm, for heat-ulfm
	@packaging/deps-ulfm.sh

.PHONY: go
go:
	@go version 2>/dev/null | grep -Eq 'go(1\.(2[6-9]|[3-9][0-9])|[2-9]\.)' || { \
		echo "make: error: Go 1.26 or newer is needed, found: $$(go version 2>&1 | head -n 1)" >&2; \
		echo "make: hint: see https://go.dev/dl/" >&2; exit 1; }

.PHONY: build
build: go ## build the programs into build/bin, build/heat and build/libburst
	@mkdir -p build/bin
	go build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o build/bin/ ./cmd/burst*
	@$(MAKE) --no-print-directory -C contrib/heat OUT=$(CURDIR)/build/heat
	@$(MAKE) --no-print-directory -C contrib/libburst OUT=$(CURDIR)/build/libburst
	@$(MAKE) --no-print-directory -C contrib/heat OUT=$(CURDIR)/build/heat-libburst LIBBURST=$(CURDIR)/build/libburst
	@scr=$$(command -v scr_halt) || exit 0; \
	$(MAKE) --no-print-directory -C contrib/heat OUT=$(CURDIR)/build/heat-scr SCR=$${scr%/bin/scr_halt}
	@[ ! -x build/ulfm/bin/mpicc ] || { ln -sfn ../contrib/heat/ulfm/ulfm-run build/ulfm-run && \
	$(MAKE) --no-print-directory -C contrib/heat/ulfm OUT=$(CURDIR)/build/heat-ulfm MPICC=$(CURDIR)/build/ulfm/bin/mpicc; }
	@mkdir -p build/lib/burst/shim && ln -sfn ../../../bin/burst-srun build/lib/burst/shim/srun

# Nodes need not have the architecture of burstd's host: it serves them theirs.
OTHER = $(if $(filter arm64,$(shell go env GOARCH)),amd64,arm64)
.PHONY: agents
agents: go ## build burst-agent for nodes of the other architecture into build/lib/burst
	GOARCH=$(OTHER) go build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o build/lib/burst/burst-agent-$(OTHER) ./cmd/burst-agent

.PHONY: demo
demo: deps-demo build ## a real Slurm cluster overflows on this machine, and survives two evictions
	build/bin/burst demo $(DEMO_FLAGS)

# gotest is go test of two packages at a time, those whose tests start clusters last, then
# one by one of those whose tests want all processors. It says at the end what could not be
# tried here.
.PHONY: test
test: deps build ## run all tests, the slow ones too
	go run -buildvcs=false ./packaging/gotest -buildvcs=false -timeout 40m ./...

# Faults by dice: first in worlds of virtual time, then over real parts. The
# same seed is the same plan; as root it has more kinds of faults. What go test
# runs without naming a package prints as it goes.
# Takes about ten minutes: the storm is half of it, the calm after it comes on top.
CHAOS_TIME ?= 7m
.PHONY: test-chaos
test-chaos: deps-demo go ## everything goes wrong at once, by dice: CHAOS_TIME=7m CHAOS_SEED=random
	@seed="$(CHAOS_SEED)"; [ -n "$$seed" ] || seed=$$(($$(od -An -N3 -tu4 /dev/urandom))); \
	export CHAOS_SEED=$$seed CHAOS_TIME=$(CHAOS_TIME); \
	(cd cmd/internal/crash && go test -buildvcs=false -count=1 -timeout 30m -run '^TestChaos(InTwoClouds)?$$') && \
	(cd cmd/internal/chaos && go test -buildvcs=false -count=1 -timeout 60m)

.PHONY: test-images
test-images: deps-containers ## builds the definitions of contrib/images, of Debian's packages: needs root, a network and half an hour
	BURST_TEST_IMAGES=1 go test -buildvcs=false -count=1 -timeout 60m -run '^TestDefinitions$$' -v ./cmd/internal/e2e

.PHONY: lint
lint: go ## gofmt, go vet, staticcheck
	@bad=$$(gofmt -l cloud cmd contrib docs ft packaging slurm); [ -z "$$bad" ] || { echo "gofmt would change:" >&2; echo "$$bad" >&2; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...

.PHONY: bench
bench: deps-demo build ## run the benchmarks but container-*, cost-*, ft-* and ulfm-*, or ONLY=name,name; results in build/bench.json
	build/bin/burst bench $(if $(ONLY),--only "$(ONLY)") --json build/bench.json

# Takes about half an hour; FT_FLAGS=--help lists what makes it shorter.
FT_FLAGS ?=
.PHONY: bench-ft
bench-ft: deps-demo build ## heat through two evictions, with each method; figures in build/bench-ft.*
	go build -trimpath -buildvcs=false -o build/bench-ft ./cmd/internal/benchft
	build/bench-ft --programs build/bin --out build $(FT_FLAGS)

.PHONY: install
install: build agents ## install programs, units, manual pages and shell completions under DESTDIR and PREFIX
	@$(MAKE) --no-print-directory install-files install-completions install-libburst PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)

# What was built in BUILD is installed: packages are made of another architecture's, too.
BUILD ?= build
.PHONY: install-files
install-files:
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/sbin
	@for program in $(BUILD)/bin/*; do \
		case " $(USER_PROGRAMS) " in *" $${program##*/} "*) to=bin ;; *) to=sbin ;; esac; \
		echo install $$program $(DESTDIR)$(PREFIX)/$$to; \
		install -m 0755 $$program $(DESTDIR)$(PREFIX)/$$to || exit 1; \
	done
	install -D -m 0755 -t $(DESTDIR)$(PREFIX)/lib/burst $(BUILD)/lib/burst/burst-agent-*
	install -d $(DESTDIR)$(PREFIX)/lib/burst/shim
	ln -sfn ../../../bin/burst-srun $(DESTDIR)$(PREFIX)/lib/burst/shim/srun
	@for page in packaging/man/*; do \
		to=$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}; \
		echo install $$page $$to; \
		install -D -m 0644 -t $$to $$page || exit 1; \
	done
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	@for unit in burstd burst-agent; do \
		to=$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service; \
		echo install packaging/systemd/$$unit.service $$to; \
		sed 's,/usr/sbin/,$(PREFIX)/sbin/,' packaging/systemd/$$unit.service >$$to && chmod 0644 $$to || exit 1; \
	done
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/lib/tmpfiles.d packaging/tmpfiles/burst.conf packaging/tmpfiles/burst-node.conf
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/doc/burst packaging/systemd/burstd-local.conf
	install -D -m 0755 -t $(DESTDIR)$(PREFIX)/share/doc/burst contrib/taskprolog/taskprolog.sh
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/burst/job_submit $(addprefix contrib/job_submit/,burst.lua directive.lua values.lua)
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/doc/burst contrib/job_submit/job_submit_burst.lua
	sed 's,/usr/share/,$(PREFIX)/share/,' contrib/job_submit/job_submit.lua >$(DESTDIR)$(PREFIX)/share/doc/burst/job_submit.lua
	chmod 0644 $(DESTDIR)$(PREFIX)/share/doc/burst/job_submit.lua
	$(MAKE) --no-print-directory install-examples PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)

# burst itself says what its shells complete: it must run here.
SHARE = $(DESTDIR)$(PREFIX)/share
.PHONY: install-completions
install-completions:
	@complete() { \
		echo install "$$2"; \
		install -d "$${2%/*}" && $(BUILD)/bin/burst completion $$1 >"$$2.new" && chmod 0644 "$$2.new" && mv "$$2.new" "$$2" || \
			{ rm -f "$$2.new"; return 1; }; \
	}; \
	complete bash $(SHARE)/bash-completion/completions/burst && \
	complete zsh $(SHARE)/zsh/site-functions/_burst && \
	complete fish $(SHARE)/fish/vendor_completions.d/burst.fish

LIBDIR ?= $(PREFIX)/lib
.PHONY: install-libburst
install-libburst:
	$(MAKE) --no-print-directory -C contrib/libburst install OUT=$(CURDIR)/build/libburst PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) DESTDIR=$(DESTDIR)

# heat, heat-ulfm with ulfm-run, and the images, to copy from and to build where they are used.
EXAMPLES = $(DESTDIR)$(PREFIX)/share/doc/burst/examples
.PHONY: install-examples
install-examples:
	install -D -m 0644 -t $(EXAMPLES)/heat contrib/heat/Makefile contrib/heat/heat.sbatch
	install -D -m 0644 -t $(EXAMPLES)/heat/src contrib/heat/src/*
	install -D -m 0644 -t $(EXAMPLES)/heat/ulfm $(filter-out %/src,$(wildcard contrib/heat/ulfm/*))
	chmod 0755 $(EXAMPLES)/heat/ulfm/ulfm-run
	install -D -m 0644 -t $(EXAMPLES)/heat/ulfm/src contrib/heat/ulfm/src/*
	install -D -m 0644 -t $(EXAMPLES)/images contrib/images/*
	sed -i 's,contrib/,,' $(EXAMPLES)/images/*

# deb and rpm, for amd64 and arm64. The same commit gives the same files, bit by bit, wherever
# it is built with the same go and C compiler.
.PHONY: packages
packages: go ## build deb and rpm packages, checksums and SBOM into build/packages
	packaging/packages.sh build/packages

.PHONY: release
release: go ## the same into dist, of a tagged commit without changes; SIGN="minisign -S -m" signs SHA256SUMS
	@changes=$$(git status --porcelain) && [ -z "$$changes" ] || { \
		echo "make: error: the tree has changes, and a release is what a commit says:" >&2; echo "$$changes" >&2; exit 1; }
	@[ -n "$$BURST_VERSION" ] || { [ "$$(git rev-parse --is-shallow-repository)" = false ] && git describe --exact-match --tags --match 'v[0-9]*' >/dev/null 2>&1; } || { \
		echo "make: error: this commit has no tag v*, or the clone is shallow: a release is told by its tag" >&2; \
		echo "make: hint: git tag it, or git fetch --unshallow --tags, or say which it is: BURST_VERSION=1.2.3 make release" >&2; exit 1; }
	packaging/packages.sh dist
	@[ -z "$(SIGN)" ] || { echo "$(SIGN) SHA256SUMS"; cd dist && $(SIGN) SHA256SUMS; }

.PHONY: lint-packages
lint-packages: packages ## lintian and rpmlint of the packages
	packaging/lint-packages.sh build/packages

# Needs root, debootstrap and a network, and takes some minutes; its roots stay in build/roots.
# RELEASES=bookworm tries one release alone, AGAIN= leaves out the second build.
.PHONY: test-packages
test-packages: packages ## install, upgrade, remove and purge the packages in roots of Debian and of RPM
	packaging/test-packages.sh build/packages

# Needs what test-packages needs, of which it is a part, and takes two minutes.
.PHONY: test-tutorial
test-tutorial: packages ## do what docs/tutorial.md says in a root of Debian, and compare; UPDATE=1 writes what is printed there
	UPDATE=$(UPDATE) packaging/test-tutorial.sh build/packages

# RELEASE is one of Debian's: trixie has Slurm 24.11. TESTS are what packaging/gotest takes, such as
# '-v -run ^TestHeat ./cmd/internal/e2e'.
RELEASE ?= trixie
.PHONY: test-slurm
test-slurm: go ## run the tests with the Slurm of another release of Debian: RELEASE=trixie TESTS='-run TestX ./slurm'
	packaging/test-slurm.sh $(RELEASE) $(TESTS)

.PHONY: clean
clean: ## remove build and dist
	rm -rf build dist
