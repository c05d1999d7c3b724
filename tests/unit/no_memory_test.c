/*
 * no_memory_test.c - how a program ends when an allocation fails
 *
 * Each case is a process of its own that must end by itself, with one message,
 * whatever its other threads are at.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include "ir/base/memory.h"
#include "ir/base/status.h"

enum { SECONDS = 20, NUM_THREADS = 8 };

/* What body's process writes to standard error, in text; its exit status. */
static int
said_by(void (*body)(void), char *text, size_t size)
{
    int ends[2];
    size_t len = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        alarm(SECONDS);
        body();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && len < size - 1; len += (size_t)got) {
        got = read(ends[0], text + len, size - 1 - len);
        assert_true(got >= 0);
    }
    text[len] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void
run_out(void)
{
    memory_purpose("LLVM, compiling k_12ab");
    memory_exhausted(4096);
}

static void
it_says_what_it_was_for(void **state)
{
    (void)state;
    char text[1024];
    assert_int_equal(said_by(run_out, text, sizeof text), STATUS_MACHINE);
    assert_non_null(strstr(
        text,
        ": error: out of memory: 4096 bytes for LLVM, compiling k_12ab; "));
    assert_non_null(strstr(text, " MB are in use\n"));
}

static sem_t ready;

static void *
lock_streams(void *data)
{
    flockfile(stdout);
    flockfile(stderr);
    sem_post(&ready);
    pause();
    return data;
}

static void
run_out_beside_a_printing_thread(void)
{
    pthread_t thread;
    sem_init(&ready, 0, 0);
    if (pthread_create(&thread, NULL, lock_streams, NULL))
        return;
    while (sem_wait(&ready) && errno == EINTR) {
    }
    run_out();
}

static void
it_waits_for_no_stream(void **state)
{
    (void)state;
    char text[1024];
    assert_int_equal(
        said_by(run_out_beside_a_printing_thread, text, sizeof text),
        STATUS_MACHINE);
    assert_non_null(strstr(text, "out of memory"));
}

static pthread_barrier_t start;

static void *
run_out_together(void *data)
{
    pthread_barrier_wait(&start);
    run_out();
    return data;
}

static void
run_out_in_all_threads(void)
{
    pthread_t threads[NUM_THREADS];
    pthread_barrier_init(&start, NULL, NUM_THREADS);
    for (int i = 0; i < NUM_THREADS; i++)
        if (pthread_create(&threads[i], NULL, run_out_together, NULL))
            return;
    pthread_join(threads[0], NULL);
}

static void
of_many_threads_one_speaks(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(said_by(run_out_in_all_threads, text, sizeof text),
                     STATUS_MACHINE);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void
format_without_memory(void)
{
    errno = ENOMEM;
    formatted_length(-1);
}

static void
a_text_is_never_silently_none(void **state)
{
    (void)state;
    char text[1024];
    assert_int_equal(formatted_length(0), 0);
    assert_int_equal(formatted_length(7), 7);
    assert_int_equal(said_by(format_without_memory, text, sizeof text),
                     STATUS_MACHINE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_what_it_was_for),
        cmocka_unit_test(it_waits_for_no_stream),
        cmocka_unit_test(of_many_threads_one_speaks),
        cmocka_unit_test(a_text_is_never_silently_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
