//! The section of the page that explains each measurement.

use super::result::Comparison;
use crate::compare::plan::sizes;

pub(super) fn text(comparison: &Comparison) -> String {
    let sizes = &comparison.sizes;
    format!(
        "\n## Method\n\n\
         - {rounds} rounds. Each round makes every measurement once on every server, one server after\n  \
         the other, in an order that changes from round to round. The table shows medians of the\n  \
         rounds. Where servers take turns within a round, it shows the median of the rounds'\n  \
         ratios. Each measurement begins with a fresh server and an empty folder (except restarts).\n\
         - Servers are bound to processor {server}, the load generator to processor {generator}.\n  \
         Everything goes over loopback. Bodies have 100 bytes unless the row says otherwise.\n\
         - `50×32` means 50 connections with 32 operations in flight on each. The loop is closed:\n  \
         each operation that ends starts the next one. After {warm_up:.1} s of warm-up, the\n  \
         measurement takes {seconds:.1} s, or longer, until two operations have ended for each one\n  \
         in flight.\n\
         - Redis keeps nothing (`--save '' --appendonly no`). A put is `LPUSH`, and a take is `RPOP`,\n  \
         after which Redis forgets the job. Kestrel's `SET` and `GET` on Lineshaft's memcache side\n  \
         do the same.\n\
         - NATS (T20) has one server with a stream in a file (`retention: workqueue`). A put is a\n  \
         publish that the stream acknowledges. A take is a message of a pull consumer and its\n  \
         confirmed acknowledgement, without a warm-up. With \"sync always\", `sync_interval` is\n  \
         `always`; the default is two minutes. RabbitMQ has a quorum queue of one server. A put is a\n  \
         persistent message with a confirm. A take is a delivered message and its acknowledgement,\n  \
         which has no reply.\n\
         - Takes are pairs of `reserve-with-timeout 0` and `delete`. Before them the queue is filled,\n  \
         for at most {fill_seconds:.1} s or {fill} jobs.\n\
         - Processor time comes from the scheduler's accounting of all threads of the server\n  \
         (`schedstat`), memory from the resident size in `smaps_rollup`.\n\
         - \"append + fdatasync\" is a loop in this program: append 100 bytes to a growing file, sync,\n  \
         repeat.\n\
         - The bare loop (the rows with an `m` or a `k`) is a server in this program with one thread:\n  \
         it reads from all sockets that are readable, and answers each put at once. With an `m`, it\n  \
         keeps no job. With a `k`, it copies each job to new memory, with 100 bytes beside the body,\n  \
         and never frees it. With a sync, it first writes all puts of the round to a file that is\n  \
         filled before, and syncs it. In T12k, Gearman's background submits are its puts. In T13m, it\n  \
         passes a job to a worker, and the result to the client. So these rows show about the most\n  \
         that a server with one thread can reach beside this load generator, whatever its queue\n  \
         costs.\n\
         - With 20,000 queues in use, a `use` of another queue comes before each put. Takers watch\n  \
         one queue. The servers with one queue and with many run side by side. They are loaded in\n  \
         turn, {turns} times for {turn:.2} s each, because a machine changes from one second to the\n  \
         next.\n\
         - Limits for each key (T21): a queue has {blocked_jobs} jobs with {blocked_keys} keys, and a\n  \
         limit of one leased job for each key. One job of each key is leased, so the others must wait.\n  \
         Behind them are jobs with a free key (`1×1`), or with more free keys than there are\n  \
         connections. The takes get only these. The other server has the same jobs and leases, and no\n  \
         limit. In T21b, another queue has a hundredth of these jobs and keys. The servers take turns\n  \
         as with many queues.\n\
         - Latency: one put at a time to a consumer that already waits in `reserve`, 500 per second\n  \
         on each server. The servers take turns after each put.\n\
         - Gearman: submits are `SUBMIT_JOB_BG` without a unique key. Takes are `GRAB_JOB` and\n  \
         `WORK_COMPLETE`, with {backlog} jobs queued at the start and no warm-up. A foreground job\n  \
         goes to a worker that was asleep; the next one follows its result. {idle} sleeping workers\n  \
         are registered one after the other. A job wakes all workers of its function; the time ends\n  \
         with the `NOOP` at one of them, each time another one.\n\
         - Timers: {timers} delays of 1 s, {timers} ttr of 2 s on connections that stay silent, and\n  \
         {timers} timeouts of 1 s, all at once. \"busy\" adds 20,000 puts per second. A timer that\n  \
         never fires counts as 5 s late.\n\
         - A quiet client (L2, L3) puts, reserves and deletes one job every 2 ms. The server speaks\n  \
         all protocols and always syncs. For L3 it holds {heavy_jobs} jobs and {heavy_queues}\n  \
         queues. Each load is a loop of requests unless the row says otherwise. The client is\n  \
         measured alone for {alone:.1} s, then beside the load for {quiet:.1} s. The ratio is to\n  \
         the median of its times alone, over all loads. With a log, large bodies measure the\n  \
         disk, so that row uses a server in memory. There are {idle_beside} idle connections. For\n  \
         L2, {burst_jobs} Gearman jobs are due in the same second.\n\
         - The first five loads of L3 have no goal. The first makes no request: on each of the two\n  \
         processors, a program runs whenever the processor would be idle. The other four (`ignore`,\n  \
         `put`, jobs that come and go) are ordinary requests. They show how much of a ratio comes\n  \
         from the processors and the disk of the machine: compare a row with the one that is most\n  \
         like it.\n\
         - \"p99 without waits for a processor\" (L3) leaves out the time in which the client's thread,\n  \
         the server's I/O thread or its committer was ready to run, while another thread had its\n  \
         processor. So it shows what the load costs a quiet client where each thread gets a\n  \
         processor at once.\n\
         - One and two I/O threads (T17b): the servers take turns as with many queues. Each can use\n  \
         both processors; the load generator uses one of them.\n\
         - Cost among many jobs (T18): one operation puts a job, reserves the first job of the queue\n  \
         and deletes that one, so the number of jobs stays the same. `--cost-jobs` sets the largest\n  \
         number, up to 30 million. Each server is compared with itself at 1,000 jobs.\n\
         - Disks of other speeds (T9b, T9bm, T9c): a small library replaces `fsync` and `fdatasync` of the\n  \
         servers. Their data is in memory, and each sync takes the chosen time. The servers take\n  \
         turns as with many queues. beanstalkd -b replies before the sync, and syncs every 50 ms. If\n  \
         each of 50 clients waits for a sync of 1 ms, no server can reach more than 50,000 puts per\n  \
         second, so this row can be below its floor on any machine.\n\
         - Bodies (T19): the limit of a job is 2 MiB on all servers. Takes begin with {fill_mib} MiB of\n  \
         bodies, but at most {fill} jobs, without a warm-up, and end at the latest with the last job.\n\
         - Limit of memory (M7): jobs, submits and items of many sizes are put until the server\n  \
         refuses one. Then half of the jobs are deleted and others put. The higher of the two\n  \
         resident sizes counts.\n\
         - Memory: {memory_jobs} jobs are deleted in random order, and memory is read 3 s later.\n  \
         {idle} connections sent one request each; memory is read 3 s after the last one. For M2,\n  \
         `memory.bodies` is 1 MiB.\n\
         - Deep queue (M3): `memory.jobs` and `memory.bodies` are {cold} MiB each, and {deep_jobs}\n  \
         jobs are put (`--deep-jobs`). Memory per job is the growth from a quarter of the jobs to\n  \
         all jobs. It is read when a file of the log has just begun, after jobs have become cold.\n  \
         Before the fill and after it, {deep_turn} jobs are put, and as many are taken, {turns}\n  \
         times. The ratios compare these rates. At the end, all jobs are taken in ten parts. Before\n  \
         and after each part, {deep_turn} jobs go through a short queue of the same server; the\n  \
         ratio is the median of the parts. The goal of the ratios is 0.7, and that of the highest\n  \
         resident memory is 1 GiB for 100 million jobs.\n\
         - Restart: {restart_jobs} jobs of 20 bytes (D1) or {large_restart_jobs} jobs of 100 bytes\n  \
         (D2), SIGKILL, start. The time ends with the first reply, and every job must be there. The\n  \
         page cache is warm for every server, and each can use both processors. Both rows also use\n  \
         the server with cold jobs of M3, and wait until its index files are complete before they\n  \
         end it. A running server has them, but for its newest file.\n\
         - Log (D3, D4): {log_jobs} jobs wait, in the queue that is consumed in order or in a queue\n  \
         that nobody takes from. Meanwhile, {log_traffic} jobs are put, taken and deleted, 50,000 at\n  \
         a time. Every 50 ms, the blocks of all files in the data folder are compared with the\n  \
         metric `lineshaft_log_live_bytes`; the highest ratio counts. The goal's reach is 1.85\n  \
         times the live bytes plus 3 segments. D4 divides `lineshaft_log_written_bytes_total` by\n  \
         `lineshaft_log_client_bytes_total`, without the first quarter of the traffic.\n\n\
         To repeat it on your machine:\n\n    {command}\n",
        rounds = comparison.rounds,
        server = comparison.server_cpu,
        generator = comparison.generator_cpu,
        warm_up = sizes.warm_up.as_secs_f64(),
        seconds = sizes.duration.as_secs_f64(),
        turns = sizes::TURNS,
        turn = (sizes.duration / sizes::TURNS).as_secs_f64(),
        fill_seconds = 2.0 * (sizes.duration + sizes.warm_up).as_secs_f64(),
        fill = sizes.fill_jobs,
        fill_mib = sizes.fill_bytes >> 20,
        backlog = sizes.backlog_jobs,
        blocked_jobs = sizes.blocked_jobs,
        blocked_keys = sizes.blocked_keys,
        timers = sizes.timers,
        heavy_jobs = sizes.heavy_jobs,
        heavy_queues = sizes.heavy_queues,
        quiet = 2.0 * sizes.duration.as_secs_f64(),
        alone = sizes.duration.as_secs_f64(),
        idle_beside = sizes.idle_beside,
        burst_jobs = sizes.burst_jobs,
        memory_jobs = sizes.memory_jobs,
        idle = sizes.idle_connections,
        cold = sizes::COLD_RECORDS_BYTES >> 20,
        deep_jobs = sizes.deep_jobs,
        deep_turn = sizes.backlog_jobs / 4,
        restart_jobs = sizes.restart_jobs,
        large_restart_jobs = sizes.large_restart_jobs,
        log_jobs = sizes.log_jobs,
        log_traffic = sizes.log_traffic,
        command = comparison.command,
    )
}
