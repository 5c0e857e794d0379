/* SPDX-License-Identifier: MIT
 *
 *   RUN-1  A value is written once, by the task that runs its opcode, or, a parameter, by the one
 *          that spawns the block, before it does. Others read it only if they were spawned later.
 *   RUN-2  What a child writes into its call and its function's trouble is read by its parent only
 *          after its nursery has ended.
 */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A value, by its kind; and what opcodes need that have none. */
union place {
    int64_t number;
    struct call *handle;
    janus_nursery *nursery; /* of a Nursery_Begin */
};

/* A Spawn or Async_Call that was run. */
struct call {
    struct run *run;
    const struct op *op;
    janus_future *future; /* Async_Call */
    uint64_t task;        /* its id; written by itself */
};

/* Why a function stopped. */
struct trouble {
    const struct op *op;
    const struct op *child; /* the Spawn or Async_Call that failed; NULL: the opcode itself did */
    int error;
};

struct run {
    const struct program *program;
    FILE *out;
    union place *places;      /* by value_id */
    struct call *calls;       /* by op_id */
    struct trouble *troubles; /* by function_id; error 0: none */
};

/* A function that runs: one task. */
struct frame {
    struct run *run;
    struct trouble trouble;
    op_id open[DEPTH_MAX]; /* Nursery_Begin of those not ended */
    unsigned depth;
};

static int function_run(struct run *run, function_id function);

static union place *place_of(const struct run *run, value_id value)
{
    return &run->places[value];
}

static int64_t number_of(const struct run *run, const struct op *op, unsigned operand)
{
    return place_of(run, op->operands[operand].value)->number;
}

static struct call *call_of(const struct run *run, const struct op *op)
{
    return &run->calls[op - run->program->ops];
}

static janus_nursery *nursery_of(const struct run *run, op_id begin)
{
    return place_of(run, run->program->ops[begin].value)->nursery;
}

/* ---- what stays in the task ---- */

static int arithmetic(const struct run *run, const struct op *op)
{
    const int64_t a = number_of(run, op, 0);
    const int64_t b = op->operand_count > 1 ? number_of(run, op, 1) : 0;
    int64_t *to = &place_of(run, op->value)->number;
    bool over;
    if (op->code == OP_ADD) {
        over = __builtin_add_overflow(a, b, to);
    } else if (op->code == OP_MUL) {
        over = __builtin_mul_overflow(a, b, to);
    } else if (op->code == OP_NEG) {
        over = __builtin_sub_overflow((int64_t)0, a, to);
    } else {
        over = __builtin_sub_overflow(a, b, to);
    }
    return over ? -EOVERFLOW : 0;
}

static int native_call(const struct run *run, const struct op *op, int64_t *value)
{
    int64_t arguments[ARGUMENTS_MAX] = {0};
    for (unsigned i = 0; i < op->operand_count; i++) arguments[i] = number_of(run, op, i);
    const int status = op->native->fn(arguments, value);
    return status < 0 ? status : 0;
}

/* One write for a line, so that lines of several tasks do not mix. */
static int print(const struct run *run, const struct op *op)
{
    char line[ARGUMENTS_MAX * (TEXT_BYTES_MAX + 1) + 1];
    size_t used = 0;
    for (unsigned i = 0; i < op->operand_count; i++) {
        const struct operand *operand = &op->operands[i];
        if (i > 0) line[used++] = ' ';
        if (operand->value) {
            used += (size_t)snprintf(line + used, sizeof(line) - used, "%" PRId64,
                                     number_of(run, op, i));
        } else {
            memcpy(line + used, run->program->source->text + operand->text, operand->text_bytes);
            used += operand->text_bytes;
        }
    }
    line[used++] = '\n';
    return fwrite(line, 1, used, run->out) == used ? 0 : -EIO;
}

/* ---- tasks ---- */

static int run_native(void *arg)
{
    struct call *call = arg;
    int64_t unused = 0;
    call->task = hd_self_id();
    return native_call(call->run, call->op, &unused);
}

static int run_block(void *arg)
{
    struct call *call = arg;
    call->task = hd_self_id();
    return function_run(call->run, call->op->function);
}

static int run_async(void *arg, int64_t *value)
{
    struct call *call = arg;
    call->task = hd_self_id();
    return native_call(call->run, call->op, value);
}

static struct call *call_begin(struct run *run, const struct op *op)
{
    struct call *call = call_of(run, op);
    *call = (struct call){.run = run, .op = op};
    return call;
}

static int spawn(struct run *run, const struct op *op)
{
    const struct program *program = run->program;
    janus_nursery *nursery = nursery_of(run, op->nursery);
    for (uint32_t i = 1; op->function && i < program->capture_count; i++) {
        const struct capture *capture = &program->captures[i];
        if (capture->function != op->function) continue;
        *place_of(run, capture->to) = *place_of(run, capture->from);
    }
    janus_fn *fn = op->function ? run_block : run_native;
    return janus_nursery_spawn(nursery, fn, call_begin(run, op)) ? 0 : janus_nursery_error(nursery);
}

static int async_call(struct run *run, const struct op *op)
{
    janus_nursery *nursery = nursery_of(run, op->nursery);
    struct call *call = call_begin(run, op);
    call->future = janus_async(nursery, run_async, call);
    place_of(run, op->value)->handle = call;
    return call->future ? 0 : janus_nursery_error(nursery);
}

static int await(struct run *run, const struct op *op)
{
    struct call *call = place_of(run, op->operands[0].value)->handle;
    return janus_await(call->future, &place_of(run, op->value)->number);
}

