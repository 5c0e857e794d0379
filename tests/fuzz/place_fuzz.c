/* SPDX-License-Identifier: MIT
 *
 * Places with names, "HOST:PORT": any text is split or refused, within the room given for the
 * host, and what was split can be put together again.
 */
#include "fuzz.h"

#include "io/socket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const size_t room = 1 + data[0] % 64;
    char *place = malloc(size);
    char *host = malloc(room); /* of exactly that size, so that ASan sees one byte more */
    char *again = malloc(size + 16);
    if (place && host && again) {
        memcpy(place, data + 1, size - 1);
        place[size - 1] = 0;
        const int port = hdi_place_split(place, host, room);
        FUZZ_EXPECT(port <= 65535);
        if (port >= 0) {
            char *other = malloc(room);
            const bool brackets = strchr(host, ':') != NULL;
            FUZZ_EXPECT(memchr(host, 0, room));
            sprintf(again, brackets ? "[%s]:%d" : "%s:%d", host, port);
            FUZZ_EXPECT(other && hdi_place_split(again, other, room) == port);
            FUZZ_EXPECT(strcmp(host, other) == 0);
            free(other);
        }
    }
    free(place);
    free(host);
    free(again);
    return 0;
}
