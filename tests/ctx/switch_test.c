/* SPDX-License-Identifier: MIT
 *
 * The contract of the context switch (ctx/switch.h, ctx/jump.h), register by register.
 */
#include "test.h"

#include <elf.h>
#include <fenv.h>
#include <link.h>
#include <pthread.h>
#include <unwind.h>
#ifdef HDI_TEST_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

#include "ctx/context.h"
#include "ctx/fp.h"
#include "ctx/switch.h"

TEST_MAIN

static struct hdi_stack_pool pool;
static struct hdi_context main_context, fiber_context;

static struct hdi_stack *new_stack(void)
{
    if (pool.page_bytes == 0) EXPECT_EQ(hdi_stack_pool_init(&pool, HD_GUARD_AUTO), 0);
    struct hdi_stack *stack = hdi_stack_take_shared(&pool, 64 << 10);
    EXPECT(stack != NULL);
    return stack;
}

/* Run entry(arg) in fiber_context until it first switches back. */
static void enter(void (*entry)(void *), void *arg)
{
    hdi_context_init_thread(&main_context);
    hdi_context_prepare(&fiber_context, new_stack(), entry, arg);
    hdi_context_switch(&main_context, &fiber_context);
}

static void back(void)
{
    hdi_context_switch(&fiber_context, &main_context);
}

static void leave(void)
{
    hdi_context_exit(&fiber_context, &main_context);
}

/* ---- SWITCH-1: callee-saved registers ---- */

/* uint64_t hold(void **save, void *load, void *pass, uint64_t seed, void **passed):
 * fill every callee-saved register with seed + n, call hdi_switch(save, load, pass), and
 * return a bit for every register that came back different. */
uint64_t hold(void **save, void *load, void *pass, uint64_t seed, void **passed);

#if defined(__x86_64__)
#define HELD 6
__asm__(".text\n"
        ".globl hold\n"
        ".type hold, @function\n"
        "hold:\n"
        "  pushq %rbx\n  pushq %rbp\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  pushq %r8\n"          /* passed */
        "  pushq %rcx\n"         /* seed */
        "  subq $8, %rsp\n"      /* 16-aligned at the call */
        "  leaq 0(%rcx), %rbx\n"
        "  leaq 1(%rcx), %rbp\n"
        "  leaq 2(%rcx), %r12\n"
        "  leaq 3(%rcx), %r13\n"
        "  leaq 4(%rcx), %r14\n"
        "  leaq 5(%rcx), %r15\n"
        "  call hdi_switch\n"
        "  addq $8, %rsp\n"
        "  popq %rcx\n"
        "  popq %r8\n"
        "  movq %rax, (%r8)\n"
        "  xorl %eax, %eax\n"
        "  subq %rcx, %rbx\n  cmpq $0, %rbx\n  je 1f\n  orq $1, %rax\n1:"
        "  subq %rcx, %rbp\n  cmpq $1, %rbp\n  je 1f\n  orq $2, %rax\n1:"
        "  subq %rcx, %r12\n  cmpq $2, %r12\n  je 1f\n  orq $4, %rax\n1:"
        "  subq %rcx, %r13\n  cmpq $3, %r13\n  je 1f\n  orq $8, %rax\n1:"
        "  subq %rcx, %r14\n  cmpq $4, %r14\n  je 1f\n  orq $16, %rax\n1:"
        "  subq %rcx, %r15\n  cmpq $5, %r15\n  je 1f\n  orq $32, %rax\n1:"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbp\n  popq %rbx\n"
        "  ret\n"
        ".size hold, .-hold\n");
#elif defined(__aarch64__)
#define HELD 19
#define SET_X(r, n) "  add x" #r ", x3, #" #n "\n"
#define SET_D(r, n) "  add x9, x3, #" #n "\n  fmov d" #r ", x9\n"
#define CHECK_X(r, n) \
    "  sub x9, x" #r ", x3\n  cmp x9, #" #n "\n  cset x9, ne\n  orr x0, x0, x9, lsl #" #n "\n"
#define CHECK_D(r, n) "  fmov x9, d" #r "\n  sub x9, x9, x3\n  cmp x9, #" #n "\n" \
    "  cset x9, ne\n  orr x0, x0, x9, lsl #" #n "\n"
