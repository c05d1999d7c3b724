/*
 * rules.h - what the emulator relies on in every PTX text
 *
 * The emulator and the code that emits PTX have one author.  Where PTX leaves
 * something to the assembler or the hardware (how a result is rounded, whether
 * a product and a sum are fused, what one block sees of another), the emulator
 * chooses one behaviour, and would hide a text that admits several.  Texts that
 * keep these rules admit one.
 */
#ifndef TFD_TESTS_CUDA_RULES_H
#define TFD_TESTS_CUDA_RULES_H

#include "backend/kernel/kernel.h"

/* The first instruction of the text that breaks a rule, and the rule, as a
 * sentence in a; NULL if there is none.  With a kernel, fused multiply-adds
 * must come from its own text, and tensor cores be allowed there; k may be
 * NULL. */
const char *ptx_broken_rule(Arena *a, const char *ptx, const BeKernel *k);

#endif
