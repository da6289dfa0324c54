# mlxserve: every task that a user, a developer or CI needs. `make` alone lists them.

SWIFT      ?= swift
MODEL      ?= Fixtures/models/demo
HOST       ?= 127.0.0.1
PORT       ?= 8080
PYTHON     ?= python3
# More flags for the compiler of the tests, such as -Xswiftc -warnings-as-errors.
FLAGS      ?=
# Without debug information a third less time is compiled (Server: 10 to 16 s against 20 to 24) and half as much is written.
DEBUG      := -debug-info-format none
# About half of the work of all Swift tests.
HALF       := ModelsTests|SearchTests|ChatTests|VectorsTests
MIN_SWIFT  := 6.2
BINARY     := .build/release/mlxserve
VENV       := .venv
# What `make bench` measures: qwen3-0.6b, qwen3-4b, llama-3.2-1b, llama-3.1-8b, phi-4-mini, qwen3.5-0.8b, qwen3.5-4b,
# lfm2-1.2b, gemma-2-2b, gemma-4-e2b, gemma-4-e4b, qwen3-30b-a3b, qwen3.5-35b-a3b, gpt-oss-20b:4 (four layers); its own
# Python, because it builds llama.cpp, for this machine's own instruction set; and ik_llama.cpp from IK_LLAMA, a folder of
# its sources.
SHAPES     ?= qwen3-0.6b
ROUNDS     ?= 3
LLAMA_CPP  ?= -DGGML_NATIVE=ON
IK_LLAMA   ?=
BENCH_VENV := .build/bench-venv
IK_BUILD   := .build/ik_llama.cpp
CLIENTS    := .venv-clients

# One file, without symbols and without a Swift runtime to install; Apple's systems bring the runtime along.
ifeq ($(shell uname -s),Linux)
LINK       := --static-swift-stdlib -Xlinker -s
LIB        := liblib_mlx.so
SONAME     := liblib_mlx.so.1
else
LIB        := liblib_mlx.dylib
SONAME     := $(LIB)
endif
STAGE      := .build/library

# `make fuzz`: seconds for each target, or inputs if they are fewer; which ones (all by default); with `address`, memory
# is watched too. `make soak`: how long, how much, beside what; `make storm`: how long.
SECONDS_EACH ?= 60
INPUTS     ?= -1
TARGET     ?=
SANITIZER  ?=
MINUTES    ?= 10
REQUESTS   ?= 10000
IDLE       ?= 1000

# `make release`: where to, and whether to build twice and compare.
RELEASE    ?= .build-release
TWICE      ?=

# `make release-sysroot`: where the older C library is.
SYSROOT    ?= .build-sysroot

# `make arm64-sdk`, `make arm64-test`: where the SDK and what is built with it are.
ARM64      ?= .build-arm64
SDK        = $(if $(wildcard $(ARM64)/sdks),$(ARM64))

# `make differential`: how many random cases of each subject, and which subjects (all by default).
COUNT      ?= 2000
SEED       ?= 1
SUBJECT    ?=

.PHONY: help toolchain build library pkg-config library-test library-sanitize run quick receipts-test test test-long test-release sdk-test real-test client-test venv reliability soak storm differential fuzz check format sanitize bench page api-page doctor \
  arm64-kernel-test arm64-sdk arm64-test \
  release release-sysroot install clean

help:                ## list these tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

