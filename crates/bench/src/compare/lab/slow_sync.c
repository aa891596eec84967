/* Makes syncs slow: a library for LD_PRELOAD. `bench compare` builds it, and loads it into servers
 * whose data is in memory. There, the real sync takes about a microsecond. So a sync takes the time
 * that the environment variable says, on any machine. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static long sync_ns;

__attribute__((constructor)) static void begin(void) {
    const char *micros = getenv("LINESHAFT_BENCH_SYNC_MICROS");
    sync_ns = micros ? atol(micros) * 1000 : 0;
}

static int slow(const char *name, int file) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += sync_ns;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(file);
    int error = errno;
    /* Without this, the kernel may end each sleep up to 50 microseconds too late. */
    static __thread int is_exact;
    if (!is_exact) {
        is_exact = prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) == 0;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {
    }
    errno = error;
    return result;
}

int fsync(int file) { return slow("fsync", file); }

int fdatasync(int file) { return slow("fdatasync", file); }
