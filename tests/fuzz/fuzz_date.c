/* fuzz_date: the three forms of an HTTP date; the input is the value of the header. */
#include <string.h>

#include "base/clock.h"
#include "fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char written[CLOCK_HTTP_SIZE];
    char iso[CLOCK_ISO_SIZE];
    int64_t at_us;
    int64_t again_us;

    if (!clock_parse_http_date((struct slice){(const char *)data, len}, &at_us))
        return 0;
    CHECK(at_us % 1000000 == 0);
    clock_http_date(written, at_us);
    clock_iso_date(iso, at_us);
    CHECK(strlen(written) == CLOCK_HTTP_SIZE - 1 && strlen(iso) == CLOCK_ISO_SIZE - 1);
    CHECK(clock_parse_http_date(slice_of(written), &again_us));
    CHECK(again_us == at_us);
    return 0;
}
