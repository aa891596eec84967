/* Jobs of every kind through libgearman; the workers are a process of their own. */
#include <libgearman/gearman.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static in_port_t port;
static pid_t workers[8];
static int worker_count;
static pid_t parent;

#define CHECK(truth) check((truth) != 0, #truth, __LINE__)

static void check(int truth, const char *what, int line) {
    if (truth) return;
    fprintf(stderr, "FAILED in line %d: %s\n", line, what);
    exit(1);
}

static void end_workers(void) {
    if (getpid() != parent) return;
    for (int i = 0; i < worker_count; i++) {
        kill(workers[i], SIGKILL);
        waitpid(workers[i], NULL, 0);
    }
}

static gearman_return_t upper(gearman_job_st *job, void *context) {
    (void)context;
    const char *workload = gearman_job_workload(job);
    size_t size = gearman_job_workload_size(job);
    char *result = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        result[i] = workload[i] >= 'a' && workload[i] <= 'z' ? workload[i] - 32 : workload[i];
    gearman_return_t sent = gearman_job_send_complete(job, result, size);
    free(result);
    return sent;
}

static gearman_return_t reports(gearman_job_st *job, void *context) {
    (void)context;
    gearman_job_send_status(job, 3, 4);
    gearman_job_send_data(job, "part", 4);
    gearman_job_send_warning(job, "careful", 7);
    usleep(300000);
    return gearman_job_send_complete(job, "done", 4);
}

static gearman_return_t raises(gearman_job_st *job, void *context) {
    (void)context;
    return gearman_job_send_exception(job, "broken", 6);
}

static gearman_return_t fails(gearman_job_st *job, void *context) {
    (void)job, (void)context;
    return GEARMAN_FAIL;
}

static gearman_return_t dies(gearman_job_st *job, void *context) {
    (void)job, (void)context;
    kill(getpid(), SIGKILL);
    return GEARMAN_SUCCESS;
}

/* Takes longer than its function may. */
static gearman_return_t hangs(gearman_job_st *job, void *context) {
    (void)context;
    sleep(20);
    return gearman_job_send_complete(job, "late", 4);
}

/* Parts its workload at the comma; each part becomes a job of the reducer's function. */
static gearman_return_t split(gearman_job_st *job, void *context) {
    (void)context;
    const char *workload = gearman_job_workload(job);
    size_t size = gearman_job_workload_size(job);
    const char *comma = memchr(workload, ',', size);
    if (comma == NULL) return GEARMAN_FAIL;
    gearman_job_send_data(job, workload, comma - workload);
    gearman_job_send_data(job, comma + 1, workload + size - comma - 1);
    return GEARMAN_SUCCESS;
}

/* Joins the results of the parts. */
static gearman_return_t join(gearman_aggregator_st *aggregator, gearman_task_st *task, gearman_result_st *joined) {
    (void)aggregator;
    char text[100] = "";
    for (; task != NULL; task = gearman_next(task)) {
        gearman_result_st *part = gearman_task_result(task);
        strncat(text, gearman_result_value(part), gearman_result_size(part));
    }
    return gearman_result_store_value(joined, text, strlen(text));
}

struct function {
    const char *name;
    uint32_t timeout_s;
    gearman_function_fn *run;
    gearman_aggregator_fn *join;
};

static pid_t start_worker(const struct function *functions, int count) {
    pid_t id = fork();
    CHECK(id >= 0);
    if (id > 0) return workers[worker_count++] = id;
    gearman_worker_st *worker = gearman_worker_create(NULL);
    CHECK(gearman_worker_add_server(worker, "127.0.0.1", port) == GEARMAN_SUCCESS);
    for (int i = 0; i < count; i++) {
        gearman_function_t function = functions[i].join != NULL
                                          ? gearman_function_create_partition(functions[i].run, functions[i].join)
                                          : gearman_function_create_v2(functions[i].run);
        CHECK(gearman_worker_define_function(worker, functions[i].name, strlen(functions[i].name), function,
                                             functions[i].timeout_s, NULL) == GEARMAN_SUCCESS);
    }
    while (1) gearman_worker_work(worker);
}

static char heard[1000];

static void hear(const char *what, const void *data, size_t size) {
    size_t length = strlen(heard);
    snprintf(heard + length, sizeof heard - length, "%s %.*s;", what, (int)size, (const char *)data);
}

static gearman_return_t on_data(gearman_task_st *task) {
    hear("data", gearman_task_data(task), gearman_task_data_size(task));
    return GEARMAN_SUCCESS;
}

static gearman_return_t on_warning(gearman_task_st *task) {
    hear("warning", gearman_task_data(task), gearman_task_data_size(task));
    return GEARMAN_SUCCESS;
}

