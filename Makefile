# SPDX-License-Identifier: MIT
#
# A thin front: every target installs what it needs (scripts/setup), then calls the
# script that does the work. Builds go to build/VARIANT; `scripts/build` lists them.
PREFIX ?= /usr/local
DESTDIR ?=
SOAK ?= 20
FUZZ ?= 3
SEEDS ?= 1000
ASAN ?= gcc-asan clang-asan
TSAN ?= gcc-tsan clang-tsan

.NOTPARALLEL:
.PHONY: build help run test test-asan test-tsan test-aarch64 determinism project model \
	mutants fuzz soak tidy bench install clean

build: ## build the library and its tests with gcc (the default)
	@scripts/setup
	@scripts/build gcc

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1|/p' Makefile | awk -F'|' '{ printf "make %-14s%s\n", $$1, $$2 }'

run: ## build and run the showcase
	@scripts/setup
	@scripts/build release
	@build/release/examples/showcase

test: ## all tests: gcc, clang, aarch64 under qemu, determinism, the project's own checks
	@scripts/setup --test
	@scripts/suite gcc clang aarch64 determinism project

test-asan: ## the tests under AddressSanitizer and UBSan, gcc and clang
	@scripts/setup --test
	@scripts/suite $(ASAN)

test-tsan: ## the tests under ThreadSanitizer, gcc and clang
	@scripts/setup --test
	@scripts/suite $(TSAN)

test-aarch64: ## the tests cross-built for aarch64, under qemu-user
	@scripts/setup --test
	@scripts/suite aarch64

determinism: ## one digest for each of SEEDS=1000 seeds, whatever the compiler and machine
	@scripts/setup --test
	@SEEDS=$(SEEDS) scripts/suite determinism

project: ## layers, headers, symbols, installation
	@scripts/setup --test
	@scripts/suite project

model: ## explore the interleavings of the lock-free code
	@scripts/setup --test
	@scripts/suite model

mutants: ## show that the model checker kills every planted fault
	@scripts/setup --test
	@scripts/suite mutants

fuzz: ## the fuzz targets, FUZZ=3 seconds each
	@scripts/setup --test
	@FUZZ=$(FUZZ) scripts/suite fuzz

soak: ## the stress tests SOAK=20 times over, with 1,000 sim seeds
	@scripts/setup --test
	@scripts/build gcc
	HEDDLE_TEST_SEEDS=1000 HEDDLE_TEST_TIMEOUT=3600 meson test -C build/gcc --no-rebuild \
		--suite stress --repeat $(SOAK) --timeout-multiplier 0 --print-errorlogs

tidy: ## clang-tidy over src, tests and examples
	@scripts/setup --test
	@scripts/suite tidy

bench: ## compare with Go, Tokio and Boost in one interleaved run
	@scripts/setup --bench
	@scripts/build bench
	@bench/run

install: ## install below DESTDIR, for PREFIX=/usr/local
	@scripts/setup
	@scripts/build release
	@meson configure build/release --prefix="$(PREFIX)"
	@scripts/build release
	@DESTDIR="$(DESTDIR)" meson install -C build/release --no-rebuild --quiet

clean: ## remove everything that was built
	rm -rf build
