/* SPDX-License-Identifier: MIT
 *
 * Every transition of the task word, from every lifecycle and with every flag.
 */
#include "death.h"

#include "task/state.h"

TEST_MAIN

#define FLAGS                                                                            \
    (HDI_NOTIFIED | HDI_CANCELLED | HDI_JOIN_INTEREST | HDI_JOIN_WAKER | HDI_JOIN_AGAIN)

static uint64_t make(enum hdi_lifecycle lifecycle, uint64_t refs, uint64_t shields, uint64_t flags)
{
    return refs << 40 | shields << 32 | flags | (uint64_t)lifecycle << 16;
}

#define EXPECT_WORD(word, wanted)                                                        \
    do {                                                                                 \
        const uint64_t w_ = hdi_load_relaxed(&(word)), e_ = (wanted);                    \
        if (w_ != e_)                                                                    \
            test_fail(__FILE__, __LINE__, "word is %016llx, expected %016llx",           \
                      (unsigned long long)w_, (unsigned long long)e_);                   \
    } while (0)

/* Every word with these references: 4 lifecycles, 32 flag sets, 3 shield depths. */
struct each {
    uint64_t refs;
    unsigned at;
    enum hdi_lifecycle lifecycle;
    uint64_t flags, shields;
    uint64_t word;
};

static bool next_word(struct each *each)
{
    static const uint64_t depths[] = {0, 1, 255};
    if (each->at == 4 * 32 * 3) return false;
    each->lifecycle = (enum hdi_lifecycle)(each->at % 4);
    each->flags = (uint64_t)(each->at / 4 % 32) << 24;
    each->shields = depths[each->at / 128];
    each->word = make(each->lifecycle, each->refs, each->shields, each->flags);
    each->at++;
    return true;
}

/* ---- layout ---- */

_Static_assert((UINT64_MAX >> 40) == HDI_REF_MAX, "24 bits of references on top");
_Static_assert((HDI_REF_MAX << HDI_REF_SHIFT | HDI_SHIELD_MASK | UINT64_C(0xff) << 24 |
                HDI_LIFECYCLE_MASK | UINT64_C(0xffff)) == UINT64_MAX,
               "the fields cover the word");
_Static_assert((FLAGS & ~(UINT64_C(0xff) << 24)) == 0, "flags lie in their byte");

TEST(the_fields_lie_as_in_the_diagram)
{
    const uint64_t word = UINT64_C(0xabcdef971f030000);
    EXPECT_EQ(hdi_word_refs(word), 0xabcdef);
    EXPECT_EQ(hdi_word_shields(word), 0x97);
    EXPECT_EQ(hdi_word_lifecycle(word), HDI_COMPLETE);
    EXPECT_EQ(word & FLAGS, 0x1f000000);
    EXPECT_EQ(HDI_NOTIFIED, 0x01000000);
    EXPECT_EQ(HDI_JOIN_INTEREST, 0x02000000);
    EXPECT_EQ(HDI_JOIN_WAKER, 0x04000000);
    EXPECT_EQ(HDI_JOIN_AGAIN, 0x08000000);
    EXPECT_EQ(HDI_CANCELLED, 0x10000000);
    EXPECT_EQ(HDI_METERED, 0x00004000);
    EXPECT_EQ(HDI_IDLE, 0);
    EXPECT_EQ(HDI_SCHEDULED, 1);
    EXPECT_EQ(HDI_RUNNING, 2);
    EXPECT_EQ(HDI_COMPLETE, 3);
}

TEST(a_new_word_is_scheduled_with_the_references_asked_for)
{
    EXPECT_EQ(hdi_word_new(false), 0x0000010000010000);
    EXPECT_EQ(hdi_word_new(true), 0x0000020002010000);
}

TEST(a_cancel_is_in_effect_without_a_shield)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        EXPECT_EQ(hdi_word_cancelled(e.word), (e.flags & HDI_CANCELLED) && e.shields == 0);
    }
}

