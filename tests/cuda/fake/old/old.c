/*
 * old.c - a CUDA driver that lacks most functions, as an old one lacks some
 */
int cuInit(unsigned int flags);

int
cuInit(unsigned int flags)
{
    return (int)flags;
}
