# SPDX-License-Identifier: MIT
"""What the benchmark compares, and the targets: the one list that bench/run works through.

A Sample is one command: a program and its arguments. A Row compares one number of two
samples, or two numbers of one sample. Rows of one group share their samples, which are
interleaved round by round.
"""

import re
from typing import NamedTuple, Optional

PROGRAMS = {  # side: (name in the table, path below build/)
    "heddle": ("Heddle", "bench/bench/heddle_bench"),
    "go": ("Go", "bench-peers/go_bench"),
    "tokio": ("Tokio", "bench-peers/tokio_bench"),
    "boost": ("Boost", "bench-peers/boost_bench"),
    "libuv": ("libuv", "bench-peers/libuv_bench"),
    "serial": ("serial C", "bench-peers/serial_bench"),
    "tbb": ("oneTBB", "bench-peers/tbb_bench"),
    "openmp": ("OpenMP", "bench-peers/openmp_bench"),
    "rayon": ("rayon", "bench-peers/rayon_bench"),
    "load": ("", "bench/bench/io_load"),  # starts the servers it is told to
    "explore": ("", "bench/bench/explore_bench"),
}
FORK_PEERS = ("serial", "tbb", "openmp", "rayon")  # of the fork-join rows


class Sample(NamedTuple):
    side: str
    args: str  # the row of the program and its parameters


class Row(NamedTuple):
    section: str
    name: str
    subject: Sample  # ours, as a rule
    against: Optional[Sample]  # None: a figure without a comparison
    against_name: str
    metric: str = "ns"
    against_metric: Optional[str] = None  # None: the same
    ratio_max: Optional[float] = None  # target: subject / against
    value_max: Optional[float] = None  # target: subject, in the metric's unit
    exact: bool = False  # target: subject == against, in every round
    group: str = ""
    slow: bool = False  # nearly a second long: few rounds
    heavy: bool = False  # seconds long: few rounds, after one that is thrown away
    once: bool = False  # a minute long: one round

    @property
    def id(self):
        parts = filter(None, (self.section, self.name, self.against_name))
        return "/".join(re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts)


def versus(section, name, args, kind=None, heavy=False, extra="", **targets):
    """Our row, with extra arguments, against the same row of each peer named in targets
    (None: no target)."""
    ours = Sample("heddle", " ".join(filter(None, (args, kind and f"kind={kind}", extra))))
    return [
        Row(section, name, ours, Sample(peer, args), PROGRAMS[peer][0], ratio_max=target,
            group=f"{section} {name}", heavy=heavy)
        for peer, target in targets.items()
    ]


def spawn_rows(section, kind, others, peer, target_1, target_2):
    """Spawn and join; `others` have rows from inside the runtime only."""
    rows = []
    for workers, target in ((1, target_1), (2, target_2)):
        for name, args, inside in (
            ("one by one", "spawn_one", True),
            ("batches of 1000", "spawn_batch", True),
            ("foreign thread, one by one", "spawn_foreign", False),
            ("foreign thread, batches", "spawn_foreign_batch", False),
        ):
            extra = {other: None for other in others if inside}
            rows += versus(section, f"{name}, {workers}w", f"{args} workers={workers}", kind,
                           **{peer: target}, **extra)
    return rows


def scale_rows(subject_side, name, args, target):
    """More workers than needed, each figure against the same program with one worker."""
    section = "more workers than needed"
    return [
        Row(section, f"{name}, {workers}w", Sample(subject_side, f"{args} workers={workers}"),
            Sample(subject_side, f"{args} workers=1"), "1 worker", ratio_max=target,
            group=f"{section} {name}")
        for workers in (2, 4, 16)
    ]


def steal_rows(name, args, ratio_max=None, value_max=None):
    """Against the kernel's own wake-up of a sleeping thread on another CPU."""
    section = "steal latency"
    ours, futex = Sample("heddle", args), Sample("heddle", "futex")
    return [
        Row(section, f"{name}, median", ours, futex, "futex wake", ratio_max=ratio_max,
            value_max=value_max, group=section),
        Row(section, f"{name}, p99", ours, futex, "futex wake", metric="ns_p99", group=section),
    ]