__asm__(".text\n"
        ".globl hold\n"
        ".type hold, %function\n"
        "hold:\n"
        "  sub sp, sp, #176\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n  stp x3, x4, [sp, #160]\n"
        SET_X(19, 0) SET_X(20, 1) SET_X(21, 2) SET_X(22, 3) SET_X(23, 4) SET_X(24, 5)
        SET_X(25, 6) SET_X(26, 7) SET_X(27, 8) SET_X(28, 9) SET_X(29, 10)
        SET_D(8, 11) SET_D(9, 12) SET_D(10, 13) SET_D(11, 14)
        SET_D(12, 15) SET_D(13, 16) SET_D(14, 17) SET_D(15, 18)
        "  bl hdi_switch\n"
        "  ldp x3, x4, [sp, #160]\n"
        "  str x0, [x4]\n"
        "  mov x0, #0\n"
        CHECK_X(19, 0) CHECK_X(20, 1) CHECK_X(21, 2) CHECK_X(22, 3) CHECK_X(23, 4)
        CHECK_X(24, 5) CHECK_X(25, 6) CHECK_X(26, 7) CHECK_X(27, 8) CHECK_X(28, 9)
        CHECK_X(29, 10) CHECK_D(8, 11) CHECK_D(9, 12) CHECK_D(10, 13) CHECK_D(11, 14)
        CHECK_D(12, 15) CHECK_D(13, 16) CHECK_D(14, 17) CHECK_D(15, 18)
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #176\n"
        "  ret\n"
        ".size hold, .-hold\n");
#endif

static void *main_sp, *fiber_sp;
static uint64_t fiber_broken;
static int fiber_rounds;

static void hold_in_fiber(void *arg)
{
    EXPECT(arg == &fiber_rounds);
    for (uintptr_t i = 1;; i++) {
        void *passed = NULL;
        fiber_broken |= hold(&fiber_sp, main_sp, (void *)(i * 2), UINT64_C(0x1111111100000000) * i,
                             &passed);
        EXPECT_EQ((uintptr_t)passed, i * 3);
        fiber_rounds++;
    }
}

TEST(callee_saved_registers_and_the_pass_value_survive_both_ways)
{
    if (!HDI_CONTEXT_JUMPS) test_skip("hdi_switch() bare would confuse the sanitizer");
    fiber_sp = hdi_switch_prepare(new_stack()->top, hold_in_fiber, &fiber_rounds);
    for (uintptr_t i = 0; i < 100; i++) {
        void *passed = NULL;
        EXPECT_EQ(hold(&main_sp, fiber_sp, (void *)(i * 3), ~UINT64_C(0) - 1000 * i, &passed), 0);
        EXPECT_EQ((uintptr_t)passed, (i + 1) * 2);
        EXPECT_EQ(fiber_broken, 0);
    }
    EXPECT_EQ(fiber_rounds, 99);
}

/* More values than there are registers of either kind, alive across the switch. */
static uint64_t churn(uint64_t seed, bool in_fiber)
{
    uint64_t a[20];
    double d[20];
    long double x[4];
    for (int i = 0; i < 20; i++) a[i] = seed * (uint64_t)(i + 1), d[i] = (double)a[i] / 3;
    for (int i = 0; i < 4; i++) x[i] = (long double)a[i] / 7;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 20; i++) a[i] += a[(i + 1) % 20], d[i] += 1;
        for (int i = 0; i < 4; i++) x[i] += 1;
        if (in_fiber) {
            back();
        } else {
            hdi_context_switch(&main_context, &fiber_context);
        }
    }
    uint64_t sum = 0;
    for (int i = 0; i < 20; i++) sum = sum * 31 + a[i] + (uint64_t)(int64_t)d[i];
    for (int i = 0; i < 4; i++) sum = sum * 31 + (uint64_t)(int64_t)x[i];
    return sum;
}

static void churn_in_fiber(void *arg)
{
    hdi_context_entered(&fiber_context);
    back();
    for (;;) *(uint64_t *)arg = churn(77, true);
}

TEST(whatever_lives_in_registers_survives_a_context_switch)
{
    uint64_t in_fiber = 0, first = 0;
    enter(churn_in_fiber, &in_fiber);
    for (int i = 0; i < 10; i++) {
        const uint64_t in_main = churn(1234, false);
        if (i == 0) first = in_main;
        EXPECT(in_main == first);
    }
    EXPECT(in_fiber != 0);
    const uint64_t once = in_fiber;
    for (int i = 0; i < 500; i++) hdi_context_switch(&main_context, &fiber_context);
    EXPECT(in_fiber == once);
}

/* ---- JUMP-3: the compiler must not keep statics in registers across a switch ---- */

static int changed_by_main;

static __attribute__((noinline)) void wait_once(void)
{
    back();
}

static void watch(void *arg)
{
    hdi_context_entered(&fiber_context);
    while (changed_by_main == 0) wait_once();
    *(int *)arg = changed_by_main;
    leave();
}

