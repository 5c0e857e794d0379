/* SPDX-License-Identifier: MIT
 *
 * chat: a chat server for people with telnet or nc.
 *
 *   ./chat --listen 127.0.0.1:7008
 *   nc 127.0.0.1 7008
 *   HEDDLE_SEED=42 ./chat --self-test   simulated
 *
 * A client is two fibers: one reads its lines and posts them, one writes what others have posted.
 * Between them is the client's outbox, a channel with room for OUTBOX messages. Posting never
 * waits: an outbox that is full loses its oldest message, and its owner is told how many it
 * missed. So a client that does not read costs its outbox, and holds up nobody. A message is in
 * memory once, however many outboxes it is in, and counts who has it.
 */
#include "server.h"

#include <heddle/buffer.h>
#include <stdarg.h>
#include <stdatomic.h>

enum {
    OUTBOX = 32,
    LINE_BYTES_MAX = 512,
    NAME_BYTES_MAX = 20,
    NAME_MS = 60000,  /* to say one's name */
    WRITE_MS = 30000, /* for a message to go out */
};

struct message {
    atomic_uint holders;
    size_t bytes;
    char text[NAME_BYTES_MAX + LINE_BYTES_MAX + 8];
};

struct member {
    struct room *room;
    struct member *next; /* room->lock */
    hd_io conn;
    hd_chan *outbox; /* of struct message * */
    char name[NAME_BYTES_MAX + 1];
};

struct room {
    hd_mutex lock;
    struct member *first; /* lock */
};

/* ---- messages ---- */

static struct message *message_create(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Held once. Returns NULL if memory is short. */
static struct message *message_create(const char *format, ...)
{
    struct message *message = malloc(sizeof(*message));
    if (!message) return NULL;
    va_list args;
    va_start(args, format);
    const int bytes = vsnprintf(message->text, sizeof(message->text), format, args);
    va_end(args);
    message->bytes = bytes < (int)sizeof(message->text) ? (size_t)bytes
                                                        : sizeof(message->text) - 1;
    atomic_init(&message->holders, 1);
    return message;
}

static void message_drop(struct message *message)
{
    if (message && atomic_fetch_sub(&message->holders, 1) == 1) free(message);
}

/* From an outbox that was full, or whose owner has left. */
static void message_lost(void *item, void *arg)
{
    (void)arg;
    message_drop(*(struct message **)item);
}

/* ---- the room ---- */

/* Put it into one outbox. */
static void member_tell(struct member *member, struct message *message)
{
    if (!message) return;
    atomic_fetch_add(&message->holders, 1);
    if (hd_chan_give(member->outbox, message)) message_drop(message);
}

/* Put it into all outboxes but one, and drop it. */
static void room_post(struct room *room, const struct member *but, struct message *message)
{
    if (message && hd_mutex_lock(&room->lock) == 0) {
        for (struct member *m = room->first; m; m = m->next) {
            if (m != but) member_tell(m, message);
        }
        hd_mutex_unlock(&room->lock);
    }
    message_drop(message);
}

/* Returns: 0, -EEXIST if somebody has the name, -ECANCELED. */
static int room_enter(struct room *room, struct member *member)
{
    int err = hd_mutex_lock(&room->lock);
    if (err) return err;
    for (const struct member *m = room->first; m && !err; m = m->next) {
        if (strcmp(m->name, member->name) == 0) err = -EEXIST;
    }
    if (!err) {
        member->next = room->first;
        room->first = member;
    }
    hd_mutex_unlock(&room->lock);
    return err;
}

/* Afterwards nobody knows of the member any more. Also in a task that is cancelled. */
static void room_leave(struct room *room, struct member *member)
{
    if (hd_shield()) return;
    if (hd_mutex_lock(&room->lock) == 0) {
        struct member **link = &room->first;
        while (*link != member) link = &(*link)->next;
        *link = member->next;
        hd_mutex_unlock(&room->lock);
    }
    room_post(room, NULL, message_create("* %s left\n", member->name));
    hd_unshield();
}

static struct message *room_list(struct room *room)
{
    char names[LINE_BYTES_MAX] = "";
    size_t bytes = 0;
    if (hd_mutex_lock(&room->lock)) return NULL;
    for (const struct member *m = room->first; m; m = m->next) {
        const int n = snprintf(names + bytes, sizeof(names) - bytes, " %s", m->name);
        if (n >= (int)(sizeof(names) - bytes)) break; /* as many as fit */
        bytes += (size_t)n;
    }
    hd_mutex_unlock(&room->lock);
    return message_create("* here:%.*s\n", (int)bytes, names);
}

/* ---- a client ---- */

static int write_message(hd_io conn, const struct message *message)
{
    return hd_write_all_until(conn, message->text, message->bytes, NULL, hd_after_ms(WRITE_MS));
}

/* Until the outbox is closed and empty. */
static int write_outbox(void *arg)
{
    struct member *member = arg;
    uint64_t told = 0;
    void *block;
    while (hd_chan_take(member->outbox, &block) == 0) {
        int err = 0;
        const uint64_t lost = hd_chan_dropped(member->outbox);
        if (lost != told) {
            struct message *note = message_create("* you missed %d messages\n",
                                                  (int)(lost - told));
            if (note) err = write_message(member->conn, note);
            message_drop(note);
            told = lost;
        }
        if (!err) err = write_message(member->conn, block);
        message_drop(block);
        if (err) return err; /* which ends the reader, too */
    }
    return 0;
}

/* What could confuse a terminal becomes a blank. */
static const char *plain(char *text, const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        text[i] = (unsigned char)line[i] < ' ' || line[i] == 0x7f ? ' ' : line[i];
    }
    text[bytes] = '\0';
    return text;
}