def parked_rows(name, kind, peer, bytes_metric, bytes_max):
    """A million alive at the same time: what they cost to hold, and to create and wake."""
    section = "a million"
    args = "million_parked workers=2"
    ours, theirs = Sample("heddle", f"{args} kind={kind}"), Sample(peer, args)
    shared = dict(group=f"{section} parked {name}", heavy=True)
    return [
        Row(section, f"{name}: create, park all, wake all, 2w", ours, theirs,
            PROGRAMS[peer][0], **shared),
        Row(section, f"{name}: resident bytes each, parked", ours, theirs, PROGRAMS[peer][0],
            metric=bytes_metric, value_max=bytes_max, **shared),
    ]


def late_rows(section, name, args, **targets):
    """How late something is, median and p99, against each peer named in targets."""
    return [
        Row(section, f"{name}, {label}", Sample("heddle", args), Sample(peer, args),
            PROGRAMS[peer][0], metric=metric, ratio_max=target if metric == "ns" else None,
            group=f"{section} {name}")
        for metric, label in (("ns", "median"), ("ns_p99", "p99"))
        for peer, target in targets.items()
    ]


def stream_rows(capacity, target_2=None, **others):
    """One way from task to task; the target is against Go with two workers."""
    name = "rendezvous" if capacity == 0 else f"room for {capacity}"
    return [
        row
        for workers, target in ((1, None), (2, target_2))
        for row in versus(CHANNELS, f"one way, {name}, {workers}w",
                          f"chan_stream workers={workers} cap={capacity}", go=target, **others)
    ]


def nursery_rows(workers):
    """Open, 8 children, close: ours of both kinds against each peer."""
    args = f"nursery workers={workers}"
    return [
        Row(STRUCTURE, f"nursery of 8 {label}, {workers}w", Sample("heddle", f"{args} kind={kind}"),
            Sample(peer, args), PROGRAMS[peer][0], ratio_max=0.5, group=f"{STRUCTURE} {workers}w")
        for kind, label in (("fiber", "fibers"), ("task", "stackless"))
        for peer in ("go", "tokio")
    ]


def budget_rows(name, args):
    """What a budget costs, against the same without one, both measured by turns in one process."""
    ours = Sample("heddle", args)
    return [Row("budget on against off", name, ours, ours, "off", against_metric="ns_base",
                ratio_max=1.02, group=f"budgets {name}")]


def victim_rows(checkpoint):
    """How late a task runs that wants to every millisecond, beside tasks that never stop."""
    section = f"lateness among hogs {'with' if checkpoint else 'without'} checkpoints, p99"
    rows = []
    for hogs in (1, 4, 64):
        args = f"victim workers=2 hogs={hogs} checkpoint={checkpoint}"
        name = f"{hogs} hog{'s' if hogs > 1 else ''} per worker, 2w"
        rows += [Row(section, name, Sample("heddle", args), Sample(peer, args), PROGRAMS[peer][0],
                     metric="ns_p99", group=f"{section} {name}", slow=True)
                 for peer in ("go", "tokio")]
    return rows


def limit_rows(name, what, args, metric, stop=None):
    """How far a bomb or a flood got, which is to be the limit, and how long its end took."""
    ours = Sample("heddle", args)
    rows = [Row(LIMITS, f"{name}: {what}", ours, ours, "limit", metric=metric,
                against_metric=f"{metric}_limit", exact=True, group=f"{LIMITS} {name}", slow=True)]
    if stop:
        rows.append(Row(LIMITS, f"{name}: {stop}", ours, None, "", group=f"{LIMITS} {name}",
                        slow=True))
    return rows


def fork_rows(name, args, peers=FORK_PEERS, slow=(), targets_1=None, targets_2=None, turns=False):
    """Ours against each peer, with one worker and with two; then our two against our one, unless
    turn_rows() has that. The peers in `slow` have a group of their own, with fewer rounds."""
    def shared(is_slow):
        return dict(group=f"{FORK} {name}{' slow' if is_slow else ''}", slow=is_slow)

    rows = []
    for workers, targets in ((1, targets_1 or {}), (2, targets_2 or {})):
        sized = f"{args} workers={workers}"
        rows += [Row(FORK, f"{name}, {workers}w", Sample("heddle", sized),
                     Sample(peer, args if peer == "serial" else sized), PROGRAMS[peer][0],
                     ratio_max=targets.get(peer), **shared(peer in slow))
                 for peer in peers]
    one, two = (Sample("heddle", f"{args} workers={workers}") for workers in (1, 2))
    if not turns:
        rows.append(Row(FORK, f"{name}, 2w", two, one, "1 worker", **shared("serial" in slow)))
    return sorted(rows, key=lambda row: row.slow)


