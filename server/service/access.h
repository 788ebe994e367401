/*
 * access: may this principal do this to this node; decided nowhere else. So far everybody owns
 * one space and nothing else.
 */
#ifndef OXI_SERVICE_ACCESS_H
#define OXI_SERVICE_ACCESS_H

#include "base/err.h"
#include "meta/node_repo.h"
#include "service/principal.h"

enum access_action { ACCESS_READ, ACCESS_WRITE };

/* ERR_NOT_FOUND when not even existence may be told, ERR_DENIED otherwise. */
int access_check(const struct principal *principal, const struct node *node,
                 enum access_action action, struct err *err);

#endif