static gearman_return_t on_status(gearman_task_st *task) {
    char text[40];
    int size = snprintf(text, sizeof text, "%u/%u", gearman_task_numerator(task), gearman_task_denominator(task));
    hear("status", text, size);
    return GEARMAN_SUCCESS;
}

static gearman_return_t on_complete(gearman_task_st *task) {
    hear("complete", gearman_task_data(task), gearman_task_data_size(task));
    return GEARMAN_SUCCESS;
}

static gearman_return_t on_exception(gearman_task_st *task) {
    hear("exception", gearman_task_data(task), gearman_task_data_size(task));
    return GEARMAN_SUCCESS;
}

static gearman_return_t on_fail(gearman_task_st *task) {
    (void)task;
    hear("fail", "", 0);
    return GEARMAN_SUCCESS;
}

typedef void *submit(gearman_client_st *, const char *, const char *, const void *, size_t, size_t *,
                     gearman_return_t *);
typedef gearman_return_t submit_background(gearman_client_st *, const char *, const char *, const void *, size_t,
                                           gearman_job_handle_t);

static void expect(gearman_client_st *client, submit *how, const char *function, const char *text, const char *wanted) {
    size_t size;
    gearman_return_t outcome;
    char *result = how(client, function, NULL, text, strlen(text), &size, &outcome);
    CHECK(outcome == GEARMAN_SUCCESS);
    CHECK(size == strlen(wanted) && memcmp(result, wanted, size) == 0);
    free(result);
}

static void wait_for_end(gearman_client_st *client, const char *handle) {
    bool known = true;
    for (int attempt = 0; known && attempt < 2000; attempt++) {
        usleep(10000);
        CHECK(gearman_client_job_status(client, handle, &known, NULL, NULL, NULL) == GEARMAN_SUCCESS);
    }
    CHECK(!known);
}

static void foreground(gearman_client_st *client) {
    expect(client, gearman_client_do, "upper", "hello", "HELLO");
    expect(client, gearman_client_do_high, "upper", "high", "HIGH");
    expect(client, gearman_client_do_low, "upper", "low", "LOW");
    size_t size, large_size = 3000000;
    gearman_return_t outcome;
    char *large = malloc(large_size);
    memset(large, 'x', large_size);
    char *result = gearman_client_do(client, "upper", NULL, large, large_size, &size, &outcome);
    CHECK(outcome == GEARMAN_SUCCESS && size == large_size && result[size - 1] == 'X');
    free(result);
    free(large);
    free(gearman_client_do(client, "fails", NULL, "x", 1, &size, &outcome));
    CHECK(outcome == GEARMAN_WORK_FAIL);
}

static void tasks(gearman_client_st *client) {
    gearman_return_t outcome;
    gearman_client_set_data_fn(client, on_data);
    gearman_client_set_warning_fn(client, on_warning);
    gearman_client_set_status_fn(client, on_status);
    gearman_client_set_complete_fn(client, on_complete);
    gearman_client_set_exception_fn(client, on_exception);
    gearman_client_set_fail_fn(client, on_fail);
    gearman_client_add_task(client, NULL, NULL, "reports", NULL, "x", 1, &outcome);
    CHECK(gearman_client_run_tasks(client) == GEARMAN_SUCCESS);
    CHECK(strcmp(heard, "status 3/4;data part;warning careful;complete done;") == 0);

    heard[0] = 0;
    CHECK(gearman_client_set_server_option(client, "exceptions", 10));
    gearman_client_add_task(client, NULL, NULL, "raises", NULL, "x", 1, &outcome);
    gearman_client_run_tasks(client);
    CHECK(strstr(heard, "exception broken;") != NULL);
    gearman_client_clear_fn(client);
}

