/*
 * migrate: brings the schema up to date from the files in migrations/, which are part of the
 * program. Each runs in a transaction of its own, under an advisory lock, and is remembered in
 * schema_migrations with a checksum.
 */
#ifndef OXI_META_MIGRATE_H
#define OXI_META_MIGRATE_H

#include <stddef.h>

#include "base/err.h"
#include "meta/pg_pool.h"

struct migration_file {
    int number;
    const char *name; /* "0001_first" */
    const char *sql;
};

/* Made by the build from migrations/NNNN_name.sql, in order of number. */
extern const struct migration_file migration_files[];
extern const size_t migration_file_count;

/* ERR_CONFLICT: the database is newer than the program, or a migration that ran was edited. */
int migrate_run(const char *conninfo, int *ret_applied_count, struct err *err);

#endif
