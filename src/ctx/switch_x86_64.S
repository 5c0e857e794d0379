/* SPDX-License-Identifier: MIT
 *
 * switch, x86_64 System V. The contract is in switch.h.
 *
 * Saved frame, from the saved rsp upwards:
 *   +0 r15  +8 r14  +16 r13  +24 r12  +32 rbx  +40 rbp  +48 resume address
 */
#if defined(__x86_64__)

    .text

/* void *hdi_switch(void **save [rdi], void *load [rsi], void *pass [rdx]) */
    .globl hdi_switch
    .hidden hdi_switch
    .type hdi_switch, @function
    .p2align 4
hdi_switch:
    .cfi_startproc
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r15, 0

    movq %rsp, (%rdi)
    movq %rsi, %rsp             /* the other stack has the same frame: CFI still holds */
    movq %rdx, %rax

    popq %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore r15
    popq %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore r14
    popq %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    popq %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    popq %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, rcx
    jmp *%rcx                   /* SWITCH-5 */
    .cfi_endproc
    .size hdi_switch, .-hdi_switch

/* void *hdi_switch_prepare(void *top [rdi], entry [rsi], arg [rdx])
 *
 * Leaves a frame below top whose resume address is `start`, with r12 = entry and
 * r13 = arg. */
    .globl hdi_switch_prepare
    .hidden hdi_switch_prepare
    .type hdi_switch_prepare, @function
    .p2align 4
hdi_switch_prepare:
    .cfi_startproc
    leaq -72(%rdi), %rax
    movq $0, 0(%rax)            /* r15 */
    movq $0, 8(%rax)            /* r14 */
    movq %rdx, 16(%rax)         /* r13 = arg */
    movq %rsi, 24(%rax)         /* r12 = entry */
    movq $0, 32(%rax)           /* rbx */
    movq $0, 40(%rax)           /* rbp = 0 ends frame-pointer chains */
    leaq start(%rip), %rcx
    movq %rcx, 48(%rax)         /* resume address */
    ret
    .cfi_endproc
    .size hdi_switch_prepare, .-hdi_switch_prepare

/* First code of a new context: rsp is top - 16, so the call aligns entry's frame
 * (SWITCH-2). A call rather than a jump gives unwinders a frame to stop in. The nop is
 * for those who look up the byte before a resume address. */
    .type start, @function
    .p2align 4
    .cfi_startproc
    .cfi_undefined rip          /* the outermost frame: unwinders stop */
    nop
start:
    movq %r13, %rdi
    call *%r12
    ud2                         /* entry must not return */
    .cfi_endproc
    .size start, .-start

/* The same for ctx/jump.h: rbx is entry, the argument is on the stack. */
    .globl hdi_jump_start
    .hidden hdi_jump_start
    .type hdi_jump_start, @function
    .p2align 4
hdi_jump_start:
    .cfi_startproc
    .cfi_undefined rip
    endbr64
    movq (%rsp), %rdi
    call *%rbx
    ud2
    .cfi_endproc
    .size hdi_jump_start, .-hdi_jump_start

/* void hdi_jump_lost(void): a jump to a context that is not suspended. */
    .globl hdi_jump_lost
    .hidden hdi_jump_lost
    .type hdi_jump_lost, @function
hdi_jump_lost:
    .cfi_startproc
    ud2
    .cfi_endproc
    .size hdi_jump_lost, .-hdi_jump_lost

#endif

    .section .note.GNU-stack, "", @progbits
