# The front door. The build itself is meson.build; `make` only remembers the words.
PREFIX ?= /usr/local
B ?= build/gcc
R ?= build/release

all: deps-build $(B)/build.ninja ## Build the program, the library and the tests
	ninja -C $(B)
test: all ## Run the tests of the plain build
	meson test -C $(B) --print-errorlogs --no-rebuild
check: deps-test ## Everything a change must pass: style, both compilers, sanitizers, tests
	@tools/check
demo: deps-demo release ## Two minutes: what this is, on a real project
	@tools/demo $(R)/src/cli/computer
install: deps-build release ## Install under PREFIX (/usr/local), or DESTDIR/PREFIX
	meson install -C $(R) --no-rebuild --quiet $(if $(DESTDIR),--destdir "$(abspath $(DESTDIR))")
bench: deps-bench release ## Measure against ext4 on this disk (wants an idle machine)
	@bench/run $(R)
fuzz: deps-test ## Fuzz every target for a minute (FUZZ_SECONDS, FUZZ_TARGETS)
	@tools/fuzz
format: ## Print the sources as clang-format 14 would
	git ls-files '*.c' '*.h' | xargs clang-format -i
clean: ## Remove everything that was built
	rm -rf build
help: ## This list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 18

release: $(R)/build.ninja
	@meson configure $(R) -Dprefix=$(PREFIX)
	@ninja -C $(R) --quiet
$(B)/build.ninja:
	meson setup $(B)
$(R)/build.ninja: | deps-build
	meson setup $(R) --buildtype=release -Db_ndebug=false -Dwerror=false -Dtests=false --prefix=$(PREFIX)
deps-%:
	@tools/install-deps $*

.PHONY: all test check demo install bench fuzz format clean help release
