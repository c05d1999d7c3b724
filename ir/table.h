/*
 * table.h - side tables: what an analysis knows of values or operations
 *
 * Every value and every operation has a number, given once when it is made:
 * 0, 1, ... in its module, never changed and never given again.  An analysis
 * keeps what it finds in a table of its own, by those numbers:
 *
 *   IR_TABLE(int) depth = {0};
 *   *IR_TABLE_SLOT(arena, depth, v->number) = 3;
 *   int *found = IR_TABLE_FIND(depth, v->number);     NULL: not in the table
 *
 * So two analyses never get in each other's way, nothing has to be cleared, and
 * what is made later has a slot like any other.  A table has pages for the
 * numbers that were asked for, and a directory from its first page to its last:
 * one for a function of a large module is as small as the function.
 */
#ifndef TFD_IR_TABLE_H
#define TFD_IR_TABLE_H

#include "ir/base/arena.h"

enum { IR_TABLE_BITS = 5, IR_TABLE_PAGE = 1 << IR_TABLE_BITS };

/* first: the number of the first page that the directory has. */
#define IR_TABLE(T)                                                            \
    struct {                                                                   \
        T **pages;                                                             \
        int first, num_pages;                                                  \
    }

/* A directory that has that page, too; *first and *num_pages become its own.
 * The old one is abandoned in the arena. */
void *ir_table_extend(Arena *a, const void *pages, int *first, int *num_pages,
                      int page);

/* Where a number's page stands in the directory; outside of it: no less than
 * num_pages. */
static inline unsigned
ir_table_at(int number, int first)
{
    return (unsigned)(number >> IR_TABLE_BITS) - (unsigned)first;
}

/* The slot of a number, or NULL when it has none. */
#define IR_TABLE_FIND(t, number)                                               \
    (ir_table_at((number), (t).first) < (unsigned)(t).num_pages &&             \
             (t).pages[ir_table_at((number), (t).first)]                       \
         ? &(t).pages[ir_table_at((number), (t).first)]                        \
                     [(number) & (IR_TABLE_PAGE - 1)]                          \
         : NULL)

/* The same, or else a new page of zeroed slots in the arena. */
#define IR_TABLE_SLOT(arena, t, number)                                        \
    (IR_TABLE_FIND(t, number) ? (void)0                                        \
                              : IR_TABLE_ADD_PAGE((arena), t, (number)),       \
     IR_TABLE_FIND(t, number))

#define IR_TABLE_ADD_PAGE(arena, t, number)                                    \
    (ir_table_at((number), (t).first) < (unsigned)(t).num_pages                \
         ? (void)0                                                             \
         : (void)((t).pages = ir_table_extend((arena), (t).pages, &(t).first,  \
                                              &(t).num_pages,                  \
                                              (number) >> IR_TABLE_BITS)),     \
     (void)((t).pages[ir_table_at((number), (t).first)] =                      \
                arena_array((arena), IR_TABLE_PAGE, sizeof **(t).pages)))

#endif
