/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <signal.h>
#include <sys/mman.h>

#include "ctx/context.h"
#include "ctx/overflow.h"
#include "ctx/stack.h"

TEST_MAIN

static struct hdi_stack_pool pool;
static struct hdi_stack *stack;
static struct hdi_context main_context, fiber_context;
static const hd_site site = {"src/app.c", 42, "main_loop"};

static bool lookup(const void *address, struct hdi_overflow_info *info)
{
    if (!stack || !hdi_stack_guards(stack, address)) return false;
    *info = (struct hdi_overflow_info){
        .id = 17, .name = "parser", .site = &site, .stack_bytes = stack->bytes};
    return true;
}

/* ---- children that die, and what they say ---- */

struct death {
    int status;
    char text[2048];
};

static struct death run_child(void (*body)(void))
{
    struct death death = {0};
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's own handler would speak first */
        signal(SIGBUS, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t n;
    do {
        n = read(ends[0], death.text + length, sizeof(death.text) - 1 - length);
        if (n > 0) length += (size_t)n;
    } while (n > 0);
    close(ends[0]);
    EXPECT(waitpid(pid, &death.status, 0) == pid);
    return death;
}

static int death_signal(const struct death *death)
{
    return WIFSIGNALED(death->status) ? WTERMSIG(death->status) : 0;
}

static struct hdi_overflow_thread thread;

static void install(void)
{
    EXPECT_EQ(hdi_overflow_install(lookup), 0);
    EXPECT_EQ(hdi_overflow_thread_init(&thread), 0);
}

static void uninstall(void)
{
    hdi_overflow_thread_fini(&thread);
    hdi_overflow_uninstall();
}

static __attribute__((noinline)) int recurse(int depth)
{
    volatile char frame[600];
    frame[0] = frame[599] = (char)depth;
    return depth == 1 << 20 ? 0 : recurse(depth + 1) + frame[0];
}

static void overflow_in_fiber(void *arg)
{
    (void)arg;
    hdi_context_entered(&fiber_context);
    (void)recurse(0);
}

static void overflow(void)
{
    EXPECT_EQ(hdi_stack_pool_init(&pool, HD_GUARD_AUTO), 0);
    stack = hdi_stack_take_shared(&pool, 64 << 10);
    EXPECT(stack != NULL);
    install();
    hdi_context_init_thread(&main_context);
    hdi_context_prepare(&fiber_context, stack, overflow_in_fiber, NULL);
    hdi_context_switch(&main_context, &fiber_context);
}

TEST(an_overflow_is_reported_and_fatal)
{
    const struct death death = run_child(overflow);
    EXPECT_EQ(death_signal(&death), SIGSEGV);
    const char *wanted = "heddle: stack overflow in fiber 17 \"parser\" spawned at src/app.c:42 "
                         "(main_loop): 65536 bytes of stack; raise stack_bytes in "
                         "hd_spawn_options\n";
    EXPECT(strncmp(death.text, wanted, strlen(wanted)) == 0); /* qemu adds a line */
}

static void die_of_canary(void)
{
    const struct hdi_overflow_info info = {.id = UINT64_MAX, .stack_bytes = 0};
    hdi_overflow_die(&info);
}

TEST(a_report_does_without_name_and_site)
{
    const struct death death = run_child(die_of_canary);
    EXPECT_EQ(death_signal(&death), SIGABRT);
    EXPECT(strstr(death.text, "heddle: stack overflow in fiber 18446744073709551615: 0 bytes of "
                              "stack; raise stack_bytes in hd_spawn_options\n") == death.text);
}

static void die_in_job(void)
{
    const struct hdi_overflow_info info = {.id = 3, .stack_bytes = 1 << 20, .job = true};
    hdi_overflow_die(&info);
}

TEST(a_report_of_a_job_names_the_option_for_jobs)
{
    const struct death death = run_child(die_in_job);
    EXPECT(strstr(death.text, "1048576 bytes of stack; raise job_stack_bytes in hd_options\n"));
}

static char long_name[4000];

static void report_long_name(void)
{
    memset(long_name, 'x', sizeof(long_name) - 1);
    const struct hdi_overflow_info info = {
        .id = 1, .name = long_name, .stack_bytes = 1};
    hdi_overflow_report(&info);
}

TEST(a_report_that_is_too_long_is_cut)
{
    const struct death death = run_child(report_long_name);
    EXPECT_EQ(death.status, 0);
    EXPECT_EQ(strlen(death.text), 512);
}

/* ---- faults that are not ours ---- */

static void fault(void)
{
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(volatile char *)page = 1;
}

static void fault_with_us_installed(void)
{
    install();
    fault();
}

TEST(other_faults_kill_as_before)
{
    const struct death death = run_child(fault_with_us_installed);
    EXPECT_EQ(death_signal(&death), SIGSEGV);
    EXPECT(!strstr(death.text, "heddle"));
}

static void sent_with_us_installed(void)
{
    install();
    kill(getpid(), SIGSEGV);
    _exit(3);
}

TEST(a_signal_that_was_sent_kills_as_before)
{
    const struct death death = run_child(sent_with_us_installed);
    EXPECT_EQ(death_signal(&death), SIGSEGV);
}

static void handle_info(int number, siginfo_t *what, void *machine)
{
    (void)machine;
    _exit(number == SIGSEGV && what->si_addr ? 21 : 22);
}

static void chain_to_info(void)
{
    struct sigaction action = {.sa_sigaction = handle_info, .sa_flags = SA_SIGINFO};
    EXPECT_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    install();
    fault();
}

static void handle_plain(int number)
{
    _exit(number == SIGBUS ? 23 : 24);
}

static void chain_to_plain(void)
{
    signal(SIGBUS, handle_plain);
    install();
    raise(SIGBUS);
}

static void ignore_sent(void)
{
    signal(SIGBUS, SIG_IGN);
    install();
    raise(SIGBUS);
    _exit(25);
}

TEST(earlier_handlers_get_the_faults_that_are_not_ours)
{
    EXPECT_EQ(WEXITSTATUS(run_child(chain_to_info).status), 21);
    EXPECT_EQ(WEXITSTATUS(run_child(chain_to_plain).status), 23);
    EXPECT_EQ(WEXITSTATUS(run_child(ignore_sent).status), 25);
}

/* ---- installing and leaving ---- */

TEST(the_last_user_restores_what_was_there)
{
    signal(SIGSEGV, handle_plain);
    struct sigaction now;
    EXPECT_EQ(hdi_overflow_install(lookup), 0);
    EXPECT_EQ(hdi_overflow_install(lookup), 0);
    hdi_overflow_uninstall();
    sigaction(SIGSEGV, NULL, &now);
    EXPECT(now.sa_handler != handle_plain);
    EXPECT(now.sa_flags & SA_ONSTACK);
    hdi_overflow_uninstall();
    sigaction(SIGSEGV, NULL, &now);
    EXPECT(now.sa_handler == handle_plain);
    for (int i = 0; i < 3; i++) { /* and again */
        EXPECT_EQ(hdi_overflow_install(lookup), 0);
        hdi_overflow_uninstall();
    }
    sigaction(SIGSEGV, NULL, &now);
    EXPECT(now.sa_handler == handle_plain);
}

TEST(a_handler_installed_above_ours_stays)
{
    EXPECT_EQ(hdi_overflow_install(lookup), 0);
    struct sigaction ours, now;
    struct sigaction theirs = {.sa_handler = handle_plain};
    EXPECT_EQ(sigaction(SIGSEGV, &theirs, &ours), 0);
    hdi_overflow_uninstall();
    sigaction(SIGSEGV, NULL, &now);
    EXPECT(now.sa_handler == handle_plain);
    EXPECT_EQ(sigaction(SIGSEGV, &ours, NULL), 0); /* they leave: we are back, unused */
    EXPECT_EQ(hdi_overflow_install(lookup), 0);    /* and must not chain to ourselves */
    struct death death = run_child(fault);
    EXPECT_EQ(death_signal(&death), SIGSEGV);
    hdi_overflow_uninstall();
}

TEST(a_thread_keeps_the_signal_stack_it_had)
{
    static char mine[64 << 10];
    stack_t now, own = {.ss_sp = mine, .ss_size = sizeof(mine)};
    const stack_t none = {.ss_flags = SS_DISABLE};
    EXPECT_EQ(sigaltstack(&none, NULL), 0);
    install();
    EXPECT_EQ(sigaltstack(NULL, &now), 0);
    EXPECT(now.ss_sp == thread.base && !(now.ss_flags & SS_DISABLE));
    uninstall();
    EXPECT_EQ(sigaltstack(NULL, &now), 0);
    EXPECT(now.ss_flags & SS_DISABLE);
    EXPECT_EQ(sigaltstack(&own, NULL), 0);
    install();
    uninstall();
    EXPECT_EQ(sigaltstack(NULL, &now), 0);
    EXPECT(now.ss_sp == mine);
}