/* ---- nurseries ---- */

static int nursery_begin(struct frame *frame, const struct op *op)
{
    janus_nursery *nursery = NULL;
    const int err = janus_nursery_create_with(NULL, &nursery);
    if (err) return err;
    place_of(frame->run, op->value)->nursery = nursery;
    frame->open[frame->depth++] = (op_id)(op - frame->run->program->ops);
    return 0;
}

static const struct op *child_of(const struct run *run, op_id begin, uint64_t task)
{
    const struct program *program = run->program;
    for (op_id id = 1; task && id < program->op_count; id++) {
        const struct op *op = &program->ops[id];
        if ((op->code == OP_SPAWN || op->code == OP_ASYNC_CALL) && op->nursery == begin &&
            run->calls[id].task == task) {
            return op;
        }
    }
    return NULL;
}

/* End the innermost nursery. Returns: 0, or its error, with the child that it is of. */
static int nursery_end(struct frame *frame, const struct op **child)
{
    const op_id begin = frame->open[--frame->depth];
    janus_nursery *nursery = nursery_of(frame->run, begin);
    const janus_result result = janus_nursery_await(nursery);
    janus_nursery_destroy(nursery);
    if (result.kind == JANUS_CHILD_FAILED) *child = child_of(frame->run, begin, result.task);
    return result.error;
}

/* ---- functions ---- */

static int step(struct frame *frame, const struct op *op)
{
    struct run *run = frame->run;
    frame->trouble = (struct trouble){.op = op};
    const int err = janus_checkpoint(1);
    if (err) return err;
    switch (op->code) {
    case OP_CONST: place_of(run, op->value)->number = op->number; return 0;
    case OP_COPY: *place_of(run, op->value) = *place_of(run, op->operands[0].value); return 0;
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_NEG: return arithmetic(run, op);
    case OP_CALL: return native_call(run, op, &place_of(run, op->value)->number);
    case OP_PRINT: return print(run, op);
    case OP_NURSERY_BEGIN: return nursery_begin(frame, op);
    case OP_NURSERY_END: return nursery_end(frame, &frame->trouble.child);
    case OP_SPAWN: return spawn(run, op);
    case OP_ASYNC_CALL: return async_call(run, op);
    case OP_AWAIT: return await(run, op);
    }
    return -EINVAL;
}

/* After an error: end what is open. A task that was stopped because a child failed, by a cancel or
 * by awaiting that child, has the child's trouble. */
static int unwind(struct frame *frame, int err)
{
    while (frame->depth > 0) {
        const struct op *child = NULL;
        janus_nursery_cancel(nursery_of(frame->run, frame->open[frame->depth - 1]));
        const int ended = nursery_end(frame, &child);
        const bool awaited = frame->trouble.op->code == OP_AWAIT && err == ended;
        if (child && (err == -ECANCELED || awaited)) {
            frame->trouble.child = child;
            err = ended;
        }
    }
    frame->trouble.error = err;
    return err;
}

static int function_run(struct run *run, function_id function)
{
    struct frame frame = {.run = run};
    int err = 0;
    for (op_id id = run->program->functions[function].first; id && !err;) {
        const struct op *op = &run->program->ops[id];
        err = step(&frame, op);
        id = op->next;
    }
    if (err) {
        err = unwind(&frame, err);
        run->troubles[function] = frame.trouble; /* RUN-2 */
    }
    return err;
}

static int run_main(void *arg)
{
    return function_run(arg, PROGRAM_MAIN);
}

/* ---- the whole program ---- */

static const char *reason_of(const struct op *op, int error)
{
    const bool counts = op->code == OP_ADD || op->code == OP_SUB || op->code == OP_MUL ||
                        op->code == OP_NEG;
    return counts ? "the result does not fit 64 bits" : strerror(-error);
}

/* Follow the trouble from the first function to where it began. */
static void explain(const struct run *run, int error, struct fault *fault)
{
    const struct trouble *trouble = &run->troubles[PROGRAM_MAIN];
    while (trouble->child && trouble->child->function &&
           run->troubles[trouble->child->function].error) {
        trouble = &run->troubles[trouble->child->function];
    }
    const struct op *op = trouble->child ? trouble->child : trouble->op;
    if (!op) {
        fault_set(fault, 0, "the program could not be run: %s", strerror(-error));
    } else if (op->native) {
        fault_set(fault, op->at, "%s failed: %s%s", op->native->name, strerror(-trouble->error),
                  op->code == OP_CALL ? "" : "; the other tasks of its nursery were cancelled");
    } else {
        fault_set(fault, op->at, "stopped here: %s", reason_of(op, trouble->error));
    }
}

int run_program(const struct program *program, const hd_options *options, FILE *out,
                struct fault *fault)
{
    struct run run = {.program = program,
                      .out = out,
                      .places = calloc(program->value_count, sizeof(union place)),
                      .calls = calloc(program->op_count, sizeof(struct call)),
                      .troubles = calloc(program->function_count, sizeof(struct trouble))};
    int err = -ENOMEM;
    if (run.places && run.calls && run.troubles) err = hd_run(run_main, &run, options);
    if (err < 0 && !run.troubles) {
        fault_set(fault, 0, "out of memory: make the program smaller");
    } else if (err < 0) {
        explain(&run, err, fault);
    }
    free(run.places);
    free(run.calls);
    free(run.troubles);
    return err < 0 ? err : 0;
}