TEST(a_new_lifecycle_changes_nothing_else)
{
    for (struct each e = {.refs = HDI_REF_MAX}; next_word(&e);) {
        for (unsigned to = HDI_IDLE; to <= HDI_COMPLETE; to++) {
            EXPECT_EQ(hdi_word_with(e.word, (enum hdi_lifecycle)to),
                      make((enum hdi_lifecycle)to, e.refs, e.shields, e.flags));
        }
    }
}

/* ---- waking ---- */

static void wake_each(bool consume)
{
    for (struct each e = {.refs = 3}; next_word(&e);) {
        _Atomic(uint64_t) word = e.word;
        const enum hdi_next next = hdi_transition_to_notified(&word, consume);
        const uint64_t refs = consume ? 2 : 3;
        switch (e.lifecycle) {
        case HDI_IDLE:
            EXPECT_EQ(next, HDI_NEXT_SUBMIT);
            EXPECT_WORD(word, make(HDI_SCHEDULED, refs, e.shields, e.flags));
            break;
        case HDI_SCHEDULED:
        case HDI_RUNNING:
            EXPECT_EQ(next, HDI_NEXT_NOTHING);
            EXPECT_WORD(word, make(e.lifecycle, refs, e.shields, e.flags | HDI_NOTIFIED));
            break;
        case HDI_COMPLETE:
            EXPECT_EQ(next, HDI_NEXT_NOTHING);
            EXPECT_WORD(word, make(HDI_COMPLETE, refs, e.shields, e.flags));
            break;
        }
    }
}

TEST(a_wake_schedules_or_is_remembered)
{
    wake_each(false);
}

TEST(a_wake_gives_up_its_reference_in_the_same_step)
{
    wake_each(true);
}

TEST(the_last_waker_of_an_ended_task_frees_it)
{
    _Atomic(uint64_t) word = make(HDI_COMPLETE, 1, 0, 0);
    EXPECT_EQ(hdi_transition_to_notified(&word, true), HDI_NEXT_FREE);
    EXPECT_EQ(hdi_word_refs(word), 0);
}

/* ---- running ---- */

TEST(running_answers_the_wakes_before_it)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        if (e.lifecycle != HDI_SCHEDULED) continue;
        _Atomic(uint64_t) word = e.word;
        hdi_transition_to_running(&word);
        EXPECT_WORD(word, make(HDI_RUNNING, 2, e.shields, e.flags & ~HDI_NOTIFIED));
    }
}

TEST(parking_with_a_wake_remembered_schedules_instead)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        if (e.lifecycle != HDI_RUNNING) continue;
        _Atomic(uint64_t) word = e.word;
        const bool again = e.flags & HDI_NOTIFIED;
        const uint64_t flags = e.flags & ~HDI_NOTIFIED;
        EXPECT_EQ(hdi_transition_to_idle(&word, 0), again ? HDI_NEXT_SUBMIT : HDI_NEXT_NOTHING);
        EXPECT_WORD(word, make(again ? HDI_SCHEDULED : HDI_IDLE, 2, e.shields, flags));
    }
}

TEST(a_remembered_wake_is_taken_once)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        _Atomic(uint64_t) word = e.word;
        EXPECT_EQ(hdi_transition_take_notified(&word), (e.flags & HDI_NOTIFIED) != 0);
        EXPECT_WORD(word, make(e.lifecycle, 2, e.shields, e.flags & ~HDI_NOTIFIED));
        EXPECT(!hdi_transition_take_notified(&word));
    }
}

TEST(completing_drops_a_reference_and_says_whom_to_wake)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        if (e.lifecycle != HDI_RUNNING) continue;
        _Atomic(uint64_t) word = e.word;
        _Atomic(uintptr_t) field = 123;
        uintptr_t joiner = 0;
        const bool wake = e.flags & HDI_JOIN_WAKER;
        const bool late = wake && (e.flags & HDI_JOIN_AGAIN);
        EXPECT_EQ(hdi_transition_to_complete(&word, &field, &joiner),
                  late   ? HDI_NEXT_WAKE_UNREF
                  : wake ? HDI_NEXT_WAKE
                         : HDI_NEXT_NOTHING);
        EXPECT_EQ(joiner, wake ? 123 : 0);
        EXPECT_WORD(word, make(HDI_COMPLETE, late ? 2 : 1, e.shields, e.flags));
    }
}