/* Equal keys from two clients: one job, whose end both hear. */
static void shared(void) {
    pid_t other = fork();
    CHECK(other >= 0);
    gearman_client_st *client = gearman_client_create(NULL);
    CHECK(gearman_client_add_server(client, "127.0.0.1", port) == GEARMAN_SUCCESS);
    size_t size;
    gearman_return_t outcome;
    free(gearman_client_do(client, "reports", "key", "x", 1, &size, &outcome));
    while (outcome == GEARMAN_WORK_DATA || outcome == GEARMAN_WORK_WARNING || outcome == GEARMAN_WORK_STATUS)
        free(gearman_client_do(client, "reports", "key", "x", 1, &size, &outcome));
    CHECK(outcome == GEARMAN_SUCCESS);
    gearman_client_free(client);
    if (other == 0) _exit(0);
    int status;
    CHECK(waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void background(gearman_client_st *client) {
    submit_background *ways[] = {gearman_client_do_background, gearman_client_do_high_background,
                                 gearman_client_do_low_background};
    for (int way = 0; way < 3; way++) {
        gearman_job_handle_t handle;
        CHECK(ways[way](client, "reports", NULL, "x", 1, handle) == GEARMAN_SUCCESS);
        wait_for_end(client, handle);
    }
    gearman_job_handle_t first, second;
    CHECK(gearman_client_do_background(client, "nobody", "same", "one", 3, first) == GEARMAN_SUCCESS);
    CHECK(gearman_client_do_background(client, "nobody", "same", "two", 3, second) == GEARMAN_SUCCESS);
    CHECK(strcmp(first, second) == 0);
    /* A client of its own: after the answer the library's next request on the same one never ends. */
    gearman_client_st *asking = gearman_client_create(NULL);
    CHECK(gearman_client_add_server(asking, "127.0.0.1", port) == GEARMAN_SUCCESS);
    gearman_status_t status = gearman_client_unique_status(asking, "same", 4);
    CHECK(gearman_status_is_known(status) && !gearman_status_is_running(status));
    gearman_client_free(asking);
}

/* A job for later, and one for a reducer. */
static void executed(gearman_client_st *client) {
    gearman_argument_t workload = gearman_argument_make(NULL, 0, "hello", 5);
    gearman_task_attr_t later = gearman_task_attr_init_epoch(time(NULL) - 1, GEARMAN_JOB_PRIORITY_NORMAL);
    gearman_task_st *task = gearman_execute(client, "upper", 5, NULL, 0, &later, &workload, NULL);
    CHECK(task != NULL);
    wait_for_end(client, gearman_task_job_handle(task));
    const struct function splitting = {"split", 0, split, join};
    start_worker(&splitting, 1);
    gearman_argument_t parts = gearman_argument_make(NULL, 0, "hel,lo", 6);
    task = gearman_execute_by_partition(client, "split", 5, "upper", 5, NULL, 0, NULL, &parts, NULL);
    CHECK(task != NULL && gearman_task_return(task) == GEARMAN_SUCCESS);
    gearman_result_st *result = gearman_task_result(task);
    /* The library lists the last part first. */
    CHECK(gearman_result_size(result) == 5 && memcmp(gearman_result_value(result), "LOHEL", 5) == 0);
}

static void losses(gearman_client_st *client) {
    const struct function doomed = {"fragile", 0, dies, NULL}, saving = {"fragile", 0, upper, NULL};
    gearman_job_handle_t handle;
    CHECK(gearman_client_do_background(client, "fragile", NULL, "x", 1, handle) == GEARMAN_SUCCESS);
    pid_t id = start_worker(&doomed, 1);
    waitpid(id, NULL, 0);
    worker_count--;
    bool known;
    CHECK(gearman_client_job_status(client, handle, &known, NULL, NULL, NULL) == GEARMAN_SUCCESS && known);
    start_worker(&saving, 1);
    wait_for_end(client, handle);

    const struct function slow = {"slow", 1, hangs, NULL}, quick = {"slow", 1, upper, NULL};
    start_worker(&slow, 1);
    CHECK(gearman_client_do_background(client, "slow", NULL, "x", 1, handle) == GEARMAN_SUCCESS);
    bool running = false;
    for (int attempt = 0; !running && attempt < 1000; attempt++) {
        usleep(10000);
        gearman_client_job_status(client, handle, &known, &running, NULL, NULL);
    }
    start_worker(&quick, 1);
    wait_for_end(client, handle);

    gearman_client_set_timeout(client, 300);
    size_t size;
    gearman_return_t outcome;
    gearman_client_do(client, "nobody", NULL, "x", 1, &size, &outcome);
    CHECK(outcome == GEARMAN_TIMEOUT);
}

int main(void) {
    const struct function functions[] = {
        {"upper", 0, upper, NULL}, {"reports", 0, reports, NULL}, {"raises", 0, raises, NULL}, {"fails", 0, fails, NULL}};
    port = (in_port_t)atoi(getenv("GEARMAN_PORT"));
    parent = getpid();
    atexit(end_workers);
    alarm(50);
    start_worker(functions, 4);
    gearman_client_st *client = gearman_client_create(NULL);
    CHECK(gearman_client_add_server(client, "127.0.0.1", port) == GEARMAN_SUCCESS);
    CHECK(gearman_client_echo(client, "hello", 5) == GEARMAN_SUCCESS);
    foreground(client);
    tasks(client);
    shared();
    background(client);
    executed(client);
    losses(client);
    gearman_client_free(client);
    return 0;
}