def turn_rows(name, args, serial_max=None, slow=False):
    """Our one worker against serial C, if that has a target; our two against our one; and our one
    twice at once, which is what the machine allows. All by turns in one process."""
    ours = Sample("heddle", args)
    rows = [("1w", "ns_one", "serial C", "ns_serial", serial_max)] if serial_max else []
    rows += [("2w", "ns", "1 worker", "ns_one", FASTER_BY_1_8),
             ("1w twice at once", "ns_twice", "1 worker", "ns_one", None)]
    return [Row(FORK, f"{name} by turns, {what}", ours, ours, against, metric=metric,
                against_metric=against_metric, ratio_max=target, group=f"{FORK} {name} by turns",
                slow=slow)
            for what, metric, against, against_metric, target in rows]


def server_rows(section, name, args, peers, metric="ns", turns=False, group=None):
    """Our servers by io_uring and by epoll, each against the servers of `peers`: (server, name in
    the table): target. The targets are for the driver that a runtime takes by itself. One process
    drives all of them by turns, or a process each. Rows of the same samples share a group."""
    ours = [f"heddle_{driver}" for driver in IO_DRIVERS]
    all_servers = ",".join(ours + [server for server, _ in peers])

    def sample(server):
        return Sample("load", f"{args} server={all_servers if turns else server}")

    def key(server):
        return f"{metric}_{server}" if turns else metric

    return [
        Row(section, f"{name}, {driver}", sample(us), sample(server), shown, metric=key(us),
            against_metric=key(server), ratio_max=target if driver == IO_CHOSEN else None,
            group=group or f"{section} {name}", slow=not turns)
        for driver, us in zip(IO_DRIVERS, ours)
        for (server, shown), target in peers.items()
    ]


def echo_rows(conns, size, bytes_each, targets):
    """Server CPU of an echo; the targets are of rates (0.95, 1, 1, 1.1), so these are their
    inverses."""
    limit = dict(zip(("raw", "libuv", "tokio", "go"),
                     (1.052, 1.0, 1.0, 0.909) if targets else (None,) * 4))
    return server_rows("io: echo, server CPU", f"{conns} x {size}",
                       f"echo conns={conns} bytes={bytes_each}",
                       {RAW: limit["raw"], ("raw_epoll", "raw epoll"): None,
                        LIBUV: limit["libuv"], TOKIO: limit["tokio"], GO: limit["go"],
                        ("heddle_copy", "copying"): None},
                       turns=True)


def connect_rows():
    """Connections that come and go: what each costs the server, and how long it takes, which is the
    inverse of the rate; of the same turns."""
    peers = {RAW: None, LIBUV: None, TOKIO: None, GO: None}
    return [
        row
        for section, metric in (("io: connections, server CPU", "ns"),
                                ("io: connections, time for each", "ns_each"))
        for row in server_rows(section, "connect and close", "connect conns=64", peers, metric,
                               turns=True, group="io: connections")
    ]


def idle_rows():
    """Resident bytes of a server for each connection that has nothing to do."""
    rows = server_rows("io: idle connections", "resident bytes each of 10,000",
                       "idle conns=10000", {GO: None, TOKIO: None, LIBUV: None}, metric="bytes")
    return [row._replace(value_max=5 << 10) if row.against_name == GO[1] else row for row in rows]


def file_rows():
    """Reading what is in the page cache, piece by piece, in one task."""
    plain = (Sample("heddle", "pread"), "pread")
    others = [(Sample(peer, "file_read"), PROGRAMS[peer][0]) for peer in ("libuv", "tokio", "go")]
    return [
        Row("io: files", f"read of 64 KiB, cached, {driver}",
            Sample("heddle", f"file_read io={driver}"), against, shown, group="io: files")
        for driver in ("uring", "epoll") for against, shown in (plain, *others)
    ]