static bool is_name(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const size_t bytes = strlen(text);
    return bytes > 0 && bytes <= NAME_BYTES_MAX && strspn(text, letters) == bytes;
}

static int say(hd_io conn, const char *text)
{
    return hd_write_all_until(conn, text, strlen(text), NULL, hd_after_ms(WRITE_MS));
}

/* Ask for a name until there is one that nobody has, and enter. */
static int introduce(struct member *member, hd_reader *in)
{
    char text[LINE_BYTES_MAX + 1];
    const char *line;
    int err = say(member->conn, "* What is your name?\n");
    while (!err) {
        const ssize_t n = hd_read_line(in, &line);
        if (n < 0) return (int)n;
        if (!is_name(plain(text, line, (size_t)n))) {
            err = say(member->conn, "* A name is 1 to 20 letters, digits, - or _. Yours?\n");
            continue;
        }
        memcpy(member->name, text, (size_t)n + 1);
        err = room_enter(member->room, member);
        if (!err) return 0;
        if (err == -EEXIST) err = say(member->conn, "* Somebody has that name. Yours?\n");
    }
    return err;
}

static int read_lines(struct member *member, hd_reader *in)
{
    char text[LINE_BYTES_MAX + 1];
    const char *line;
    ssize_t n;
    while ((n = hd_read_line(in, &line)) >= 0) {
        plain(text, line, (size_t)n);
        if (strcmp(text, "/quit") == 0) return 0;
        if (strcmp(text, "/who") == 0) {
            struct message *names = room_list(member->room);
            member_tell(member, names);
            message_drop(names);
        } else if (n > 0) {
            room_post(member->room, member, message_create("%s: %s\n", member->name, text));
        }
    }
    if (n != -EMSGSIZE) return n == -EPIPE ? 0 : (int)n;
    struct message *note = message_create("* That line is too long. Good bye.\n");
    member_tell(member, note);
    message_drop(note);
    return 0;
}

/* In the room, with an outbox. */
static int take_part(struct member *member, hd_reader *in)
{
    HD_NURSERY(n) {
        if (hd_go(n, write_outbox, member) == 0) {
            room_post(member->room, member, message_create("* %s came\n", member->name));
            (void)read_lines(member, in);
        }
        room_leave(member->room, member);
        hd_chan_close(member->outbox); /* What is in it still goes out. */
    }
    return hd_nursery_result();
}

static int chat_connection(hd_io conn, void *arg)
{
    struct member member = {.room = arg, .conn = conn};
    char memory[LINE_BYTES_MAX];
    hd_reader in;
    hd_reader_init(&in, conn, memory, sizeof(memory));
    const hd_chan_options options = {
        .size = sizeof(options),
        .capacity = OUTBOX,
        .overflow = HD_OVERFLOW_DROP_OLDEST,
        .undelivered = message_lost,
    };
    int err = hd_chan_create_with(&member.outbox, sizeof(void *), &options);
    if (err) return err;
    in.deadline = hd_after_ms(NAME_MS);
    err = introduce(&member, &in);
    in.deadline = HD_FOREVER;
    if (!err) err = take_part(&member, &in);
    hd_chan_destroy(member.outbox);
    return err;
}

/* ---- testing itself ---- */

enum { ROUNDS = 250, PADDING = 480, STAY_MS = 80, WAIT_MS = 10000 };

struct person {
    const char *place, *name;
    hd_io conn;
    hd_reader in;
    char memory[1024];
};

static int person_say(struct person *person, const char *text)
{
    char line[LINE_BYTES_MAX];
    const int n = snprintf(line, sizeof(line), "%s\n", text);
    return hd_write_all(person->conn, line, (size_t)n, NULL);
}

/* Wait until a line begins so; others are passed over. The rest of it is copied to `rest`, unless
 * that is NULL. */
