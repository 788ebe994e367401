# oxicloudd: building, testing, installing.
#
#   make            builds build/oxicloudd
#   make run        installs what is missing, builds, starts a server on http://127.0.0.1:8086
#   make test       installs what is missing, runs all tests, plain and under ASan+UBSan
#   make unit       the unit tests alone, plain: quick
#   make asan|tsan  all tests under ASan+UBSan, or under TSan
#   make test-codecs  the plain tests again with each codec, every chunk packed
#   make model      a long random history against a model; OXI_MODEL_STEPS, OXI_MODEL_SEED
#   make drills     all crash drills (make test runs a few of them), on a binary with fault points
#                   RUNS=20 runs either of the two as often, each time with another seed
#   make fuzz       feeds hostile bytes to the parsers; FUZZ_SECONDS (each), FUZZ_SEED, CC=clang
#   make bench      measures; see bench/*.md
#   make bench-http  measures beside nginx, Apache, lighttpd and rclone; see bench/HTTP.md. ROWS=
#                   and NAME= as `bench/http --help` says; make bench-deps installs the others
#   make install    DESTDIR= PREFIX=/usr/local SYSCONFDIR=/etc
#   make deps       installs what is missing with apt (deps-build, deps-run and deps-test)
#   make format     clang-format over all C files
#   make docs       the README's table of settings from oxicloudd.conf.example
#
# Sources, tests and migrations are found by their names: a new file needs no line here.

VERSION    := 0.1.0
BUILD      ?= build
CC         := gcc
PYTHON     ?= /usr/bin/python3
RUNS       ?= 1
DESTDIR    ?=
PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

# As many compilers as processors, unless the caller said otherwise.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

# ---- what the machine must have ---------------------------------------------------------------

PACKAGES_build := gcc libc6-dev make pkg-config libmicrohttpd-dev libpq-dev libxxhash-dev \
    libjansson-dev libsodium-dev libexpat1-dev libutf8proc-dev libsystemd-dev \
    liblz4-dev libzstd-dev
PACKAGES_run   := postgresql-15
PACKAGES_test  := libcmocka-dev python3 python3-pytest python3-pytest-xdist curl litmus rclone cadaver
PACKAGES_bench := python3 nginx-light libnginx-mod-http-dav-ext apache2 lighttpd \
    lighttpd-mod-webdav rclone

# Asks dpkg first: with everything there, this needs neither root nor a network. PostgreSQL's
# package would start a server of its own; the line in createcluster.conf, written only where
# that package has never been, keeps it from that. Our servers run their own private one.
define INSTALL
missing=; \
for package in $(1); do \
    case $$(dpkg-query -W -f='$${db:Status-Abbrev}' $$package 2>/dev/null) in \
    ii*) ;; \
    *) missing="$$missing $$package" ;; \
    esac; \
done; \
[ -n "$$missing" ] || exit 0; \
echo "installing:$$missing"; \
as_root=; \
if [ "$$(id -u)" != 0 ]; then \
    command -v sudo >/dev/null || { echo "as root: apt-get install$$missing" >&2; exit 1; }; \
    as_root=sudo; \
