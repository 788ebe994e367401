#!/bin/sh
# embed.sh FILE.sql ... > migrations.c
#
# Turns migrations into C, so that the binary carries its own schema. Each file is named
# NNNN_what.sql; two files may not share a number, and the order is the order of the numbers.
set -eu
export LC_ALL=C

fail() {
    echo "embed.sh: $*" >&2
    exit 1
}

files=$(for file in "$@"; do printf '%s\n' "$file"; done | sort)
before=

cat <<'EOF'
/* Made by migrations/embed.sh from migrations/; not to be edited. */
#include "meta/migrate.h"

const struct migration_file migration_files[] = {
EOF
for file in $files; do
    base=$(basename "$file" .sql)
    case $base in
    [0-9][0-9][0-9][0-9]_?*) ;;
    *) fail "$file: the name must be NNNN_what.sql" ;;
    esac
    digits=${base%%_*}
    [ "$digits" != "$before" ] || fail "$file: number $digits is taken"
    before=$digits
    number=$(printf '%s' "$digits" | sed 's/^0*\(.\)/\1/')

    printf '    {%s, "%s",\n' "$number" "$base"
    # Quotes and backslashes are escaped, and question marks too, because of trigraphs.
    sed -e 's/[\\"?]/\\&/g' -e 's/^.*$/     "&\\n"/' "$file"
    printf '\n     ""},\n'
done
cat <<'EOF'
};

const size_t migration_file_count = sizeof(migration_files) / sizeof(migration_files[0]);
EOF