TEST(completing_without_handle_and_wakers_frees)
{
    _Atomic(uint64_t) word = make(HDI_RUNNING, 1, 0, HDI_NOTIFIED);
    _Atomic(uintptr_t) field = 0;
    uintptr_t joiner = 0;
    EXPECT_EQ(hdi_transition_to_complete(&word, &field, &joiner), HDI_NEXT_FREE);
    EXPECT_EQ(hdi_word_refs(word), 0);
    EXPECT_EQ(hdi_word_lifecycle(word), HDI_COMPLETE);
}

/* ---- cancelling ---- */

TEST(a_cancel_sets_its_flag_and_wakes_in_one_step_and_only_once)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        _Atomic(uint64_t) word = e.word;
        const enum hdi_next next = hdi_transition_to_cancelled(&word);
        uint64_t wanted = e.word;
        const bool first = !(e.flags & HDI_CANCELLED) && e.lifecycle != HDI_COMPLETE;
        if (first) wanted |= HDI_CANCELLED;
        if (first && e.lifecycle == HDI_IDLE) wanted = hdi_word_with(wanted, HDI_SCHEDULED);
        if (first && e.lifecycle != HDI_IDLE) wanted |= HDI_NOTIFIED;
        EXPECT_WORD(word, wanted);
        EXPECT_EQ(next, first && e.lifecycle == HDI_IDLE ? HDI_NEXT_SUBMIT : HDI_NEXT_NOTHING);
    }
}

TEST(only_an_idle_task_with_a_cancel_in_effect_is_dropped)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        _Atomic(uint64_t) word = e.word;
        const bool may = e.lifecycle == HDI_IDLE && (e.flags & HDI_CANCELLED) && e.shields == 0;
        EXPECT_EQ(hdi_transition_to_dropped(&word), may);
        EXPECT_WORD(word, may ? make(HDI_RUNNING, 2, 0, e.flags) : e.word);
    }
}

/* ---- joining ---- */

TEST(a_joiner_is_refused_once_the_task_is_complete)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        const bool complete = e.lifecycle == HDI_COMPLETE;
        if (!complete && (e.flags & (HDI_JOIN_INTEREST | HDI_JOIN_WAKER)) != HDI_JOIN_INTEREST) {
            continue;
        }
        _Atomic(uint64_t) word = e.word;
        EXPECT_EQ(hdi_transition_to_joining(&word), !complete);
        EXPECT_WORD(word, complete ? e.word : e.word | HDI_JOIN_WAKER);
    }
}

TEST(a_joiner_is_taken_back_and_that_is_remembered_unless_the_task_is_complete)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        const bool complete = e.lifecycle == HDI_COMPLETE;
        if (!complete && !(e.flags & HDI_JOIN_WAKER)) continue;
        _Atomic(uint64_t) word = e.word;
        EXPECT_EQ(hdi_transition_to_unjoined(&word), !complete);
        EXPECT_WORD(word, complete ? e.word : (e.word & ~HDI_JOIN_WAKER) | HDI_JOIN_AGAIN);
    }
}

TEST(detaching_drops_the_handle_and_its_reference)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        if (!(e.flags & HDI_JOIN_INTEREST)) continue;
        if ((e.flags & HDI_JOIN_WAKER) && e.lifecycle != HDI_COMPLETE) continue;
        _Atomic(uint64_t) word = e.word;
        EXPECT_EQ(hdi_transition_to_detached(&word), HDI_NEXT_NOTHING);
        EXPECT_WORD(word, make(e.lifecycle, 1, e.shields, e.flags & ~HDI_JOIN_INTEREST));
    }
    _Atomic(uint64_t) last = make(HDI_COMPLETE, 1, 0, HDI_JOIN_INTEREST);
    EXPECT_EQ(hdi_transition_to_detached(&last), HDI_NEXT_FREE);
    EXPECT_EQ(hdi_word_refs(last), 0);
    EXPECT_EQ(last & HDI_JOIN_INTEREST, 0);
}

