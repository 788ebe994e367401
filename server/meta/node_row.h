/*
 * node_row: how a row of nodes is read, for the repos that select nodes. Private to meta/.
 */
#ifndef OXI_META_NODE_ROW_H
#define OXI_META_NODE_ROW_H

#include "meta/node_repo.h"
#include "meta/pg.h"

/* Of a table that goes by n; node_row_read() expects them first, in this order. */
#define NODE_COLUMNS                                                                               \
    "n.id, n.space_id, n.parent_id, n.kind, n.name, n.content_id, n.size_bytes, n.mime,"           \
    " n.mtime, n.created_at, n.seq, n.content_seq, n.link_seq"

enum { NODE_COLUMN_COUNT = 13 }; /* what else is selected follows */

void node_row_read(const struct pg_rows *rows, int row, struct node *node);

#endif