toolchain:
	@command -v $(SWIFT) >/dev/null 2>&1 || { \
	  echo "mlxserve needs the Swift toolchain, version $(MIN_SWIFT) or newer, and finds no '$(SWIFT)'."; \
	  echo "Install it from https://www.swift.org/install and try again."; exit 1; }
	@found=$$($(SWIFT) --version 2>/dev/null | sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p' | head -n 1); \
	  oldest=$$(printf '%s\n%s\n' "$(MIN_SWIFT)" "$$found" | sort -t . -k 1,1n -k 2,2n | head -n 1); \
	  [ "$$oldest" = "$(MIN_SWIFT)" ] || { \
	  echo "mlxserve needs Swift $(MIN_SWIFT) or newer; '$(SWIFT)' is version $$found."; \
	  echo "Install a newer one from https://www.swift.org/install and try again."; exit 1; }

build: toolchain     ## build the release binary, .build/release/mlxserve
	$(SWIFT) build -c release $(LINK) --product mlxserve

library: toolchain   ## build lib_mlx for C and all that can call it, with header and pkg-config, in .build/library
	@# With the flags of `build`, so that what one has compiled the other need not.
	MLXSERVE_LIBRARY=1 $(SWIFT) build -c release $(LINK) --product lib_mlx
	install -d $(STAGE)/include $(STAGE)/lib/pkgconfig
	install -m 644 Sources/CAPI/lib_mlx.h $(STAGE)/include
	@# By a new file: a program may have the old one mapped.
	rm -f $(STAGE)/lib/$(LIB)*
	install -m 755 .build/release/$(LIB) $(STAGE)/lib/$(SONAME)
	@[ $(SONAME) = $(LIB) ] || ln -sf $(SONAME) $(STAGE)/lib/$(LIB)
	@$(MAKE) --no-print-directory pkg-config AT=$(STAGE) PLACE=$(CURDIR)/$(STAGE)

pkg-config:
	@version=$$(sed -n 's/.*static let text = "\(.*\)".*/\1/p' Sources/Platform/System/Version.swift); \
	  sed "s|@PREFIX@|$(PLACE)|; s|@VERSION@|$$version|" Sources/CAPI/lib_mlx.pc > $(AT)/lib/pkgconfig/lib_mlx.pc

library-test: library build ## run the cases of lib_mlx from C and Python
	@if command -v $(PYTHON) >/dev/null 2>&1; then \
	  $(MAKE) venv && $(VENV)/bin/python Tests/Library/run.py $(STAGE)/lib/$(LIB); \
	else \
	  echo "SKIPPED: there is no $(PYTHON), so lib_mlx was not tried."; \
	fi

run: build           ## serve the demo model on 127.0.0.1:8080 (MODEL=DIR, PORT=N for another)
	$(BINARY) serve --model $(MODEL) --host $(HOST) --port $(PORT) --examples

test: toolchain      ## run every test: Swift tests, then SDKs and other clients against the release binary
	$(SWIFT) build --build-tests $(DEBUG) $(FLAGS)
	@# A process of tests has a thread for each core, and what waits holds one: two processes keep the cores busy.
	@tests="$(SWIFT) test --skip-build --ignore-lock $(DEBUG) $(FLAGS)"; \
	  $$tests --filter '$(HALF)' >.build/half.log 2>&1 & half=$$!; trap "kill $$half" INT TERM; \
	  $$tests --skip '$(HALF)'; rest=$$?; wait $$half; first=$$?; cat .build/half.log; [ $$first = 0 ] && [ $$rest = 0 ]
	$(MAKE) arm64-kernel-test
	$(MAKE) differential
	$(MAKE) sdk-test
	$(MAKE) client-test

test-long: build venv ## run the cases that take long: many of the worst requests at once, deadlines, packages
	$(VENV)/bin/python Tests/EndToEnd/run.py $(BINARY) --patient

receipts-test: toolchain ## check ten thousand receipts of random settings, and as many that were tampered with
	MLXSERVE_TESTS=Server MLXSERVE_RECEIPTS=10000 $(SWIFT) test $(DEBUG) $(FLAGS) --filter ReceiptTests

quick: toolchain     ## run the Swift tests of some modules, building no others: M=Chat or M=Chat,Server
	MLXSERVE_TESTS=$(M) $(SWIFT) test $(DEBUG) $(FLAGS)

arm64-kernel-test: toolchain ## the kernels of arm64 against their scalar twins, under qemu (skipped without qemu and a cross gcc)
	SWIFT=$(SWIFT) sh Tests/ARM64/kernel-test.sh .build/arm64-kernels

arm64-sdk: toolchain ## fetch what a cross build for arm64 Linux needs into ARM64=.build-arm64 (Debian; 0.6 GB, 5 GB on disk)
	SWIFT=$(SWIFT) sh Tests/ARM64/sdk.sh $(ARM64)

arm64-test: toolchain ## build for arm64 Linux and run the binary under qemu beside this machine's (after make arm64-sdk)
	@if [ -d $(ARM64)/sdks ]; then \
	  $(MAKE) build && SWIFT=$(SWIFT) sh Tests/ARM64/program-test.sh $(ARM64) $(BINARY); \
	else \
	  echo "SKIPPED: $(ARM64) has no SDK (make arm64-sdk), so nothing was built for arm64."; \
	fi

doctor: build        ## what this machine has, its kernels against their twins, and a short bench: to run and to send
	$(BINARY) doctor --kernels --port 0 || true
	$(BINARY) bench --model $(MODEL) --prompt-tokens 256 --depth 0 --repetitions 1

test-release: toolchain ## run the Swift tests against optimised code
	$(SWIFT) test -c release -Xswiftc -enable-testing

sdk-test: build      ## run the official SDKs and raw sockets against the release binary
	@if command -v $(PYTHON) >/dev/null 2>&1; then \
	  { [ -x $(VENV)/bin/python ] || $(PYTHON) -m venv $(VENV); } && \
	  $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r Tests/EndToEnd/requirements.txt && \
	  $(VENV)/bin/python Tests/EndToEnd/run.py $(BINARY); \
	else \
	  echo "SKIPPED: there is no $(PYTHON), so the OpenAI SDK was not run against the server."; \
	fi

real-test: build venv ## run a published instruct model (93 MB, once) through the SDK; skipped where it cannot be had
	$(VENV)/bin/python Tests/EndToEnd/real.py $(BINARY)

client-test: build   ## run other clients (LangChain, litellm, ...), each in an environment of its own; ALL=1: the large ones too
	@if command -v $(PYTHON) >/dev/null 2>&1; then \
	  $(PYTHON) Tests/EndToEnd/clients/run.py $(BINARY) $(if $(ALL),all); \
	else \
	  echo "SKIPPED: there is no $(PYTHON), so no client was run against the server."; \
	fi

venv:
	@[ -x $(VENV)/bin/python ] || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r Tests/EndToEnd/requirements.txt

reliability: build venv ## run the reliability cases alone, the long sweeps of docs/develop/reliability.md included
	$(VENV)/bin/python Tests/EndToEnd/run.py $(BINARY) reliability. --long

soak: build venv     ## a long mixed load against the release binary (MINUTES, REQUESTS, IDLE connections)
	$(VENV)/bin/python Tests/EndToEnd/soak.py $(BINARY) --minutes $(MINUTES) --requests $(REQUESTS) --idle $(IDLE)

storm: toolchain venv ## 200 clients at once against a server under the thread sanitizer (MINUTES)
	$(SWIFT) build -c release --sanitize=thread -Xswiftc -DTHREAD_SANITIZER --scratch-path .build-tsan --product mlxserve
	@# It ends with 66 after a report; memory and waiting times are the sanitizer's.
	TSAN_OPTIONS="suppressions=$(CURDIR)/Tests/thread-sanitizer.txt exitcode=66" \
	  $(VENV)/bin/python Tests/EndToEnd/soak.py .build-tsan/release/mlxserve --clients 200 --idle 0 --minutes $(MINUTES) \
	  --requests 10000000 --warm-up 400 --growth 10000 --health-ms 100000

differential: toolchain ## compare parsers with those of others on random cases (COUNT=2000, SEED=1, SUBJECT=json,regex,jinja,http)
	@# What `make test` has built is used again.
	@if command -v $(PYTHON) >/dev/null 2>&1; then \
	  $(SWIFT) build $(DEBUG) $(FLAGS) --product differential && $(MAKE) venv && \
	  $(VENV)/bin/python Tests/Differential/differential.py .build/debug/differential --count $(COUNT) --seed $(SEED) \
	    $(if $(SUBJECT),--subject $(SUBJECT)); \
	else \
	  echo "SKIPPED: there is no $(PYTHON), so no random cases were compared."; \
	fi

fuzz: toolchain      ## fuzz every parser with libFuzzer (SECONDS_EACH=60, INPUTS, TARGET=json,http, SANITIZER=address)
	@# Apple's toolchains lack libFuzzer.
	@if ! echo | $(SWIFT)c -sanitize=fuzzer -typecheck - 2>/dev/null; then \
	  echo "SKIPPED: this Swift toolchain has no libFuzzer, so nothing was fuzzed. Those of swift.org for Linux have it."; \
	elif ! command -v $(PYTHON) >/dev/null 2>&1; then \
	  echo "SKIPPED: there is no $(PYTHON), which runs the targets, so nothing was fuzzed."; \
	else \
	  mkdir -p .build-fuzz && ln -sfn ../Sources ../Tests/Fuzz .build-fuzz/ && \
	  ln -sfn ../Tests/Fuzz/Package.swift .build-fuzz/Package.swift && \
	  SANITIZER=$(SANITIZER) $(SWIFT) build -c release -Xswiftc -enable-testing --package-path .build-fuzz \
	    --scratch-path .build-fuzz/build$(SANITIZER) && \
	  $(PYTHON) Tests/Fuzz/fuzz.py .build-fuzz/build$(SANITIZER)/release --seconds $(SECONDS_EACH) --inputs $(INPUTS) \
	    $(if $(TARGET),--target $(TARGET)); \
	fi

check: toolchain     ## lint the format of all sources; with OLD_SWIFT=PATH also compile with the oldest compiler that is claimed
	$(SWIFT) format lint --recursive --strict --parallel Package.swift Sources Tests
	@# A compiler of Swift $(MIN_SWIFT) beside the newer one, as swiftly and the archives of swift.org install them.
	@old=$(or $(OLD_SWIFT),$$(command -v swift-$(MIN_SWIFT))); if [ -n "$$old" ]; then \
	  $$old --version 2>/dev/null | head -n 1 && $$old build --scratch-path .build-old --product mlxserve; \
	else \
	  echo "SKIPPED: there is no swift-$(MIN_SWIFT) (OLD_SWIFT=PATH names one), so nothing was compiled with it."; \
	fi

format: toolchain    ## format all sources in place
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tests

sanitize: toolchain  ## run the threaded modules under the thread sanitizer, and all under the address sanitizer
	TSAN_OPTIONS="suppressions=$(CURDIR)/Tests/thread-sanitizer.txt" \
	  $(SWIFT) test --sanitize=thread -Xswiftc -DTHREAD_SANITIZER --scratch-path .build-tsan --filter 'PlatformTests|HTTPTests|InferenceTests|ServerTests'
	LSAN_OPTIONS="suppressions=$(CURDIR)/Tests/leak-sanitizer.txt" \
	  $(SWIFT) test --sanitize=address --scratch-path .build-asan --skip 'KernelSymbolTests|a_megabyte_of_anything|a megabyte of anything'

library-sanitize: toolchain venv ## load and unload lib_mlx a hundred times from C and Python under the address and thread sanitizers
	for name in address thread; do \
	  $(SWIFT) build --sanitize=$$name $$([ $$name = thread ] && echo -Xswiftc -DTHREAD_SANITIZER) --scratch-path .build-$$name --product lib_mlx && \
	  $(VENV)/bin/python Tests/Library/run.py .build-$$name/debug/$(LIB) --sanitizer $$name || exit 1; \
	done

bench: build         ## compare with llama.cpp on synthetic models (SHAPES, ROUNDS), and with ik_llama.cpp (IK_LLAMA=its sources); writes docs/benchmarks
	@[ -x $(BENCH_VENV)/bin/python ] || $(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check numpy gguf
	@# Built from source: some minutes, once. A wheel in pip's cache may be for other instruction sets.
	@$(BENCH_VENV)/bin/python -c 'import llama_cpp' 2>/dev/null || CMAKE_ARGS="$(LLAMA_CPP)" \
	  $(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir llama-cpp-python || \
	  echo "llama-cpp-python cannot be installed: llama.cpp is left out."
ifneq ($(IK_LLAMA),)
	@# Kernels for keys and values of other types than the default would take most of the time.
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check cmake ninja
	PATH="$(abspath $(BENCH_VENV))/bin:$$PATH" cmake -S $(IK_LLAMA) -B $(IK_BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release \
	  -DCMAKE_CXX_FLAGS=-w $(LLAMA_CPP) -DGGML_IQK_FA_ALL_QUANTS=OFF -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF
	PATH="$(abspath $(BENCH_VENV))/bin:$$PATH" cmake --build $(IK_BUILD) --target llama-sweep-bench llama-batched-bench
endif
	$(BENCH_VENV)/bin/python Fixtures/scripts/bench/compare.py $(BINARY) docs/benchmarks --shapes $(SHAPES) --rounds $(ROUNDS) \
	  $(if $(IK_LLAMA),--ik-llama $(IK_BUILD)/bin)

api-page: toolchain  ## write the tables of fields in docs/api.md from the readers of requests
	MLXSERVE_TESTS=Server MLXSERVE_WRITE_PAGES=1 $(SWIFT) test $(DEBUG) --filter FieldTableTests

page:                ## pack the files of the chat page, Sources/Server/Page/ui, into PageFiles.swift
	$(PYTHON) Fixtures/scripts/page/embed.py

release: toolchain   ## archives, packages and image of the last commit, into RELEASE=.build-release; for arm64 too after make arm64-sdk; twice, compared, with TWICE=1
	@rm -rf "$(RELEASE)" && mkdir -p "$(RELEASE)"
	SWIFT=$(SWIFT) ARM64=$(SDK) SYSROOT=$(wildcard $(SYSROOT)) sh docs/deploy/package/release.sh $(RELEASE)
	@[ -z "$(TWICE)" ] || { SWIFT=$(SWIFT) ARM64=$(SDK) SYSROOT=$(wildcard $(SYSROOT)) sh docs/deploy/package/release.sh $(RELEASE)/again >/dev/null && \
	  cmp $(RELEASE)/SHA256SUMS $(RELEASE)/again/SHA256SUMS && echo "both builds are the same bytes"; }

release-sysroot:     ## fetch the C library of Debian 11 into SYSROOT=.build-sysroot, for binaries that run on older systems (Debian)
	sh docs/deploy/package/sysroot.sh $(SYSROOT)

install: build       ## copy the binary, and lib_mlx if 'make library' has built it, to $(PREFIX) (PREFIX=/usr/local)
	install -d $(or $(PREFIX),/usr/local)/bin
	install -m 755 $(BINARY) $(or $(PREFIX),/usr/local)/bin/mlxserve
	@if [ -d $(STAGE) ]; then \
	  install -d $(or $(PREFIX),/usr/local)/include $(or $(PREFIX),/usr/local)/lib/pkgconfig && \
	  install -m 644 $(STAGE)/include/lib_mlx.h $(or $(PREFIX),/usr/local)/include && \
	  rm -f $(or $(PREFIX),/usr/local)/lib/$(LIB)* && \
	  cp -P $(STAGE)/lib/$(LIB)* $(or $(PREFIX),/usr/local)/lib && \
	  $(MAKE) --no-print-directory pkg-config AT=$(or $(PREFIX),/usr/local) PLACE=$(or $(PREFIX),/usr/local); \
	fi

clean:               ## remove everything that was built
	rm -rf .build .build-arm64 .build-tsan .build-asan .build-address .build-thread .build-release .build-sysroot .build-old .build-fuzz $(VENV) $(CLIENTS)
