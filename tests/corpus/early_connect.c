/* SPDX-License-Identifier: MIT
 *
 * early_connect: a program starts its server and connects to it. Whether the server listens by then
 * is a matter of luck.
 *
 * What tests paper over by sleeping; fixed by waiting until the server says that it is ready.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
} s;

static int serve(void *arg)
{
    (void)arg;
    hd_io listener, conn;
    int err = hd_unix_listen(&listener, "/run/server", NULL);
    if (err) return err;
    hd_ready(NULL);
    err = hd_accept(listener, &conn, NULL);
    if (!err) hd_close(conn);
    hd_close(listener);
    return err == -ECANCELED ? 0 : err;
}

static int early_connect(void *arg)
{
    CORPUS_BEGIN(s, arg);
    int err = 0;
    HD_NURSERY(n) {
        hd_io conn;
        err = s.how.fixed ? hd_start(n, serve, NULL, NULL) : hd_go(n, serve, NULL);
        hd_race_point(); /* reads its configuration */
        if (!err) err = hd_unix_connect(&conn, "/run/server");
        if (!err) hd_close(conn);
        else hd_nursery_cancel(n);
    }
    return err;
}
CORPUS(early_connect, early_connect, RESULT, 0, "connects before the server listens")
