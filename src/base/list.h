/* SPDX-License-Identifier: MIT
 *
 * list: intrusive doubly linked list, circular around its head.
 *
 * Owner  whoever holds the structure the head lives in; no atomics.
 */
#ifndef HDI_BASE_LIST_H
#define HDI_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"

/* LIST-1: for every node n in a list, n->next->prev == n. A node in no list points
 * to itself. */
struct hdi_list {
    struct hdi_list *next;
    struct hdi_list *prev;
};

static inline void hdi_list_init(struct hdi_list *head)
{
    head->next = head->prev = head;
}

static inline bool hdi_list_empty(const struct hdi_list *head)
{
    return head->next == head;
}

static inline void hdi_list_insert_between_(struct hdi_list *node, struct hdi_list *prev,
                                            struct hdi_list *next)
{
    HDI_ASSERT(prev->next == next && next->prev == prev); /* LIST-1 */
    node->prev = prev;
    node->next = next;
    prev->next = node;
    next->prev = node;
}

static inline void hdi_list_push_back(struct hdi_list *head, struct hdi_list *node)
{
    hdi_list_insert_between_(node, head->prev, head);
}

static inline void hdi_list_push_front(struct hdi_list *head, struct hdi_list *node)
{
    hdi_list_insert_between_(node, head, head->next);
}

/* Afterwards the node is in no list; removing it again does nothing. */
static inline void hdi_list_remove(struct hdi_list *node)
{
    HDI_ASSERT(node->next->prev == node && node->prev->next == node); /* LIST-1 */
    node->prev->next = node->next;
    node->next->prev = node->prev;
    hdi_list_init(node);
}

/* Returns the oldest node, now in no list; NULL if empty. */
static inline struct hdi_list *hdi_list_pop_front(struct hdi_list *head)
{
    struct hdi_list *node = head->next;
    if (node == head) return NULL;
    hdi_list_remove(node);
    return node;
}

#endif
