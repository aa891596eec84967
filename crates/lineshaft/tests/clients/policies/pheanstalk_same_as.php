<?php
// Two names of one tube through pheanstalk. The server has the policies of the test same_as.

require 'Pheanstalk/autoload.php';

use Pheanstalk\Pheanstalk;

function check(bool $holds, string $what): void
{
    if (!$holds) {
        fwrite(STDERR, "not so: $what\n");
        exit(1);
    }
}

$client = Pheanstalk::create('127.0.0.1', (int) getenv('BEANSTALK_PORT'));
$put = $client->useTube('mail')->put('from mail');
check($client->listTubeUsed(true) === 'mail', 'the tube has its name');

// A worker finds the name that it has watched, so it does not ignore its own tube.
$worker = Pheanstalk::create('127.0.0.1', (int) getenv('BEANSTALK_PORT'));
$worker->watchOnly('send_mail');
check($worker->listTubesWatched(true) === ['send_mail'], 'the worker watches the name that it has sent');
$job = $worker->watch('send_later')->reserveWithTimeout(0);
check($job->getId() == $put->getId(), 'the job of the other name is there');
check($worker->statsJob($job)['tube'] === 'mail', 'the job is in one tube');
$worker->release($job);
$worker->ignore('send_later');
check($worker->listTubesWatched(true) === ['send_mail'], 'the worker watches what it watched before');
check($worker->watchOnly('mail')->listTubesWatched(true) === ['mail'], 'the name can change');

$worker->useTube('send_mail')->put('from send_mail');
check($worker->listTubeUsed(true) === 'send_mail', 'the producer uses the name that it has sent');
check($client->statsTube('mail')['current-jobs-ready'] == 2, 'both are in one tube');
check($client->statsTube('send_mail')['current-jobs-ready'] == 2, 'by the other name, too');
check(!in_array('send_mail', $client->listTubes()), 'there is one tube');
