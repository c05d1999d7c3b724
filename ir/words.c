/*
 * words.c - words shared by printer and parser
 */
#include "ir/words.h"

#include <string.h>

const char *const ir_phase_words[] = {"ir", "replicated", "placed", NULL};
const char *const ir_sync_words[] = {"auto", "none", "on_write", "on_read",
                                     NULL};
const char *const ir_shard_words[] = {"auto", "file", "data", "off", NULL};
const char *const ir_worker_shard_words[] = {"off", "data", "file", "dynamic",
                                             NULL};
const char *const ir_func_words[] = {"main", "host", "init", "program", NULL};
const char *const ir_space_words[] = {"",    "frame", "arena", "in",
                                      "out", "row",   NULL};

int
ir_word_index(const char *const *words, const char *word, size_t n)
{
    for (int i = 0; words[i]; i++) {
        if (strlen(words[i]) == n && memcmp(words[i], word, n) == 0)
            return i;
    }
    return -1;
}

bool
ir_is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.';
}

bool
ir_is_plain_name(const char *name)
{
    const char *p = name;
    while (ir_is_name_char(*p))
        p++;
    return *p == 0 && p > name;
}
