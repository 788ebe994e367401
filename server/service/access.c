#include "service/access.h"

int
access_check(const struct principal *principal, const struct node *node, enum access_action action,
             struct err *err)
{
    (void)action; /* an owner may do everything, and there is nobody else yet */
    if (node->space_id != principal->space_id)
        return err_set(err, ERR_NOT_FOUND, "not found");
    return 0;
}
