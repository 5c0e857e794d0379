/* SPDX-License-Identifier: MIT
 *
 * switch, aarch64 AAPCS64. The contract is in switch.h.
 *
 * Saved frame, 160 bytes, from the saved sp upwards:
 *   +0 x19 x20  +16 x21 x22  +32 x23 x24  +48 x25 x26  +64 x27 x28
 *   +80 x29 x30 (x30 is the resume address)
 *   +96 d8 d9  +112 d10 d11  +128 d12 d13  +144 d14 d15
 */
#if defined(__aarch64__)

    .text

/* void *hdi_switch(void **save [x0], void *load [x1], void *pass [x2]) */
    .globl hdi_switch
    .hidden hdi_switch
    .type hdi_switch, %function
    .p2align 4
hdi_switch:
    .cfi_startproc
    hint #34                    /* bti c */
    sub sp, sp, #160
    .cfi_adjust_cfa_offset 160
    stp x19, x20, [sp, #0]
    .cfi_rel_offset x19, 0
    .cfi_rel_offset x20, 8
    stp x21, x22, [sp, #16]
    .cfi_rel_offset x21, 16
    .cfi_rel_offset x22, 24
    stp x23, x24, [sp, #32]
    .cfi_rel_offset x23, 32
    .cfi_rel_offset x24, 40
    stp x25, x26, [sp, #48]
    .cfi_rel_offset x25, 48
    .cfi_rel_offset x26, 56
    stp x27, x28, [sp, #64]
    .cfi_rel_offset x27, 64
    .cfi_rel_offset x28, 72
    stp x29, x30, [sp, #80]
    .cfi_rel_offset x29, 80
    .cfi_rel_offset x30, 88
    stp d8, d9, [sp, #96]
    .cfi_rel_offset d8, 96
    .cfi_rel_offset d9, 104
    stp d10, d11, [sp, #112]
    .cfi_rel_offset d10, 112
    .cfi_rel_offset d11, 120
    stp d12, d13, [sp, #128]
    .cfi_rel_offset d12, 128
    .cfi_rel_offset d13, 136
    stp d14, d15, [sp, #144]
    .cfi_rel_offset d14, 144
    .cfi_rel_offset d15, 152

    mov x9, sp
    str x9, [x0]
    mov sp, x1                  /* the other stack has the same frame: CFI still holds */
    mov x0, x2

    ldp d14, d15, [sp, #144]
    .cfi_restore d14
    .cfi_restore d15
    ldp d12, d13, [sp, #128]
    .cfi_restore d12
    .cfi_restore d13
    ldp d10, d11, [sp, #112]
    .cfi_restore d10
    .cfi_restore d11
    ldp d8, d9, [sp, #96]
    .cfi_restore d8
    .cfi_restore d9
    ldp x29, x30, [sp, #80]
    .cfi_restore x29
    .cfi_restore x30
    ldp x27, x28, [sp, #64]
    .cfi_restore x27
    .cfi_restore x28
    ldp x25, x26, [sp, #48]
    .cfi_restore x25
    .cfi_restore x26
    ldp x23, x24, [sp, #32]
    .cfi_restore x23
    .cfi_restore x24
    ldp x21, x22, [sp, #16]
    .cfi_restore x21
    .cfi_restore x22
    ldp x19, x20, [sp, #0]
    .cfi_restore x19
    .cfi_restore x20
    add sp, sp, #160
    .cfi_adjust_cfa_offset -160
    mov x16, x30
    br x16                      /* SWITCH-5; this object is not marked for BTI, so nothing
                                 * it is linked into has guarded pages */
    .cfi_endproc
    .size hdi_switch, .-hdi_switch

/* void *hdi_switch_prepare(void *top [x0], entry [x1], arg [x2])
 *
 * Leaves a frame below top whose resume address is `start`, with x19 = entry and
 * x20 = arg. */
    .globl hdi_switch_prepare
    .hidden hdi_switch_prepare
    .type hdi_switch_prepare, %function
    .p2align 4
hdi_switch_prepare:
    .cfi_startproc
    hint #34
    sub x0, x0, #160
    stp x1, x2, [x0, #0]        /* x19 = entry, x20 = arg */
    stp xzr, xzr, [x0, #16]
    stp xzr, xzr, [x0, #32]
    stp xzr, xzr, [x0, #48]
    stp xzr, xzr, [x0, #64]
    adr x9, start
    stp xzr, x9, [x0, #80]      /* x29 = 0 ends frame chains */
    stp xzr, xzr, [x0, #96]
    stp xzr, xzr, [x0, #112]
    stp xzr, xzr, [x0, #128]
    stp xzr, xzr, [x0, #144]
    ret
    .cfi_endproc
    .size hdi_switch_prepare, .-hdi_switch_prepare

/* First code of a new context. sp is the stack's top, 16-aligned (SWITCH-2). A call
 * rather than a jump gives unwinders a frame to stop in. The nop is for those who look
 * up the instruction before a resume address. */
    .type start, %function
    .p2align 4
    .cfi_startproc
    .cfi_undefined x30          /* the outermost frame: unwinders stop */
    nop
start:
    hint #34
    mov x0, x20
    blr x19
    brk #1                      /* entry must not return */
    .cfi_endproc
    .size start, .-start

/* The same for ctx/jump.h: x19 is entry, the argument is on the stack. */
    .globl hdi_jump_start
    .hidden hdi_jump_start
    .type hdi_jump_start, %function
    .p2align 4
hdi_jump_start:
    .cfi_startproc
    .cfi_undefined x30
    hint #38                    /* bti jc */
    ldr x0, [sp]
    blr x19
    brk #1
    .cfi_endproc
    .size hdi_jump_start, .-hdi_jump_start

/* void hdi_jump_lost(void): a jump to a context that is not suspended. */
    .globl hdi_jump_lost
    .hidden hdi_jump_lost
    .type hdi_jump_lost, %function
hdi_jump_lost:
    .cfi_startproc
    hint #34
    brk #2
    .cfi_endproc
    .size hdi_jump_lost, .-hdi_jump_lost

#endif

    .section .note.GNU-stack, "", %progbits
