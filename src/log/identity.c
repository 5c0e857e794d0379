/* SPDX-License-Identifier: MIT */
#include "log/identity.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Look through the notes of a segment. Returns whether the build ID is among them. */
static int find_note(const char *at, size_t bytes, size_t align, uint8_t *identity)
{
    ElfW(Nhdr) note;
    while (bytes >= sizeof(note)) {
        memcpy(&note, at, sizeof(note));
        const size_t name = sizeof(note), id = name + round_up(note.n_namesz, align);
        const size_t next = id + round_up(note.n_descsz, align);
        if (next > bytes) return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
            memcmp(at + name, "GNU", sizeof("GNU")) == 0) {
            const size_t count = note.n_descsz;
            memcpy(identity, at + id, count < HDI_IDENTITY_BYTES ? count : HDI_IDENTITY_BYTES);
            return 1;
        }
        at += next;
        bytes -= next;
    }
    return 0;
}

/* Called for the executable first, which is all that is wanted. */
static int look(struct dl_phdr_info *info, size_t size, void *identity)
{
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_NOTE) continue;
        const char *at = (const char *)(info->dlpi_addr + part->p_vaddr);
        if (find_note(at, part->p_memsz, part->p_align == 8 ? 8 : 4, identity)) break;
    }
    return 1;
}

void hdi_identity_get(uint8_t identity[HDI_IDENTITY_BYTES])
{
    memset(identity, 0, HDI_IDENTITY_BYTES);
    (void)dl_iterate_phdr(look, identity);
}

const char *hdi_identity_name(void)
{
    return program_invocation_short_name;
}