TEST(statics_changed_by_others_are_seen_after_a_switch)
{
    int seen = 0;
    enter(watch, &seen);
    changed_by_main = 5;
    hdi_context_switch(&main_context, &fiber_context);
    EXPECT_EQ(seen, 5);
    hdi_context_fini(&fiber_context);
}

/* ---- SWITCH-2: entry ---- */

static void check_entry(void *arg)
{
    hdi_context_entered(&fiber_context);
    EXPECT_EQ((uintptr_t)__builtin_frame_address(0) % 16, 0);
    volatile _Alignas(16) char block[32];
    EXPECT_EQ((uintptr_t)block % 16, 0);
#if defined(__x86_64__)
    __asm__ volatile("pxor %%xmm0, %%xmm0\n\t"
                     "movaps %%xmm0, %0" /* faults unless aligned */
                     : "=m"(*(char(*)[16])block)
                     :
                     : "xmm0");
#endif
    char text[64];
    snprintf(text, sizeof(text), "%.2f %d %.2Lf", 1.25, 7, 2.5L); /* spills xmm registers aligned */
    EXPECT(strcmp(text, "1.25 7 2.50") == 0);
    *(int *)arg += 1;
    leave();
}

TEST(a_new_context_gets_its_argument_on_an_aligned_stack)
{
    int entered = 0;
    for (int i = 0; i < 40; i++) { /* every colour */
        enter(check_entry, &entered);
        hdi_context_fini(&fiber_context);
    }
    EXPECT_EQ(entered, 40);
}

/* ThreadSanitizer knows about 8,000 fibers at a time: leaking them would show. */
TEST(contexts_can_be_made_and_ended_without_end)
{
    struct hdi_stack *stack = new_stack();
    int entered = 0;
    for (int i = 0; i < 20000; i++) {
        hdi_context_init_thread(&main_context);
        hdi_context_prepare(&fiber_context, stack, check_entry, &entered);
        if (i % 2) hdi_context_switch(&main_context, &fiber_context); /* others never run */
        hdi_context_fini(&fiber_context);
    }
    EXPECT_EQ(entered, 10000);
}

/* ---- moving between threads ---- */

static struct hdi_context *resume_to;
static pid_t seen_on[2]; /* pthread_self() is const: compilers ask once per function */

static void travel(void *arg)
{
    (void)arg;
    hdi_context_entered(&fiber_context);
    for (int i = 0; i < 2; i++) {
        seen_on[i] = gettid();
        hdi_context_switch(&fiber_context, resume_to);
    }
    hdi_context_exit(&fiber_context, resume_to);
}

static void *resume_here(void *arg)
{
    (void)arg;
    struct hdi_context here;
    hdi_context_init_thread(&here);
    resume_to = &here;
    hdi_context_switch(&here, &fiber_context);
    resume_to = NULL;
    return NULL;
}

TEST(a_context_continues_on_another_thread)
{
    hdi_context_prepare(&fiber_context, new_stack(), travel, NULL);
    resume_here(NULL);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, resume_here, NULL), 0);
        pthread_join(thread, NULL);
    }
    EXPECT_EQ(seen_on[0], gettid());
    EXPECT(seen_on[1] != 0 && seen_on[1] != gettid());
    hdi_context_fini(&fiber_context);
}

/* ---- SWITCH-3: FP control words ---- */

static void set_rounding(void *arg)
{
    (void)arg;
    hdi_context_entered(&fiber_context);
    for (;;) {
        fesetround(FE_UPWARD);
        back();
    }
}

static bool same(struct hdi_fp_control a, struct hdi_fp_control b)
{
#if defined(__x86_64__)
    const uint32_t sticky = 0x3f; /* exception flags, not control */
    return (a.mxcsr | sticky) == (b.mxcsr | sticky) && a.x87 == b.x87;
#else
    return a.fpcr == b.fpcr;
#endif
}

TEST(control_words_are_shared_unless_saved)
{
    EXPECT_EQ(fegetround(), FE_TONEAREST);
    enter(set_rounding, NULL);
    EXPECT_EQ(fegetround(), FE_UPWARD);
    fesetround(FE_DOWNWARD);
    struct hdi_fp_control mine, theirs;
    hdi_fp_save(&mine);
    hdi_context_switch(&main_context, &fiber_context);
    hdi_fp_save(&theirs);
    hdi_fp_load(&mine);
    EXPECT_EQ(fegetround(), FE_DOWNWARD);
    EXPECT(!same(mine, theirs));
    struct hdi_fp_control now;
    hdi_fp_save(&now);
    EXPECT(same(mine, now));
    volatile double one = 1, three = 3, down, up; /* volatile: not moved past the loads */
    down = one / three;
    hdi_fp_load(&theirs);
    up = one / three;
    EXPECT_EQ(fegetround(), FE_UPWARD);
    EXPECT(up > down);
#if defined(__x86_64__)
    EXPECT_EQ(theirs.x87 >> 10 & 3, 2); /* x87 rounding: up */
    EXPECT_EQ(theirs.mxcsr >> 13 & 3, 2);
#endif
}

