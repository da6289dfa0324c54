# mlxserve: every task that a user, a developer or CI needs. `make` alone lists them.

SWIFT      ?= swift
MODEL      ?= Fixtures/models/demo
HOST       ?= 127.0.0.1
PORT       ?= 8080
PYTHON     ?= python3
# More flags for the compiler of the tests, such as -Xswiftc -warnings-as-errors.
FLAGS      ?=
MIN_SWIFT  := 6.2
BINARY     := .build/release/mlxserve
VENV       := .venv
# What `make bench` measures: qwen3-0.6b, llama-3.2-1b, phi-4-mini; its own Python, because it builds llama.cpp.
SHAPES     ?= qwen3-0.6b
ROUNDS     ?= 3
BENCH_VENV := .build/bench-venv
CLIENTS    := .venv-clients

# One file, without symbols and without a Swift runtime to install; Apple's systems bring the runtime along.
ifeq ($(shell uname -s),Linux)
LINK       := --static-swift-stdlib -Xlinker -s
endif

# `make fuzz`: seconds for each target, or inputs if they are fewer; which ones (all by default); with `address`, memory
# is watched too. `make soak`: how long, how much, beside what; `make storm`: how long.
SECONDS_EACH ?= 60
INPUTS     ?= -1
TARGET     ?=
SANITIZER  ?=
MINUTES    ?= 10
REQUESTS   ?= 10000
IDLE       ?= 1000

# `make differential`: how many random cases of each subject, and which subjects (all by default).
COUNT      ?= 2000
SEED       ?= 1
SUBJECT    ?=

.PHONY: help toolchain build run test test-release sdk-test client-test venv reliability soak storm differential fuzz check format sanitize bench \
  install clean

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

run: build           ## serve the demo model on 127.0.0.1:8080 (MODEL=DIR, PORT=N for another)
	$(BINARY) serve --model $(MODEL) --host $(HOST) --port $(PORT) --examples

test: toolchain      ## run every test: Swift tests, then SDKs and other clients against the release binary
	$(SWIFT) test $(FLAGS)
	$(MAKE) differential
	$(MAKE) sdk-test
	$(MAKE) client-test

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

client-test: build   ## run other clients (LangChain, litellm, ...), each in an environment of its own
	@if command -v $(PYTHON) >/dev/null 2>&1; then \
	  $(PYTHON) Tests/EndToEnd/clients/run.py $(BINARY); \
	else \
	  echo "SKIPPED: there is no $(PYTHON), so no client was run against the server."; \
	fi

venv:
	@[ -x $(VENV)/bin/python ] || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r Tests/EndToEnd/requirements.txt

reliability: build venv ## run the reliability cases alone, the long sweeps of docs/reliability.md included
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
	  $(SWIFT) build $(FLAGS) --product differential && $(MAKE) venv && \
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
	  SANITIZER=$(SANITIZER) $(SWIFT) build --package-path .build-fuzz --scratch-path .build-fuzz/build$(SANITIZER) --product fuzz && \
	  $(PYTHON) Tests/Fuzz/fuzz.py .build-fuzz/build$(SANITIZER)/debug/fuzz --seconds $(SECONDS_EACH) --inputs $(INPUTS) \
	    $(if $(TARGET),--target $(TARGET)); \
	fi

check: toolchain     ## lint the format of all sources
	$(SWIFT) format lint --recursive --strict --parallel Package.swift Sources Tests

format: toolchain    ## format all sources in place
	$(SWIFT) format --in-place --recursive --parallel Package.swift Sources Tests

sanitize: toolchain  ## run the threaded modules under the thread sanitizer, and all under the address sanitizer
	TSAN_OPTIONS="suppressions=$(CURDIR)/Tests/thread-sanitizer.txt" \
	  $(SWIFT) test --sanitize=thread -Xswiftc -DTHREAD_SANITIZER --scratch-path .build-tsan --filter 'PlatformTests|HTTPTests|InferenceTests|ServerTests'
	LSAN_OPTIONS="suppressions=$(CURDIR)/Tests/leak-sanitizer.txt" \
	  $(SWIFT) test --sanitize=address --scratch-path .build-asan --skip 'KernelSymbolTests|a_megabyte_of_anything|a megabyte of anything'

bench: build         ## compare with llama.cpp on synthetic models (SHAPES, ROUNDS); writes docs/benchmarks
	@[ -x $(BENCH_VENV)/bin/python ] || $(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check numpy gguf
	@# Built from source for this machine's own instruction set: some minutes, once.
	@$(BENCH_VENV)/bin/python -c 'import llama_cpp' 2>/dev/null || CMAKE_ARGS=-DGGML_NATIVE=ON \
	  $(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check llama-cpp-python || \
	  echo "llama-cpp-python cannot be installed: mlxserve is measured alone."
	$(BENCH_VENV)/bin/python Fixtures/scripts/bench/compare.py $(BINARY) docs/benchmarks --shapes $(SHAPES) --rounds $(ROUNDS)

install: build       ## copy the binary to $(PREFIX)/bin (PREFIX=/usr/local)
	install -d $(or $(PREFIX),/usr/local)/bin
	install -m 755 $(BINARY) $(or $(PREFIX),/usr/local)/bin/mlxserve

clean:               ## remove everything that was built
	rm -rf .build .build-tsan .build-asan .build-fuzz $(VENV) $(CLIENTS)
