<?php
// A job's whole life through pheanstalk, and what a Laravel worker asks in its loop.

require 'Pheanstalk/autoload.php';

use Pheanstalk\Pheanstalk;

const TUBE = 'clients-pheanstalk';

function check(bool $holds, string $what): void
{
    if (!$holds) {
        fwrite(STDERR, "not so: $what\n");
        exit(1);
    }
}

$client = Pheanstalk::create('127.0.0.1', (int) getenv('BEANSTALK_PORT'));
$client->useTube(TUBE);
$client->watch(TUBE);
$client->ignore('default');

$put = $client->put('hello', 10, 0, 30);

$job = $client->reserveWithTimeout(1);
check($job->getId() == $put->getId(), 'the reserved job is the one put');
check($job->getData() === 'hello', 'its body is the one put');
$client->touch($job);
$client->release($job, 5, 60);
check($client->peekDelayed()->getId() == $put->getId(), 'the released job is delayed');
$client->kickJob($put);

$job = $client->reserve();
$client->bury($job);
check($client->peekBuried()->getId() == $put->getId(), 'the job is buried');
check($client->kick(5) == 1, 'one job was kicked');

$job = $client->reserve();
$ofJob = $client->statsJob($job);
check($ofJob['kicks'] == 2, 'it was kicked twice');
check($ofJob['reserves'] == 3, 'it was reserved three times');
$client->delete($job);
check($client->reserveWithTimeout(0) === null, 'the tube is empty');

$client->pauseTube(TUBE, 60);
$client->resumeTube(TUBE);
$ofTube = $client->statsTube(TUBE);
check($ofTube['name'] === TUBE, 'the statistics name the tube without quotes');
check($ofTube['current-jobs-ready'] == 0, 'no job is ready');
check($client->stats()['max-job-size'] == 65535, 'the size limit is the default one');
check(in_array('default', $client->listTubes()), 'the default tube exists');
check($client->listTubesWatched() === [TUBE], 'one tube is watched');
check($client->listTubeUsed() === TUBE, 'the tube is used');