/* ---- unwinding ---- */

struct walk {
    int frames;
    bool saw_entry, ended;
};

static void unwind_entry(void *arg);

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *arg)
{
    struct walk *walk = arg;
    walk->frames++;
    void *function = _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context));
    if (function == __extension__(void *)unwind_entry) walk->saw_entry = true;
    return walk->frames < 50 ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

static __attribute__((noinline)) void unwind_here(struct walk *walk)
{
    walk->ended = _Unwind_Backtrace(step, walk) == _URC_END_OF_STACK;
}

#ifdef HDI_TEST_LIBUNWIND
static __attribute__((noinline)) void unwind_with_libunwind(struct walk *walk)
{
    unw_context_t machine;
    unw_cursor_t cursor;
    unw_getcontext(&machine);
    unw_init_local(&cursor, &machine);
    int more;
    do {
        char name[64] = "";
        unw_word_t offset;
        (void)unw_get_proc_name(&cursor, name, sizeof(name), &offset);
        if (strcmp(name, "unwind_entry") == 0) walk->saw_entry = true;
        walk->frames++;
        more = unw_step(&cursor);
    } while (more > 0 && walk->frames < 50);
    walk->ended = more == 0;
}
#endif

static struct walk walks[2];

static __attribute__((noinline)) void unwind_entry(void *arg)
{
    (void)arg;
    hdi_context_entered(&fiber_context);
    unwind_here(&walks[0]);
#ifdef HDI_TEST_LIBUNWIND
    unwind_with_libunwind(&walks[1]);
#endif
    back();
}

TEST(unwinders_see_the_entry_function_and_stop)
{
    enter(unwind_entry, NULL);
    EXPECT(walks[0].saw_entry);
    EXPECT(walks[0].ended);
    EXPECT(walks[0].frames >= 2 && walks[0].frames <= 6);
#ifdef HDI_TEST_LIBUNWIND
    EXPECT(walks[1].saw_entry);
    EXPECT(walks[1].ended);
    EXPECT(walks[1].frames >= 2 && walks[1].frames <= 6);
#endif
}

/* ---- gdb ---- */

void gdb_probe(void);

__attribute__((noinline)) void gdb_probe(void)
{
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void gdb_entry(void *arg)
{
    hdi_context_entered(&fiber_context);
    gdb_probe();
    (void)arg;
    leave();
}

/* With this variable set the program is only something for gdb to look at. */
__attribute__((constructor)) static void gdb_program(void)
{
    if (!getenv("HEDDLE_TEST_GDB")) return;
    enter(gdb_entry, NULL);
    _exit(0);
}

static void read_command(const char *command, char *text, size_t size)
{
    FILE *pipe = popen(command, "r");
    EXPECT(pipe != NULL);
    const size_t length = fread(text, 1, size - 1, pipe);
    text[length] = '\0';
    (void)pclose(pipe);
}

TEST(gdb_shows_the_functions_of_a_fiber_and_stops)
{
    if (system("command -v gdb >/dev/null") != 0) test_skip("no gdb");
    char self[512], command[1024], text[16384];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    EXPECT(length > 0);
    self[length] = '\0';
    snprintf(command, sizeof(command),
             "HEDDLE_TEST_GDB=1 ASAN_OPTIONS=detect_leaks=0 timeout 60 gdb -q -nx -batch "
             "-ex 'set debuginfod enabled off' -ex 'break gdb_probe' -ex run -ex bt '%s' 2>&1",
             self);
    read_command(command, text, sizeof(text));
    const char *bt = strstr(text, "#0 ");
    if (!bt) test_skip("gdb cannot run programs here");
    EXPECT(strstr(bt, "gdb_probe") && strstr(bt, "gdb_entry"));
    EXPECT(!strstr(bt, "corrupt") && !strstr(bt, "Backtrace stopped") && !strstr(bt, "??"));
    EXPECT(!strstr(bt, "main ("));
}

/* ---- the program itself ---- */

static int find_stack_header(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_GNU_STACK) *(uint32_t *)arg = header->p_flags;
    }
    return 1; /* the first is this program */
}

/* One object without .note.GNU-stack would make it executable. */
TEST(the_stack_is_not_executable)
{
    uint32_t flags = 0;
    dl_iterate_phdr(find_stack_header, &flags);
    EXPECT(flags & PF_W);
    EXPECT(!(flags & PF_X));
}
