/* SPDX-License-Identifier: MIT
 *
 * net_unix: Unix stream sockets: names of a host, and connections that take no time. A path stays
 * when its socket is closed, and over a crash, until it is unlinked; an abstract name goes.
 *
 * Descriptors that are passed are copies, made when they are sent; so they have a number while
 * nobody has received them. They come with the first of the bytes they were sent with, and no read
 * goes on behind the last of these.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/net.h"

static struct hdi_unix_name *name_of(struct hdi_list *link)
{
    return (struct hdi_unix_name *)((char *)link - offsetof(struct hdi_unix_name, link));
}

static struct hdi_unix_name *find(struct hdi_net *net, const struct hd_sim_host *host,
                                  const char *name, size_t bytes)
{
    for (struct hdi_list *link = net->unix_names.next; link != &net->unix_names;
         link = link->next) {
        struct hdi_unix_name *at = name_of(link);
        if (at->host == host && at->bytes == bytes && memcmp(at->name, name, bytes) == 0) {
            return at;
        }
    }
    return NULL;
}

/* Returns the bytes of the name: a path without its 0, or an abstract one with its; or -EINVAL. */
static ssize_t name_bytes(const struct sockaddr_un *addr, socklen_t bytes)
{
    const size_t start = offsetof(struct sockaddr_un, sun_path);
    if (bytes <= start || bytes > sizeof(*addr) || addr->sun_family != AF_UNIX) return -EINVAL;
    if (addr->sun_path[0] == 0) return (ssize_t)(bytes - start);
    return (ssize_t)strnlen(addr->sun_path, bytes - start);
}

static void forget(struct hdi_unix_name *name)
{
    if (name->sock) name->sock->name = NULL;
    hdi_list_remove(&name->link);
    free(name);
}

int hdi_unix_bind(struct hdi_net *net, struct hdi_sock *sock, const struct sockaddr_un *addr,
                  socklen_t bytes)
{
    const ssize_t length = name_bytes(addr, bytes);
    if (length < 0 || sock->bound) return -EINVAL;
    if (find(net, sock->life->host, addr->sun_path, (size_t)length)) return -EADDRINUSE;
    struct hdi_unix_name *name = hdi_net_alloc(sizeof(*name));
    name->host = sock->life->host;
    name->sock = sock;
    name->bytes = (size_t)length;
    memcpy(name->name, addr->sun_path, (size_t)length);
    hdi_list_push_back(&net->unix_names, &name->link);
    sock->name = name;
    sock->bound = true;
    return 0;
}

int hdi_unix_connect(struct hdi_net *net, struct hdi_sock *sock, const struct sockaddr_un *addr,
                     socklen_t bytes)
{
    const ssize_t length = name_bytes(addr, bytes);
    if (length < 0) return -EINVAL;
    const struct hdi_unix_name *name =
        find(net, sock->life->host, addr->sun_path, (size_t)length);
    if (!name) return addr->sun_path[0] ? -ENOENT : -ECONNREFUSED;
    struct hdi_sock *listener = name->sock;
    if (!listener || listener->life->dead || listener->state != HDI_SOCK_LISTENING) {
        return -ECONNREFUSED;
    }
    if (listener->queued >= listener->backlog) return -EAGAIN;
    struct hdi_sock *other = hdi_sock_new(net, HDI_SOCK_UNIX, AF_UNIX, listener->life);
    hdi_conn_local(net, sock, other);
    sock->peer_name_bytes = name->bytes;
    memcpy(sock->peer_name, name->name, name->bytes);
    hdi_sock_enqueue(net, listener, other);
    return 0;
}

void hdi_unix_close(struct hdi_sock *sock)
{
    struct hdi_unix_name *name = sock->name;
    if (!name) return;
    name->sock = NULL;
    if (name->name[0] == 0) forget(name);
}

bool hdi_unix_unlink(struct hd_runtime *runtime, const char *path)
{
    struct hdi_net *net = hdi_net_of(runtime);
    const size_t bytes = strlen(path);
    hdi_mutex_lock(&net->lock);
    const struct hdi_life *life = hdi_life_self(net);
    struct hdi_unix_name *name = bytes && !life->dead ? find(net, life->host, path, bytes) : NULL;
    if (name) forget(name);
    hdi_mutex_unlock(&net->lock);
    return name != NULL;
}

/* ---- descriptors that are passed ---- */

static struct hdi_passed *first_passed(const struct hdi_end *end)
{
    if (hdi_list_empty(&end->passed)) return NULL;
    return hdi_container_of(end->passed.next, struct hdi_passed, link);
}

void hdi_unix_pass(struct hdi_sock *sock, struct hdi_passed *passed, size_t bytes)
{
    passed->end = sock->conn->ends[sock->end].sent;
    passed->at = passed->end - bytes;
    hdi_list_push_back(&sock->conn->ends[1 - sock->end].passed, &passed->link);
}

size_t hdi_unix_until_passed(const struct hdi_end *end, size_t bytes)
{
    const struct hdi_passed *passed = first_passed(end);
    return passed && passed->end - end->consumed < bytes ? passed->end - end->consumed : bytes;
}

struct hdi_passed *hdi_unix_take_passed(struct hdi_end *end)
{
    struct hdi_passed *passed = first_passed(end);
    if (!passed || passed->at >= end->consumed) return NULL;
    hdi_list_remove(&passed->link);
    return passed;
}

void hdi_unix_lose_passed(struct hdi_net *net, struct hdi_end *end)
{
    for (struct hdi_list *link; (link = hdi_list_pop_front(&end->passed));) {
        hdi_list_push_back(&net->lost, link);
    }
}

void hdi_unix_end(struct hdi_net *net)
{
    while (!hdi_list_empty(&net->unix_names)) forget(name_of(net->unix_names.next));
}
