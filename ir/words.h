/*
 * words.h - inside ir/: words shared by printer and parser
 */
#ifndef TFD_IR_WORDS_H
#define TFD_IR_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* The version in the first line of the text. */
#define IR_TEXT_VERSION 1

/* More elements than this are printed as the hexadecimal of their bytes. */
#define IR_TEXT_ELEMENTS 64

/* In the order of their enums; each list ends in NULL. */
extern const char *const ir_phase_words[];        /* IrPhase */
extern const char *const ir_sync_words[];         /* VarSync */
extern const char *const ir_shard_words[];        /* ShardPolicy */
extern const char *const ir_worker_shard_words[]; /* WorkerShard */
extern const char *const ir_func_words[];         /* IrFuncKind */
extern const char *const ir_space_words[];        /* IrSpace; none is "" */

/* The position of word (n bytes) in a list, or -1. */
int ir_word_index(const char *const *words, const char *word, size_t n);

/* Bytes of names after % and @ that need no quotes. */
bool ir_is_name_char(char c);
bool ir_is_plain_name(const char *name);

#endif
