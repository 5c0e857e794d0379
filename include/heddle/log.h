/* SPDX-License-Identifier: MIT
 *
 * log: what happened in a simulated run, in a file; reading, comparing, checking.
 *
 *   HEDDLE_SEED=7 HEDDLE_LOG=run.hdlog ./program
 *
 *   hd_log *log;
 *   err = hd_log_open(&log, "run.hdlog");
 *   for (hd_log_event event; hd_log_next(log, &event) == 1;) ...
 *   hd_log_close(log);
 *
 * A log is written from the beginning to the end and never changed: a header, blocks of events,
 * each with a checksum and the hash of all before it, and a footer. One that was cut anywhere opens
 * up to its last good block. Two runs of one program with one seed have the same bytes (level D3);
 * what differs between them, such as the time of day, is beside it in FILE.meta, for people. Those
 * of differently compiled programs differ in the header's `identity`, which is no part of the
 * hashes. docs/log-format.md describes every byte.
 *
 * Blocks are written when they are full, at the latest every 10,000 steps: a program that is killed
 * loses the last. HEDDLE_LOG_SYNC=1 has each event written at once, in a block of its own.
 *
 * Input records say what was chosen, derived ones what came of it: a replay takes the former and
 * checks the latter.
 *
 * All: Context: any; a log is used by one thread at a time.  Switches: no.  Allocates: where
 * -ENOMEM is returned.
 */
#ifndef HEDDLE_LOG_H
#define HEDDLE_LOG_H

#include <heddle/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_log hd_log;

/* Values are fixed for ever: they are in files. Below 32: input. */
typedef enum hd_log_kind {
    HD_LOG_CHOICE = 1,   /* task: who goes on, of a that could; 0: time passes. b: 1 if the one that
                          * ran before could have gone on and did not */
    HD_LOG_DRAW = 2,     /* a: what for; b: the number drawn */
    HD_LOG_FAULT = 3,    /* a: which, of those that the seed asks for, from 1; some may have been
                          * left out (hd_shrink()); text: what went wrong */
    HD_LOG_SPAWN = 32,   /* task, by a (0: a thread); text: its name; site */
    HD_LOG_STEP = 33,    /* task runs; a: object about to be touched, 0: none or unknown; b:
                          * hd_touch_kind; site */
    HD_LOG_WAIT = 34,    /* task waits; a: object, 0: unknown; text: what for */
    HD_LOG_WAKE = 35,    /* task can go on, thanks to a (0: time, I/O or a thread) */
    HD_LOG_END = 36,     /* task has ended; a: its result, as a 64-bit two's complement */
    HD_LOG_TIME = 37,    /* nothing could go on until now */
    HD_LOG_WARNING = 38, /* task that it is about, 0: none; text */
    HD_LOG_NOTE = 39,    /* task; text: hd_log_note() */
    HD_LOG_ASSERT = 40,  /* task; text: what did not hold; site */
    HD_LOG_VERDICT = 41, /* the last one; a: hd_verdict; b: code; text: the message */
} hd_log_kind;

/* Tasks have their ids. Objects are numbered from 1 in the order they are first seen; memory that
 * is one object after another counts as one. */
typedef struct hd_log_event {
    uint64_t sequence; /* from 1 */
    uint64_t step;     /* how many HD_LOG_STEP there were, with this one: what `heddle replay
                        * --until` takes */
    int64_t time_ns;   /* virtual */
    hd_log_kind kind;
    uint64_t task, a, b;
    const char *text;  /* "" if none; until the next call */
    const char *file;  /* of the site, without directories; NULL: none; as long as the log is
                        * open */
    int line;
} hd_log_event;

typedef struct hd_log_info {
    unsigned version;     /* of the format */
    uint64_t seed;
    const char *sampler;  /* "" : none */
    const char *options;  /* of the runtime, those that matter: "key=value key=value" */
    const char *program;  /* its name, without directories */
    uint8_t identity[32]; /* of its code: build ID or hash; all 0: not known */
    const char *library;  /* version of Heddle */
    bool complete;        /* the footer is there and true */
    uint64_t events;      /* that can be read */
    uint64_t blocks;
    uint64_t good_bytes;  /* of the file, that can be read */
    uint64_t file_bytes;
    uint8_t hash[32];     /* of all up to there, from the seed on */
    const char *damage;   /* what is missing or wrong, in one sentence; NULL: nothing */
} hd_log_info;

/* Returns: 0, also for one that is damaged after its header; -errno of opening; -EBADMSG: it is no
 * log, or its header is damaged; -ENOTSUP: of a later version; -ENOMEM. */
HD_API HD_MUST_USE int hd_log_open(hd_log **log, const char *path);
HD_API void hd_log_close(hd_log *log);

/* As long as it is open. */
HD_API const hd_log_info *hd_log_about(hd_log *log);

/* The next event. Returns: 1; 0 after the last good one; -EBADMSG: a block with a good checksum
 * makes no sense; -EIO; -ENOMEM. After an error only a seek goes on. */
HD_API int hd_log_next(hd_log *log, hd_log_event *event);

/* So that the event of this sequence is the next. Takes time for one block. Returns: 0, -ERANGE, or
 * what hd_log_next() may say. */
HD_API HD_MUST_USE int hd_log_seek(hd_log *log, uint64_t sequence);

/* Where two logs part, found by their hashes in about log2(blocks) steps. Which program they are
 * of is not compared. Both are left somewhere. Returns: 0: they do not; 1: *sequence is the first
 * event that differs, or that one of them lacks; 2: seed, sampler or options differ; or what
 * hd_log_next() may say. */
HD_API HD_MUST_USE int hd_log_compare(hd_log *a, hd_log *b, uint64_t *sequence);

/* "choice", "spawn" and so on; NULL for what is none. */
HD_API const char *hd_log_kind_name(hd_log_kind kind);

/* Put a note of the calling task into the log that its run is recorded in, if any, and have a
 * replay compare it. At most 200 bytes count. Allocates: no. */
HD_API void hd_log_note(const char *text);

#ifdef __cplusplus
}
#endif
#endif
