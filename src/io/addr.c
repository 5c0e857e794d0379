/* SPDX-License-Identifier: MIT
 *
 * addr: addresses as text.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "io/socket.h"

_Static_assert(sizeof(struct sockaddr_un) <= sizeof(((hd_addr *)0)->bytes), "hd_addr holds any");

/* Decimal, without a sign, to 65535. */
static int parse_port(const char *text)
{
    int port = 0;
    if (*text == 0) return -EINVAL;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return -EINVAL;
        port = port * 10 + (*text - '0');
        if (port > 65535) return -EINVAL;
    }
    return port;
}

int hdi_place_split(const char *place, char *host, size_t bytes)
{
    const char *colon = place ? strrchr(place, ':') : NULL;
    if (!colon) return -EINVAL;
    const char *first = place;
    size_t length = (size_t)(colon - place);
    if (*first == '[') {
        if (length < 2 || first[length - 1] != ']') return -EINVAL;
        first++;
        length -= 2;
    } else if (memchr(first, ':', length)) {
        return -EINVAL; /* An IPv6 address needs its brackets. */
    }
    if (length >= bytes || memchr(first, '[', length) || memchr(first, ']', length)) {
        return -EINVAL;
    }
    const int port = parse_port(colon + 1);
    if (port < 0) return port;
    memcpy(host, first, length);
    host[length] = 0;
    return port;
}

int hdi_addr_of(hd_addr *addr, const char *host, int port)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    hd_addr made = {0};
    if (*host == 0) {
        six.sin6_addr = in6addr_any;
        made.length = sizeof(six);
        memcpy(made.bytes, &six, sizeof(six));
    } else if (inet_pton(AF_INET, host, &four.sin_addr) == 1) {
        made.length = sizeof(four);
        memcpy(made.bytes, &four, sizeof(four));
    } else if (inet_pton(AF_INET6, host, &six.sin6_addr) == 1) {
        made.length = sizeof(six);
        memcpy(made.bytes, &six, sizeof(six));
    } else {
        return -EINVAL;
    }
    *addr = made;
    return 0;
}

/* "@NAME" is abstract: a 0 in the place of the "@", and no 0 at the end. */
static int parse_unix(hd_addr *addr, const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const bool abstract = *path == '@';
    const size_t length = strlen(path);
    if (length == 0 || (abstract && length == 1)) return -EINVAL;
    if (length + !abstract > sizeof(un.sun_path)) return -ENAMETOOLONG;
    memcpy(un.sun_path, path, length);
    if (abstract) un.sun_path[0] = 0;
    memset(addr, 0, sizeof(*addr));
    addr->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + !abstract);
    memcpy(addr->bytes, &un, addr->length);
    return 0;
}

int hd_addr_parse(hd_addr *addr, const char *place)
{
    char host[INET6_ADDRSTRLEN];
    if (!place) return -EINVAL;
    if (strncmp(place, "unix:", 5) == 0) return parse_unix(addr, place + 5);
    const int port = hdi_place_split(place, host, sizeof(host));
    return port < 0 ? port : hdi_addr_of(addr, host, port);
}

static void format_unix(const hd_addr *addr, char *text)
{
    const char *path = (const char *)addr->bytes + offsetof(struct sockaddr_un, sun_path);
    const size_t most = addr->length - offsetof(struct sockaddr_un, sun_path);
    const bool abstract = most > 0 && path[0] == 0;
    const size_t length = abstract ? most - 1 : strnlen(path, most);
    snprintf(text, HD_ADDR_TEXT_MAX, "unix:%s%.*s", abstract ? "@" : "", (int)length,
             path + abstract);
}

char *hd_addr_format(const hd_addr *addr, char text[HD_ADDR_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN];
    if (addr->length == 0) {
        text[0] = 0;
    } else if (addr->family == AF_INET) {
        const char *in = (const char *)addr->bytes + offsetof(struct sockaddr_in, sin_addr);
        inet_ntop(AF_INET, in, host, sizeof(host));
        snprintf(text, HD_ADDR_TEXT_MAX, "%s:%d", host, hd_addr_port(addr));
    } else if (addr->family == AF_INET6) {
        const char *in = (const char *)addr->bytes + offsetof(struct sockaddr_in6, sin6_addr);
        inet_ntop(AF_INET6, in, host, sizeof(host));
        snprintf(text, HD_ADDR_TEXT_MAX, "[%s]:%d", host, hd_addr_port(addr));
    } else {
        format_unix(addr, text);
    }
    return text;
}

int hd_addr_port(const hd_addr *addr)
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    if (addr->length == 0) return -EINVAL;
    if (addr->family == AF_INET) {
        memcpy(&four, addr->bytes, sizeof(four));
        return ntohs(four.sin_port);
    }
    if (addr->family != AF_INET6) return -EINVAL;
    memcpy(&six, addr->bytes, sizeof(six));
    return ntohs(six.sin6_port);
}