/* ---- references ---- */

TEST(references_are_counted)
{
    for (struct each e = {.refs = 2}; next_word(&e);) {
        _Atomic(uint64_t) word = e.word;
        hdi_word_ref(&word);
        EXPECT_WORD(word, e.word + HDI_REF_ONE);
        EXPECT_EQ(hdi_word_unref(&word), HDI_NEXT_NOTHING);
        EXPECT_EQ(hdi_word_unref(&word), HDI_NEXT_NOTHING);
        EXPECT_WORD(word, make(e.lifecycle, 1, e.shields, e.flags));
        EXPECT_EQ(hdi_word_unref(&word), HDI_NEXT_FREE);
        EXPECT_EQ(hdi_word_refs(word), 0);
    }
}

TEST(a_stale_pointer_gets_a_reference_only_to_a_live_unfinished_task)
{
    for (struct each e = {.refs = 1}; next_word(&e);) {
        _Atomic(uint64_t) word = e.word;
        const bool may = e.lifecycle != HDI_COMPLETE;
        EXPECT_EQ(hdi_word_try_ref(&word), may);
        EXPECT_WORD(word, may ? e.word + HDI_REF_ONE : e.word);
    }
    for (struct each e = {.refs = 0}; next_word(&e);) {
        _Atomic(uint64_t) word = e.word;
        EXPECT(!hdi_word_try_ref(&word));
        EXPECT_WORD(word, e.word);
    }
}

TEST(the_count_holds_as_many_references_as_24_bits)
{
    _Atomic(uint64_t) word = make(HDI_RUNNING, HDI_REF_MAX - 1, 255, FLAGS);
    hdi_word_ref(&word);
    EXPECT_WORD(word, make(HDI_RUNNING, HDI_REF_MAX, 255, FLAGS));
    EXPECT_EQ(hdi_word_unref(&word), HDI_NEXT_NOTHING);
    EXPECT(hdi_word_try_ref(&word));
    EXPECT_EQ(hdi_word_refs(word), 16777215);
}

/* ---- shields ---- */

TEST(shields_nest_255_deep)
{
    _Atomic(uint64_t) word = make(HDI_RUNNING, 2, 0, HDI_JOIN_INTEREST);
    EXPECT_EQ(hdi_word_unshield(&word), -EINVAL);
    for (uint64_t depth = 1; depth <= 255; depth++) {
        EXPECT_EQ(hdi_word_shield(&word), 0);
        EXPECT_WORD(word, make(HDI_RUNNING, 2, depth, HDI_JOIN_INTEREST));
    }
    EXPECT_EQ(hdi_word_shield(&word), -EOVERFLOW);
    EXPECT_WORD(word, make(HDI_RUNNING, 2, 255, HDI_JOIN_INTEREST));
    for (uint64_t depth = 255; depth > 0; depth--) EXPECT_EQ(hdi_word_unshield(&word), 0);
    EXPECT_EQ(hdi_word_unshield(&word), -EINVAL);
    EXPECT_WORD(word, make(HDI_RUNNING, 2, 0, HDI_JOIN_INTEREST));
}

TEST(the_last_shield_tests_for_a_deferred_cancel)
{
    _Atomic(uint64_t) word = make(HDI_RUNNING, 2, 2, HDI_CANCELLED);
    EXPECT_EQ(hdi_word_unshield(&word), 0);
    EXPECT_WORD(word, make(HDI_RUNNING, 2, 1, HDI_CANCELLED));
    EXPECT_EQ(hdi_word_unshield(&word), 0);
    EXPECT_WORD(word, make(HDI_RUNNING, 2, 0, HDI_CANCELLED | HDI_NOTIFIED));
}

/* ---- what must not happen ---- */

