/*
 * table.c - the directories of side tables
 */
#include "ir/table.h"

#include <assert.h>
#include <string.h>

/* At least twice as long, in the direction in which it grows. */
void *
ir_table_extend(Arena *a, const void *pages, int *first, int *num_pages,
                int page)
{
    int begin = *first, end = *first + *num_pages;
    assert(page >= 0 && (*num_pages == 0 || page < begin || page >= end));
    if (*num_pages == 0) {
        begin = page;
        end = page + 1;
    } else if (page >= end) {
        end += *num_pages;
        end = end > page ? end : page + 1;
    } else {
        begin = begin > *num_pages ? begin - *num_pages : 0;
        begin = begin < page ? begin : page;
    }
    char *grown = arena_array(a, (size_t)(end - begin), sizeof(void *));
    if (*num_pages)
        memcpy(grown + (size_t)(*first - begin) * sizeof(void *), pages,
               (size_t)*num_pages * sizeof(void *));
    *first = begin;
    *num_pages = end - begin;
    return grown;
}
