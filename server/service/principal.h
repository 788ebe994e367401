/* principal: who is asking; fixed for the whole request. */
#ifndef OXI_SERVICE_PRINCIPAL_H
#define OXI_SERVICE_PRINCIPAL_H

#include <stdint.h>

#include "meta/user_repo.h"

struct principal {
    int64_t user_id;
    int64_t space_id; /* the tree that "/" of this principal is the root of */
    char name[USER_NAME_MAX + 1];
};

#endif