enum illegal {
    RUN, REF, TRY_REF, DETACH, JOIN,     /* checked in every build */
    PARK, COMPLETE, UNJOIN, UNREF, WAKE, /* where assertions are on */
};

struct attempt {
    enum illegal what;
    uint64_t from;
    const char *words;
};

static void try_it(void *arg)
{
    const struct attempt *attempt = arg;
    _Atomic(uint64_t) word = attempt->from;
    _Atomic(uintptr_t) field = 0;
    uintptr_t joiner;
    switch (attempt->what) {
    case RUN: hdi_transition_to_running(&word); break;
    case REF: hdi_word_ref(&word); break;
    case TRY_REF: (void)!hdi_word_try_ref(&word); break;
    case DETACH: (void)!hdi_transition_to_detached(&word); break;
    case PARK: (void)!hdi_transition_to_idle(&word, 0); break;
    case COMPLETE: (void)!hdi_transition_to_complete(&word, &field, &joiner); break;
    case JOIN: (void)!hdi_transition_to_joining(&word); break;
    case UNJOIN: (void)!hdi_transition_to_unjoined(&word); break;
    case UNREF: (void)!hdi_word_unref(&word); break;
    case WAKE: (void)!hdi_transition_to_notified(&word, true); break;
    }
}

static void expect_deaths(struct attempt *attempts, size_t count)
{
    for (size_t i = 0; i < count; i++) expect_abort(try_it, &attempts[i], attempts[i].words);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

TEST(misuse_is_caught_in_every_build)
{
    struct attempt attempts[] = {
        {RUN, make(HDI_IDLE, 2, 0, 0), "HDI_SCHEDULED"},
        {RUN, make(HDI_RUNNING, 2, 0, 0), "HDI_SCHEDULED"},
        {RUN, make(HDI_COMPLETE, 2, 0, 0), "HDI_SCHEDULED"},
        {REF, make(HDI_RUNNING, HDI_REF_MAX, 0, 0), "16,777,215"},
        {TRY_REF, make(HDI_IDLE, HDI_REF_MAX, 0, 0), "16,777,215"},
        {DETACH, make(HDI_IDLE, 2, 0, 0), "joined or detached twice"},
        {DETACH, make(HDI_COMPLETE, 0, 0, 0), "joined or detached twice"},
        {JOIN, make(HDI_IDLE, 2, 0, HDI_JOIN_INTEREST | HDI_JOIN_WAKER), "joined by two at once"},
    };
    expect_deaths(attempts, COUNT(attempts));
}

TEST(broken_invariants_are_caught_where_assertions_are_on)
{
    if (!HDI_DEBUG) test_skip("assertions are off in this build");
    struct attempt attempts[] = {
        {PARK, make(HDI_IDLE, 2, 0, 0), "HDI_RUNNING"},
        {PARK, make(HDI_SCHEDULED, 2, 0, 0), "HDI_RUNNING"},
        {PARK, make(HDI_COMPLETE, 2, 0, 0), "HDI_RUNNING"},
        {COMPLETE, make(HDI_IDLE, 2, 0, 0), "HDI_RUNNING"},
        {COMPLETE, make(HDI_SCHEDULED, 2, 0, 0), "HDI_RUNNING"},
        {COMPLETE, make(HDI_COMPLETE, 2, 0, 0), "HDI_RUNNING"},
        {JOIN, make(HDI_IDLE, 2, 0, 0), "HDI_JOIN_INTEREST"},
        {UNJOIN, make(HDI_IDLE, 2, 0, HDI_JOIN_INTEREST), "HDI_JOIN_WAKER"},
        {UNREF, make(HDI_COMPLETE, 0, 0, 0), "refs"},
        {WAKE, make(HDI_COMPLETE, 0, 0, 0), "refs"},
        {DETACH, make(HDI_IDLE, 2, 0, HDI_JOIN_INTEREST | HDI_JOIN_WAKER), "HDI_JOIN_WAKER"},
    };
    expect_deaths(attempts, COUNT(attempts));
}
