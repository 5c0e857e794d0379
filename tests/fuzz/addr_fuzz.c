/* SPDX-License-Identifier: MIT
 *
 * Addresses: any text is parsed or refused, and what was parsed survives being written and parsed
 * again.
 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *place = malloc(size + 1);
    if (!place) return 0;
    memcpy(place, data, size);
    place[size] = 0;

    hd_addr addr, again;
    memset(&addr, 0, sizeof(addr));
    memset(&again, 0, sizeof(again));
    char text[HD_ADDR_TEXT_MAX], second[HD_ADDR_TEXT_MAX];
    if (hd_addr_parse(&addr, place) == 0) {
        FUZZ_EXPECT(addr.length > 0 && addr.length <= sizeof(addr.bytes));
        FUZZ_EXPECT(hd_addr_format(&addr, text) == text);
        FUZZ_EXPECT(memchr(text, 0, sizeof(text)));
        FUZZ_EXPECT(hd_addr_parse(&again, text) == 0);
        FUZZ_EXPECT(again.length == addr.length);
        FUZZ_EXPECT(memcmp(again.bytes, addr.bytes, addr.length) == 0);
        FUZZ_EXPECT(strcmp(hd_addr_format(&again, second), text) == 0);
        FUZZ_EXPECT(hd_addr_port(&addr) == hd_addr_port(&again));
    }
    free(place);
    return 0;
}