fi; \
conf=/etc/postgresql-common/createcluster.conf; \
case $$missing in *postgresql*) [ -e $$conf ] || { \
    $$as_root mkdir -p $${conf%/*} && \
    echo 'create_main_cluster = false' | $$as_root tee $$conf >/dev/null; } ;; \
esac; \
$$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update && \
$$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends \
    -o Dpkg::Options::=--force-confold $$missing
endef

.PHONY: deps deps-build deps-run deps-test bench-deps
deps:
	@$(call INSTALL,$(PACKAGES_build) $(PACKAGES_run) $(PACKAGES_test))
deps-build:
	@$(call INSTALL,$(PACKAGES_build))
deps-run:
	@$(call INSTALL,$(PACKAGES_build) $(PACKAGES_run))
deps-test: deps
# Packages of servers would start them. Where nobody has set a policy for that, it is "no" for the
# moment.
bench-deps:
	@policy=/usr/sbin/policy-rc.d; as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
	if ! [ -e $$policy ] && ! dpkg-query -W $(PACKAGES_bench) >/dev/null 2>&1; then \
	    trap 'exit 1' INT TERM; trap "$$as_root rm -f $$policy" EXIT; \
	    printf '#!/bin/sh\nexit 101\n' | $$as_root tee $$policy >/dev/null; \
	    $$as_root chmod 755 $$policy; \
	fi; \
	$(call INSTALL,$(PACKAGES_bench))

# ---- flags ------------------------------------------------------------------------------------

LIBS      := libmicrohttpd libpq libxxhash jansson libsodium expat libutf8proc libsystemd \
             liblz4 libzstd
TEST_LIBS := cmocka

# pkg-config is asked when something is compiled, not when this file is read: `make deps` runs
# without it. Asked once, and what is missing is said with the way out of it.
pkg        = $(or $(shell pkg-config $(1) 2>/dev/null && echo ' '),\
                  $(error $(shell pkg-config --errors-to-stdout --print-errors $(2)) run make deps))
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(call pkg,--cflags $(LIBS),$(LIBS)))$(PKG_CFLAGS)
PKG_LIBS   = $(eval PKG_LIBS := $$(call pkg,--libs $(LIBS),$(LIBS)))$(PKG_LIBS)
TEST_PKG   = $(eval TEST_PKG := $$(call pkg,--libs $(TEST_LIBS),$(TEST_LIBS)))$(TEST_PKG)

# CFLAGS and LDFLAGS are the caller's; what the code needs stands in BASE_.
CFLAGS       ?=
LDFLAGS      ?=
BASE_CFLAGS  := -std=gnu17 -O2 -g -Wall -Wextra -Werror -fPIE -fno-strict-overflow \
                -fstack-protector-strong -fstack-clash-protection
BASE_LDFLAGS := -pie -Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,--as-needed
CPPFLAGS_ALL := -Iserver -D_GNU_SOURCE -DOXICLOUDD_VERSION='"$(VERSION)"'

ifneq ($(filter x86_64 i686,$(shell uname -m)),)
BASE_CFLAGS += -fcf-protection
endif

FLAVOURS      := plain asan tsan drill fuzz
CFLAGS_plain  := -D_FORTIFY_SOURCE=2
CFLAGS_asan   := -fsanitize=address,undefined -fno-sanitize-recover=undefined \
                 -fno-omit-frame-pointer -DOXI_FAULTS
CFLAGS_tsan   := -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan
CFLAGS_drill  := -D_FORTIFY_SOURCE=2 -DOXI_FAULTS
CFLAGS_fuzz   := $(CFLAGS_asan) -fsanitize-coverage=trace-pc
BINARY_plain  := $(BUILD)/oxicloudd
BINARY_asan   := $(BUILD)/asan/oxicloudd
BINARY_tsan   := $(BUILD)/tsan/oxicloudd
BINARY_drill  := $(BUILD)/drill/oxicloudd
BINARY_fuzz   := $(BUILD)/fuzz/oxicloudd
POWERCUT      := $(BUILD)/drill/powercut.so

# clang has a driver for fuzz programs of its own, libFuzzer; for gcc there is tests/fuzz/driver.c.
ifneq ($(findstring clang,$(CC)),)
CFLAGS_fuzz := $(CFLAGS_asan) -fsanitize=fuzzer-no-link
FUZZ_ENGINE := -fsanitize=fuzzer
FUZZ_NOT    := tests/fuzz/driver.c
endif

# ---- what there is to build -------------------------------------------------------------------

SOURCES    := $(sort $(shell find server -name '*.c'))
SUPPORT    := $(sort $(shell find tests/support -name '*.c' 2>/dev/null))
UNIT_TESTS := $(sort $(shell find tests/unit -name 'test_*.c' 2>/dev/null))
FUZZERS    := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_PARTS := $(filter-out $(FUZZERS) $(FUZZ_NOT),$(sort $(wildcard tests/fuzz/*.c)))
MIGRATIONS := $(sort $(wildcard migrations/*.sql))
MIGRATED   := $(BUILD)/obj/migrations.c

.PHONY: all run test unit asan tsan binaries-asan binaries-tsan
all: $(BINARY_plain)

# $(1): the flavour
define FLAVOUR
MODULES_$(1) := $$(patsubst %.c,$(BUILD)/obj/$(1)/%.o,$$(filter-out server/main.c,$$(SOURCES))) \
                $(BUILD)/obj/$(1)/migrations.o
SUPPORT_$(1) := $$(SUPPORT:%.c=$(BUILD)/obj/$(1)/%.o)
TESTS_$(1)   := $$(UNIT_TESTS:tests/unit/%.c=$(BUILD)/$(1)/tests/%)
FLAGS_$(1)   := $$(BASE_CFLAGS) $$(CFLAGS_$(1)) $$(CFLAGS)
FUZZERS_$(1) := $$(FUZZERS:tests/fuzz/fuzz_%.c=$(BUILD)/$(1)/fuzz/%)
FUZZ_PARTS_$(1) := $$(FUZZ_PARTS:%.c=$(BUILD)/obj/$(1)/%.o)

$$(BINARY_$(1)): $(BUILD)/obj/$(1)/server/main.o $$(MODULES_$(1))
	@mkdir -p $$(@D)
	@echo "link    $$@"
	@$$(CC) $$(FLAGS_$(1)) $$(BASE_LDFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(PKG_LIBS) -lpthread

$$(TESTS_$(1)): $(BUILD)/$(1)/tests/%: $(BUILD)/obj/$(1)/tests/unit/%.o $$(SUPPORT_$(1)) \
        $(BUILD)/obj/$(1)/server.a
	@mkdir -p $$(@D)
	@echo "link    $$@"
	@$$(CC) $$(FLAGS_$(1)) $$(BASE_LDFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(PKG_LIBS) $$(TEST_PKG) \
	    -lpthread

$$(FUZZERS_$(1)): $(BUILD)/$(1)/fuzz/%: $(BUILD)/obj/$(1)/tests/fuzz/fuzz_%.o \
        $$(FUZZ_PARTS_$(1)) $(BUILD)/obj/$(1)/server.a
	@mkdir -p $$(@D)
	@echo "link    $$@"
	@$$(CC) $$(FLAGS_$(1)) $$(FUZZ_ENGINE) $$(BASE_LDFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(PKG_LIBS) \
	    -lpthread

# For the tests: of an archive each takes only what it uses.
$(BUILD)/obj/$(1)/server.a: $$(MODULES_$(1))
	@rm -f $$@
	@ar rcs $$@ $$^

$(BUILD)/obj/$(1)/migrations.o: $(MIGRATED) $(BUILD)/obj/$(1)/flags
	$$(call COMPILE,$(1))

$(BUILD)/obj/$(1)/server/%.o: server/%.c $(BUILD)/obj/$(1)/flags
	$$(call COMPILE,$(1))

$(BUILD)/obj/$(1)/tests/%.o: tests/%.c $(BUILD)/obj/$(1)/flags
	$$(call COMPILE,$(1),-Itests)

# Changes when the flags do, so that objects made with others are made again.
$(BUILD)/obj/$(1)/flags: FORCE
	@mkdir -p $$(@D)
	@echo '$$(subst ','\'',$$(CC) $$(CPPFLAGS_ALL) $$(FLAGS_$(1)))' | cmp -s - $$@ || \
	    echo '$$(subst ','\'',$$(CC) $$(CPPFLAGS_ALL) $$(FLAGS_$(1)))' >$$@
endef

# $(1): the flavour; $(2): more preprocessor flags
define COMPILE
	@mkdir -p $(@D)
	@echo "compile $@"
	@$(CC) $(CPPFLAGS_ALL) $(2) $(PKG_CFLAGS) $(FLAGS_$(1)) -MMD -MP -c -o $@ $<
endef

$(foreach flavour,$(FLAVOURS),$(eval $(call FLAVOUR,$(flavour))))

.PHONY: FORCE
FORCE:

# The folder is named too: it changes when a migration is added or taken away.
$(MIGRATED): migrations/embed.sh $(MIGRATIONS) migrations
	@mkdir -p $(@D)
	@migrations/embed.sh $(MIGRATIONS) >$@

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# Loaded in front of the C library by the drills.
$(POWERCUT): tests/drills/powercut.c $(BUILD)/obj/drill/flags
	@mkdir -p $(@D)
	@echo "link    $@"
	@$(CC) -std=gnu17 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -fPIC -shared -o $@ $< -lpthread

# ---- running and testing ----------------------------------------------------------------------

run: deps-run
	@$(MAKE) --no-print-directory all
	@OXICLOUD_STORAGE_PATH="$${OXICLOUD_STORAGE_PATH:-./data}" \
	    exec $(BINARY_plain) serve --create-admin

.PHONY: build-plain build-asan build-tsan build-drill build-fuzz drills fuzz
build-plain: $(BINARY_plain) $(TESTS_plain)
build-asan: $(BINARY_asan) $(TESTS_asan) $(FUZZERS_asan)
build-tsan: $(BINARY_tsan) $(TESTS_tsan)
build-drill: $(BINARY_drill) $(POWERCUT)
build-fuzz: $(FUZZERS_fuzz)

test: deps
	@$(MAKE) --no-print-directory build-plain build-asan build-drill
	@$(PYTHON) tests/run --build $(BUILD) plain asan drill

.PHONY: test-codecs
test-codecs: build-plain build-drill
	@for codec in none lz4 zstd; do \
	    $(PYTHON) tests/run --build $(BUILD) --codec $$codec plain || exit 1; \
	done

unit: build-plain
	@$(PYTHON) tests/run --build $(BUILD) --unit plain

.PHONY: model
model: all
	@OXICLOUDD=$(abspath $(BINARY_plain)) OXI_MODEL_STEPS=$${OXI_MODEL_STEPS:-20000} \
	    $(PYTHON) tests/repeat $(RUNS) OXI_MODEL_SEED \
	    $(PYTHON) -B -m pytest -q -s -p no:cacheprovider tests/model

asan tsan: %: build-%
	@$(PYTHON) tests/run --build $(BUILD) $*

drills: build-drill
	@$(PYTHON) tests/repeat $(RUNS) OXI_DRILL_SEED \
	    $(PYTHON) tests/run --build $(BUILD) --all-drills drill

# make test has a short run of these, too. An input that fails is saved in $(BUILD)/fuzz.
fuzz: build-fuzz
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $(PYTHON) tests/run --build $(BUILD) fuzz

# ---- measuring --------------------------------------------------------------------------------

# A program a question; bench.c and bench_*.c are what they share. Results are Markdown. Tools of
# other benches are built with them, and not run.
BENCH_SHARED := $(wildcard bench/bench.c bench/bench_*.c)
BENCHES      := $(patsubst bench/%.c,$(BUILD)/bench/%,$(filter-out $(BENCH_SHARED),$(wildcard bench/*.c)))
BENCH_TOOLS  := $(BUILD)/bench/http_load

.PHONY: bench bench-http build-bench
build-bench: $(BENCHES)
bench: build-bench
	@for program in $(filter-out $(BENCH_TOOLS),$(BENCHES)); do \
	    BENCH_DIR="$${BENCH_DIR:-$(BUILD)/bench}" \
	    BENCH_COMMIT="$$(git describe --always --dirty 2>/dev/null)" $$program || exit 1; \
	done

build-plain: $(BENCH_TOOLS) # a black-box test uses them
bench-http: all $(BENCH_TOOLS)
	@$(PYTHON) bench/http --build $(BUILD) $(if $(ROWS),--rows $(ROWS)) $(if $(NAME),--name $(NAME))

$(BENCHES): $(BUILD)/bench/%: $(BUILD)/obj/plain/bench/%.o \
        $(BENCH_SHARED:%.c=$(BUILD)/obj/plain/%.o) $(BUILD)/obj/plain/tests/support/mem_index.o \
        $(BUILD)/obj/plain/server.a
	@mkdir -p $(@D)
	@echo "link    $@"
	@$(CC) $(FLAGS_plain) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lpthread

$(BUILD)/obj/plain/bench/%.o: bench/%.c $(BUILD)/obj/plain/flags
	$(call COMPILE,plain,-Itests -I.)

# ---- installing -------------------------------------------------------------------------------

# The binary is a daemon and its administration, so it goes to sbin. An existing configuration
# file is left as it is.
.PHONY: install
install: all
	install -D -m 755 $(BINARY_plain) $(DESTDIR)$(PREFIX)/sbin/oxicloudd
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(SYSCONFDIR)/oxicloudd
	sed -e 's|/usr/local/sbin/|$(PREFIX)/sbin/|g' -e 's|/etc/oxicloudd/|$(SYSCONFDIR)/oxicloudd/|g' \
	    config/oxicloudd.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/oxicloudd.service
	chmod 644 $(DESTDIR)$(PREFIX)/lib/systemd/system/oxicloudd.service
	install -D -m 644 config/oxicloudd.sysusers \
	    $(DESTDIR)$(PREFIX)/lib/sysusers.d/oxicloudd.conf
	[ -e $(DESTDIR)$(SYSCONFDIR)/oxicloudd/oxicloudd.conf ] || install -m 644 \
	    config/oxicloudd.conf $(DESTDIR)$(SYSCONFDIR)/oxicloudd/oxicloudd.conf
	awk -v form=manual -f docs/settings.awk oxicloudd.conf.example >$(BUILD)/settings.man
	sed -e 's/@VERSION@/$(VERSION)/' -e '/^@SETTINGS@/r $(BUILD)/settings.man' \
	    -e '/^@SETTINGS@/d' docs/oxicloudd.8 >$(BUILD)/oxicloudd.8
	install -D -m 644 $(BUILD)/oxicloudd.8 $(DESTDIR)$(PREFIX)/share/man/man8/oxicloudd.8
	install -d $(DESTDIR)$(PREFIX)/share/doc/oxicloudd
	install -m 644 README.md LICENSE oxicloudd.conf.example config/nginx.conf \
	    $(DESTDIR)$(PREFIX)/share/doc/oxicloudd/

# ---- tidying ----------------------------------------------------------------------------------

.PHONY: clean format docs
clean:
	rm -rf $(BUILD)

# The README's table of settings, from the example file.
docs:
	@mkdir -p $(BUILD)
	@awk -v form=table -f docs/settings.awk oxicloudd.conf.example >$(BUILD)/settings.md
	@sed -i -e '/^<!-- settings:/r $(BUILD)/settings.md' \
	    -e '/^<!-- settings:/,/^<!-- end of settings/ { /^<!-- /!d }' README.md

format:
	clang-format -i $$(find server tests bench -name '*.[ch]')
