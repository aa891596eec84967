<?php
// Jobs of every kind through PHP's extension; workers are processes of their own.
$port = (int) getenv('GEARMAN_PORT');
$children = [];

function check(bool $true, string $what): void
{
    if (!$true) {
        fwrite(STDERR, "FAILED: $what\n");
        exit(1);
    }
}

function start_worker(callable $prepare): int
{
    global $port, $children;
    $id = pcntl_fork();
    if ($id > 0) {
        return $children[] = $id;
    }
    $worker = new GearmanWorker();
    $worker->addServer('127.0.0.1', $port);
    $prepare($worker);
    while ($worker->work());
    posix_kill(getmypid(), SIGKILL);
}

$parent = getmypid();
register_shutdown_function(function () use ($parent) {
    global $children;
    if (getmypid() !== $parent) {
        return;
    }
    foreach ($children as $id) {
        posix_kill($id, SIGKILL);
        pcntl_waitpid($id, $status);
    }
});

start_worker(function (GearmanWorker $worker) {
    $worker->setId('php-worker');
    $worker->addFunction('reverse', fn ($job) => strrev($job->workload()));
    $worker->addFunction('fails', fn ($job) => $job->sendFail());
    $worker->addFunction('raises', fn ($job) => $job->sendException('broken'));
    $worker->addFunction('reports', function ($job) {
        $job->sendStatus(3, 4);
        $job->sendData('part');
        $job->sendWarning('careful');
        usleep(300000);
        return 'done';
    });
});

$client = new GearmanClient();
$client->addServer('127.0.0.1', $port);
$client->setTimeout(20000);
check($client->ping('hello'), 'echo');
check($client->doNormal('reverse', 'hello') === 'olleh', 'a result');
check($client->doHigh('reverse', 'high') === 'hgih', 'high priority');
check($client->doLow('reverse', 'low') === 'wol', 'low priority');
$large = random_bytes(1500000);
check($client->doNormal('reverse', $large) === strrev($large), 'a large workload and result');
$client->doNormal('fails', 'x');
check($client->returnCode() === GEARMAN_WORK_FAIL, 'a failure');

$heard = [];
$hear = function (string $what) use (&$heard) {
    return function ($task) use (&$heard, $what) {
        $heard[] = $what === 'status'
            ? "status {$task->taskNumerator()}/{$task->taskDenominator()}" : "$what {$task->data()}";
    };
};
$client->setStatusCallback($hear('status'));
$client->setDataCallback($hear('data'));
$client->setWarningCallback($hear('warning'));
$client->setCompleteCallback($hear('complete'));
$client->setExceptionCallback($hear('exception'));
$client->addTask('reports', 'x');
check($client->runTasks(), 'tasks run');
check(array_values(array_unique($heard)) === ['status 3/4', 'data part', 'warning careful', 'complete done'],
    'news of a job: ' . json_encode($heard));
$heard = [];
$client->addTask('raises', 'x');
$client->runTasks();
check(in_array('exception broken', $heard), 'an exception: ' . json_encode($heard));

// In the background, with progress to be asked for, and equal keys.
foreach (['doBackground', 'doHighBackground', 'doLowBackground'] as $submit) {
    $handle = $client->$submit('reports', 'x');
    $limit = microtime(true) + 15;
    do {
        [$known, $running, $numerator, $denominator] = $client->jobStatus($handle);
        usleep(10000);
    } while (!$running && microtime(true) < $limit);
    check($known && $running, "$submit: a job is running");
    while ($client->jobStatus($handle)[0]) {
        check(microtime(true) < $limit, "$submit: a job ends");
        usleep(10000);
    }
}
$first = $client->doBackground('nobody', 'one', 'key');
check($first === $client->doBackground('nobody', 'two', 'key'), 'equal keys are one job');
check($first !== $client->doBackground('nobody', 'two', 'other'), 'other keys are other jobs');
// A client of its own: after the answer the library's next request on the same one never ends.
$asking = new GearmanClient();
$asking->addServer('127.0.0.1', $port);
check($asking->jobStatusByUniqueKey('key')[0], 'a job is found by its key');

// A worker that dies in the middle of a job; another one does it.
$handle = $client->doBackground('fragile', 'precious');
$doomed = start_worker(fn ($worker) => $worker->addFunction('fragile', fn () => posix_kill(getmypid(), SIGKILL)));
pcntl_waitpid($doomed, $status);
check($client->jobStatus($handle)[0], 'the job of a dead worker waits');
start_worker(fn ($worker) => $worker->addFunction('fragile', fn () => 'saved'));
$limit = microtime(true) + 15;
while ($client->jobStatus($handle)[0]) {
    check(microtime(true) < $limit, 'another worker does it');
    usleep(10000);
}

// A client that gives up.
$hasty = new GearmanClient();
$hasty->addServer('127.0.0.1', $port);
$hasty->setTimeout(300);
@$hasty->doNormal('nobody', 'x');
check($hasty->returnCode() === GEARMAN_TIMEOUT, 'a timeout');

// A worker that waits for a limited time.
$worker = new GearmanWorker();
$worker->addServer('127.0.0.1', $port);
$worker->addFunction('idle', fn () => '');
$worker->setTimeout(200);
@$worker->work();
check($worker->returnCode() === GEARMAN_TIMEOUT, 'an idle worker');