static int person_hear(struct person *person, const char *start, char rest[LINE_BYTES_MAX])
{
    const size_t bytes = strlen(start);
    const char *line;
    ssize_t n;
    person->in.deadline = hd_after_ms(WAIT_MS);
    while ((n = hd_read_line(&person->in, &line)) >= 0) {
        if ((size_t)n < bytes || memcmp(line, start, bytes) != 0) continue;
        if (rest) snprintf(rest, LINE_BYTES_MAX, "%.*s", (int)((size_t)n - bytes), line + bytes);
        return 0;
    }
    fprintf(stderr, "chat: %s waited for \"%s\": %s\n", person->name, start, strerror((int)-n));
    return (int)n;
}

static int person_enter(struct person *person)
{
    int err = hd_tcp_connect(&person->conn, person->place, NULL);
    if (err) return err;
    hd_reader_init(&person->in, person->conn, person->memory, sizeof(person->memory));
    err = person_say(person, person->name);
    if (!err) err = person_say(person, "/who"); /* The answer says that we are in. */
    if (!err) err = person_hear(person, "* here:", NULL);
    if (err) hd_close(person->conn);
    return err;
}

/* Enters and does not listen, so that messages gather; leaves in the middle of it. */
static int sleep_through(void *arg)
{
    struct person *carol = arg;
    const int err = person_enter(carol);
    if (err) return err;
    hd_sleep_ms(STAY_MS);
    hd_close(carol->conn);
    return 0;
}

/* Alice and Bob talk by turns, whatever Carol does. */
static int talk(struct person *alice, struct person *bob)
{
    char line[LINE_BYTES_MAX], heard[64];
    int err = 0;
    for (int i = 0; i < ROUNDS && !err; i++) {
        struct person *speaker = i % 2 ? bob : alice, *listener = i % 2 ? alice : bob;
        snprintf(line, sizeof(line), "%d %*s", i, PADDING, "");
        snprintf(heard, sizeof(heard), "%s: %d ", speaker->name, i);
        err = person_say(speaker, line);
        if (!err) err = person_hear(listener, heard, NULL);
    }
    return err;
}

/* Ask who is here until only these are. */
static int until_here(struct person *person, const char *names)
{
    char here[LINE_BYTES_MAX] = "";
    int err = 0;
    const int64_t deadline = hd_after_ms(WAIT_MS);
    while (!err && strcmp(here, names) != 0) {
        err = person_say(person, "/who");
        if (!err) err = person_hear(person, "* here:", here);
        if (!err) err = hd_sleep_ms(1);
        if (!err && hd_now(NULL) > deadline) err = -ETIMEDOUT;
    }
    return err;
}

static int meet(struct person *alice, struct person *bob, struct person *carol)
{
    int err = 0;
    HD_NURSERY(n) {
        err = hd_go(n, sleep_through, carol);
        if (!err) err = talk(alice, bob);
    }
    if (!err) err = hd_nursery_result();
    if (!err) err = until_here(alice, " bob alice");
    if (!err) err = person_say(bob, "/quit");
    return err ? err : until_here(alice, " alice");
}

static int chat_check(const char *place, void *arg)
{
    (void)arg;
    struct person alice = {.place = place, .name = "alice"}, bob = {.place = place, .name = "bob"},
                  carol = {.place = place, .name = "carol"};
    int err = person_enter(&alice);
    if (err) return err;
    err = person_enter(&bob);
    if (!err) {
        err = meet(&alice, &bob, &carol);
        hd_close(bob.conn);
    }
    hd_close(alice.conn);
    return err;
}

/* ---- the program ---- */

static const char help[] =
    "usage: chat [OPTION]...\n"
    "A chat room. Clients send lines: first a name, then what they say to all; /who lists who is\n"
    "here, /quit leaves.\n\n"
    "  --listen PLACE     ADDRESS:PORT; port 0 is any free one; default 127.0.0.1:7008\n"
    "  --connections N    at a time, at most; default 1000\n"
    "  --workers N        1 to 256; default: one for each CPU\n"
    "  --self-test        serve, talk to it, and exit\n"
    "  --help             show this\n\n"
    "With HEDDLE_SEED=N in the environment it runs simulated.\n";

int main(int argc, char **argv)
{
    struct room room = {.first = NULL};
    struct server server = {
        .name = "chat",
        .help = help,
        .place = "127.0.0.1:7008",
        .connection = chat_connection,
        .check = chat_check,
        .arg = &room,
        .connections_max = 1000,
        .fds_each = 1,
    };
    bool self_test = false;
    const int status = server_read_arguments(&server, &self_test, argc, argv);
    if (status >= 0) return status;
    const int failed = server_main(&server, self_test);
    hd_mutex_fini(&room.lock);
    return failed;
}
