/*
 * foreign.h - what is called otherwise in NumPy, PyTorch and TensorFlow
 *
 * Made by gen_foreign.c of the names by which docs/reference.md finds things.
 */
#ifndef TFD_FRONTEND_CONTEXT_FOREIGN_H
#define TFD_FRONTEND_CONTEXT_FOREIGN_H

typedef struct FeForeign {
    const char *theirs; /* "torch.nn.SiLU" */
    const char *ours;   /* "silu(x)", or where docs/reference.md has it */
    const char *about;  /* what is written if ours is no call; else "" */
    const char *module; /* of the library, that has it; "": none */
} FeForeign;

extern const FeForeign fe_foreign[];
extern const int fe_foreign_len;

#endif