def explore_rows():
    """The explorer: its speed, how soon it finds the bugs of the corpus, and how small they get."""
    samplers = ("portfolio", "random", "pct:3", "pos", "urw", "all:2")
    corpus, shrink = Sample("explore", "corpus"), Sample("explore", "shrink")
    found = dict(group="explore corpus", once=True)
    return [
        *[Row(EXPLORE, f"a schedule of 40 steps, {sampler}",
              Sample("explore", f"speed sampler={sampler}"), None, "",
              value_max=2000 if sampler in ("portfolio", "random") else None,
              group="explore speed")
          for sampler in samplers],
        Row(EXPLORE, "programs that the portfolio misses", corpus, corpus, "of all",
            metric="count_missed_portfolio", against_metric="count_programs", ratio_max=0.05,
            **found),
        Row(EXPLORE, "schedules to the bug, worst program", corpus, corpus, "best",
            metric="count_portfolio", against_metric="count_best", ratio_max=4.0, **found),
        *[Row(EXPLORE, f"{what}, {sampler}", corpus, None, "", metric=f"{metric}_{sampler}",
              **found)
          for what, metric in (("programs missed", "count_missed"),
                               ("schedules to the bug, median", "count_median"),
                               ("a schedule of the corpus", "ns"))
          for sampler in samplers],
        Row(EXPLORE, "a step of 256 tasks in 32 steps, cohorts", Sample("heddle", "cohort"),
            Sample("heddle", "cohort"), "random", against_metric="ns_base", ratio_max=1.0,
            group="explore cohort"),
        Row(EXPLORE, "shrinking: replays, most", shrink, None, "", metric="count_replays",
            value_max=200, group="explore shrink", once=True),
        Row(EXPLORE, "shrinking: switches over the minimum, most", shrink, None, "",
            metric="count_beyond", value_max=1, group="explore shrink", once=True),
    ]


IO_DRIVERS = ("uring", "epoll")
IO_CHOSEN = "uring"  # what our runtime takes if it is not told
RAW, LIBUV, TOKIO, GO = (("raw_uring", "raw uring"), ("libuv", "libuv"), ("tokio", "Tokio"),
                         ("go", "Go"))

FIBER, TASK = "spawn+join, fiber", "spawn+join, stackless task"
WAKE = "wakes"
CHANNELS, LOCKS, TIMERS = "channels", "locks", "timers"
STRUCTURE, LIMITS = "structure", "limits"
FORK = "fork-join"
EXPLORE = "explorer"
TASKS = ("tbb", "openmp")  # seconds, where others take fractions of one
FASTER_BY_1_8 = 0.555

