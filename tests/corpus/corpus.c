/* SPDX-License-Identifier: MIT
 *
 * corpus: the list of the programs, and what they are written with.
 */
#include "corpus.h"

static struct corpus_program *first;

/* Constructors run in any order; the list is in that of the names, numbers by their value. */
void corpus_register(struct corpus_program *program)
{
    struct corpus_program **at = &first;
    while (*at && strverscmp((*at)->name, program->name) < 0) at = &(*at)->next;
    program->next = *at;
    *at = program;
}

struct corpus_program *corpus_first(void)
{
    return first;
}

struct corpus_program *corpus_find(const char *name)
{
    struct corpus_program *program = first;
    while (program && strcmp(program->name, name) != 0) program = program->next;
    return program;
}

hd_task *corpus_go(hd_fn *fn, void *arg, const hd_site *site)
{
    hd_task *handle = NULL;
    hd_assert(hd_spawn_at(&handle, fn, arg, NULL, site) == 0);
    return handle;
}

void corpus_join(hd_task *handle)
{
    hd_assert(hd_join(handle, NULL) == 0);
}

void corpus_together(hd_fn *const *fns, size_t count, const hd_site *site)
{
    hd_task *handles[CORPUS_CROWD_MAX];
    for (size_t i = 0; i < count; i++) handles[i] = corpus_go(fns[i], NULL, site);
    for (size_t i = 0; i < count; i++) corpus_join(handles[i]);
}

void corpus_crowd(unsigned count, hd_fn *fn, hd_fn *last, const hd_site *site)
{
    hd_task *handles[CORPUS_CROWD_MAX + 1];
    unsigned made = 0;
    for (; made < count; made++) handles[made] = corpus_go(fn, (void *)(uintptr_t)made, site);
    if (last) handles[made++] = corpus_go(last, (void *)(uintptr_t)count, site);
    for (unsigned i = 0; i < made; i++) corpus_join(handles[i]);
}

void corpus_lock(hd_mutex *mutex)
{
    hd_assert(hd_mutex_lock(mutex) == 0);
}

void corpus_acquire(hd_sem *sem)
{
    hd_assert(hd_sem_acquire(sem, 1) == 0);
}

hd_chan *corpus_chan(size_t capacity)
{
    hd_chan *chan = hd_chan_create(sizeof(int), capacity);
    hd_assert(chan != NULL);
    return chan;
}

void corpus_send(hd_chan *chan, int item)
{
    hd_assert(hd_chan_send(chan, &item) == 0);
}

int corpus_recv(hd_chan *chan)
{
    int item = 0;
    hd_assert(hd_chan_recv(chan, &item) == 0);
    return item;
}
