# The two commands: `make run` and `make test`. Both install what is missing on Debian (as root),
# build and go. Meson does the building; this file only remembers how it is called.
#
#   make run ARGS='--journal none'      starts drover serve with these options

MESON ?= meson
ARGS ?=
# Where `make install` puts things, with DESTDIR in front. The last build directory's own does not count.
PREFIX ?= /usr/local
# Per fuzz target, for `make fuzz` and `make soak`.
FUZZ_SECONDS ?= 60

# Across files: three percent of a request's time.
product = -Db_lto=true
asan = -Db_sanitize=address,undefined
tsan = -Db_sanitize=thread
fuzzer = -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
tested = -Dbuildtype=debugoptimized -Dwerror=true

.PHONY: help run build test check test-builds soak bench fuzz install deb format format-check tidy clean

help:
	@echo 'make run           build and start drover serve (options in ARGS)'
	@echo 'make test          build with sanitizers and run every test'
	@echo 'make check         the tests that take less than a minute together'
	@echo 'make build         build with optimisation: build/drover'
	@echo 'make install       install below PREFIX ($(PREFIX)), DESTDIR in front'
	@echo 'make deb           Debian packages, in build-deb'
	@echo 'make bench         measure'
	@echo 'make soak          the tests, at length'
	@echo 'make fuzz          the fuzz targets, FUZZ_SECONDS ($(FUZZ_SECONDS)) each'
	@echo 'make format        lay out the code; make format-check only looks'
	@echo 'make tidy          include edges, sizes, names: what tools/tidy checks'
	@echo 'make clean         remove what was built'

run: build
	build/drover serve $(ARGS)

build:
	@tools/deps build
	@$(MAKE) -s build/build.ninja
	@ninja -C build --quiet product
	@ln -sf src/drover build/drover

# A build directory is set up once, and again when build files have changed or there are new ones.
build_files = meson.build meson_options.txt $(shell find src test bench examples -name meson.build)
setup = $(MESON) setup $(if $(wildcard $@),--reconfigure) $(@D)

build/build.ninja: $(build_files)
	$(setup) $(product)

build-asan/build.ninja: $(build_files)
	$(setup) $(tested) $(asan)

build-tsan/build.ninja: $(build_files)
	$(setup) $(tested) $(tsan)

build-fuzz/build.ninja: $(build_files)
	CC=clang $(setup) $(tested) $(fuzzer)

test-builds:
	@tools/deps test
	@$(MAKE) -s build/build.ninja build-asan/build.ninja build-tsan/build.ninja \
		build-fuzz/build.ninja
	@ln -sf src/drover build-asan/drover

test: test-builds
	test/run

check:
	@tools/deps test
	@$(MAKE) -s build-asan/build.ninja
	@ln -sf src/drover build-asan/drover
	test/run --check

soak: test-builds
	test/run --soak --fuzz-seconds $(FUZZ_SECONDS)

fuzz:
	@tools/deps fuzz
	@$(MAKE) -s build-fuzz/build.ninja
	test/run --only fuzz --fuzz-seconds $(FUZZ_SECONDS)

bench:
	@tools/deps bench
	@$(MAKE) -s build/build.ninja
	$(MESON) test -C build --benchmark --verbose

install: build
	$(MESON) setup --reconfigure build --prefix=$(abspath $(PREFIX)) >/dev/null
	$(MESON) install -C build --no-rebuild --quiet

deb:
	@tools/deps deb
	tools/deb

sources = $(shell find include src test bench examples -name '*.[ch]')

format:
	@tools/deps format
	@clang-format -i $(sources)

format-check:
	@tools/deps format
	@clang-format --dry-run -Werror $(sources)

tidy:
	@tools/tidy

clean:
	rm -rf build build-asan build-tsan build-fuzz build-deb