ROWS = [
    *versus("switch", "raw switch", "switch", boost=0.5),
    *versus("switch", "yield, 1w", "yield workers=1", go=0.25, tokio=None, boost=None),

    *spawn_rows(FIBER, "fiber", ["boost"], "go", 0.15, 0.25),
    *spawn_rows(TASK, "task", [], "tokio", 0.15, 0.25),

    *versus("chained spawn", "fiber, 1w", "chain workers=1", "fiber", go=None),
    *versus("chained spawn", "fiber, 2w", "chain workers=2", "fiber", go=None),
    *versus("chained spawn", "stackless task, 1w", "chain workers=1", "task", tokio=None),
    *versus("chained spawn", "stackless task, 2w", "chain workers=2", "task", tokio=None),

    *versus(WAKE, "fiber ping-pong, 1w", "pingpong workers=1", "fiber", go=0.15, boost=None),
    *versus(WAKE, "fiber ping-pong, 2w", "pingpong workers=2", "fiber", go=1.0),
    *versus(WAKE, "fiber ping-pong, a thread each", "pingpong_threads workers=2", "fiber",
            go=1.0),
    Row(WAKE, "fiber ping-pong, a thread each",
        Sample("heddle", "pingpong_threads workers=2 kind=fiber"),
        Sample("heddle", "futex_pingpong"), "futex",
        group=f"{WAKE} fiber ping-pong, a thread each"),
    *versus(WAKE, "stackless ping-pong, 1w", "pingpong workers=1", "task", tokio=None),
    *versus(WAKE, "stackless ping-pong, 2w", "pingpong workers=2", "task", tokio=None),
    *versus(WAKE, "stackless ping-pong, a thread each", "pingpong_threads workers=2", "task",
            tokio=None),
    *versus(WAKE, "ring of 1000 fibers, hop, 1w", "ring workers=1", "fiber", go=0.25),
    *versus(WAKE, "ring of 1000 fibers, hop, 2w", "ring workers=2", "fiber", go=0.25),
    *versus(WAKE, "ring of 1000 stackless, hop, 1w", "ring workers=1", "task", tokio=None),
    *versus(WAKE, "ring of 1000 stackless, hop, 2w", "ring workers=2", "task", tokio=None),

    *steal_rows("searching thief", "steal_searching", value_max=2000),
    *steal_rows("parked thief", "steal_parked", ratio_max=1.2),

    *versus("a million", "fibers: create and finish, 1w", "million workers=1", "fiber",
            heavy=True, go=0.25),
    *versus("a million", "fibers: create and finish, 2w", "million workers=2", "fiber",
            heavy=True, go=0.25),
    *versus("a million", "stackless: create and finish, 1w", "million workers=1", "task",
            heavy=True, tokio=None),
    *versus("a million", "stackless: create and finish, 2w", "million workers=2", "task",
            heavy=True, tokio=None),
    *parked_rows("fibers", "fiber", "go", "bytes", 4608),
    *parked_rows("stackless", "task", "tokio", "bytes_beyond_state", 256),

    *versus(CHANNELS, "rendezvous round trip, 1w", "chan_pingpong workers=1", go=0.2, tokio=0.3),
    *versus(CHANNELS, "rendezvous round trip, 2w", "chan_pingpong workers=2", go=None,
            tokio=None),
    *stream_rows(0),
    *stream_rows(1, tokio=None),
    *stream_rows(1024, target_2=0.5, tokio=None),
    *versus(CHANNELS, "4 producers, 4 consumers, 2w", "chan_mpmc workers=2", go=0.6, tokio=None),
    *versus(CHANNELS, "select of 2, 1w", "select workers=1 cases=2", go=0.5, tokio=None),
    *versus(CHANNELS, "select of 16, 1w", "select workers=1 cases=16", go=None, tokio=None),
    *versus(CHANNELS, "oneshot exchange, 1w", "oneshot workers=1", go=None, tokio=None),
    *versus(CHANNELS, "oneshot exchange, 2w", "oneshot workers=2", go=None, tokio=None),
    *versus(CHANNELS, "broadcast to 4, 1w", "broadcast workers=1", go=None, tokio=None),
    *versus(CHANNELS, "broadcast to 4, 2w", "broadcast workers=2", go=None, tokio=None),
    *versus(CHANNELS, "watch round trip, 1w", "watch workers=1", go=None, tokio=None),
    *versus(CHANNELS, "watch round trip, 2w", "watch workers=2", go=None, tokio=None),

    *versus(LOCKS, "mutex, one task, 1w", "mutex_one workers=1", go=None, tokio=None),
    *versus(LOCKS, "mutex, 64 tasks, 1w", "mutex workers=1", go=None, tokio=None),
    *versus(LOCKS, "mutex, 64 tasks, 2w", "mutex workers=2", go=1.0, tokio=0.2),
    *versus(LOCKS, "semaphore of 4, 64 tasks, 1w", "sem workers=1", go=None, tokio=None),
    *versus(LOCKS, "semaphore of 4, 64 tasks, 2w", "sem workers=2", go=None, tokio=0.3),

    *versus(TIMERS, "create, cancel, 1w", "timer_cycle workers=1 live=0", go=0.1, tokio=None,
            libuv=1.0),
    *versus(TIMERS, "create, cancel, clock read each, 1w", "timer_cycle workers=1 live=0",
            extra="clock=1", go=None, tokio=None),
    *versus(TIMERS, "create, cancel beside a million, 1w", "timer_cycle workers=1 live=1000000",
            heavy=True, go=None, tokio=None, libuv=0.3),
    *versus(TIMERS, "create a million, cancel all, 1w", "timer_million workers=1", heavy=True,
            go=None, tokio=None, libuv=0.3),
    *late_rows(TIMERS, "lateness, busy, 2w", "sleep_late workers=2", go=None, tokio=None),

    *versus("blocking calls", "one by one, 2w", "blocking workers=2", go=None, tokio=None,
            libuv=None),

    *nursery_rows(1),
    *nursery_rows(2),
    *budget_rows("spawn+join in a nursery, 1w", "budget_spawn workers=1"),
    *budget_rows("nursery of 8, 1w", "budget_nursery workers=1"),
    *budget_rows("channel, rendezvous round trip, 1w", "budget_chan_pingpong workers=1"),
    *budget_rows("channel, room for 1024, 1w", "budget_chan_stream workers=1"),
    *victim_rows(1),
    *victim_rows(0),
    *limit_rows("task bomb, live tasks", "alive at the peak", "fork_bomb_live workers=2", "count",
                "time to end all"),
    *limit_rows("task bomb, spawn_count", "spawned", "fork_bomb_count workers=2", "count",
                "time to end all"),
    *limit_rows("memory bomb, 8 tasks", "bytes at the peak", "memory_bomb workers=2", "bytes",
                "first refusal to end"),
    *limit_rows("flood, room for 8192", "items at the peak", "chan_flood workers=2", "count",
                "time to end all"),
    Row(LIMITS, "flood, room for 8192: resident bytes", Sample("heddle", "chan_flood workers=2"),
        Sample("heddle", "chan_flood workers=2"), "limit", metric="bytes",
        against_metric="bytes_limit", ratio_max=1.05, group=f"{LIMITS} flood, room for 8192",
        slow=True),
    *limit_rows("flood, channel_ops", "items sent", "chan_flood_ops workers=2", "count"),

    Row(FORK, "fork+join of an empty job, 1w", Sample("heddle", "fork_empty workers=1"),
        Sample("serial", "fork_empty"), "a call", value_max=2.5,
        group=f"{FORK} fork+join of an empty job, 1w"),
    *versus(FORK, "fork+join of an empty job, 1w", "fork_empty workers=1", tbb=None, openmp=None,
            rayon=None),
    *versus(FORK, "fork+join of an empty job, 2w", "fork_empty workers=2", tbb=None, openmp=None,
            rayon=None),
    *fork_rows("fib(35)", "fib n=35", slow=TASKS, turns=True,
               targets_1=dict(tbb=0.05, rayon=0.4)),
    *turn_rows("fib(35)", "fib_turns n=35", serial_max=1.25),
    Row(FORK, "fib(35), 1w", Sample("heddle", "fib n=35 workers=1"),
        Sample("serial", "fib_loop n=35"), "half calls", group=f"{FORK} fib(35)"),
    *fork_rows("fib(40)", "fib n=40", peers=("serial",), slow=("serial",)),
    *fork_rows("integrate", "integrate", slow=TASKS, turns=True),
    *turn_rows("integrate", "integrate_turns"),
    *fork_rows("nqueens(12)", "nqueens n=12", turns=True),
    *turn_rows("nqueens(12)", "nqueens_turns n=12"),
    *fork_rows("nqueens(13)", "nqueens n=13", peers=("serial", "rayon"), slow=FORK_PEERS,
               turns=True),
    *turn_rows("nqueens(13)", "nqueens_turns n=13", slow=True),
    *fork_rows("matmul", "matmul"),
    *fork_rows("skynet, a million leaves", "skynet", targets_1=dict(rayon=0.2),
               targets_2=dict(rayon=0.2)),
    Row(FORK, "skynet, a million leaves, 2w", Sample("heddle", "skynet workers=2"),
        Sample("rayon", "skynet workers=2"), "par_iter", against_metric="ns_iter",
        group=f"{FORK} skynet, a million leaves"),
    *fork_rows("unbalanced tree", "uts", slow=FORK_PEERS),
    *fork_rows("sort of 10 million", "sort count=10000000", slow=FORK_PEERS,
               targets_1=dict(tbb=1.0), targets_2=dict(tbb=1.0)),
    *fork_rows("empty loop over a million", "parallel_for count=1000000"),
    *fork_rows("empty loop over 1", "parallel_for count=1"),
    *fork_rows("empty loop over 16", "parallel_for count=16"),

    *[row for conns in (1, 64, 1000) for size, bytes_each in (("64 B", 64), ("16 KiB", 16384))
      for row in echo_rows(conns, size, bytes_each, targets=conns > 1)],
    *server_rows("io: latency at 20,000 messages a second", "64 x 64 B, p99",
                 "paced conns=64 bytes=64 rate=20000",
                 {LIBUV: 1.0, TOKIO: None, GO: None, RAW: None}, metric="ns_p99", turns=True),
    *server_rows("io: HTTP, server CPU", "hello, 64 connections", "http conns=64",
                 {("nginx", "nginx"): 1.0, GO: 0.666, ("tokio", "hyper"): None}, turns=True),
    *connect_rows(),
    *idle_rows(),
    *file_rows(),

    *explore_rows(),

    *scale_rows("heddle", "fiber one by one", "spawn_one kind=fiber", 1.5),
    *scale_rows("heddle", "stackless one by one", "spawn_one kind=task", 1.5),
    *scale_rows("heddle", "fiber ping-pong", "pingpong kind=fiber", 1.5),
    *scale_rows("go", "Go: one by one", "spawn_one", None),
    *scale_rows("go", "Go: ping-pong", "pingpong", None),
    *scale_rows("tokio", "Tokio: one by one", "spawn_one", None),
    *scale_rows("tokio", "Tokio: ping-pong", "pingpong", None),
]
