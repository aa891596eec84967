#!/usr/bin/perl
# Jobs of every kind through Gearman::Client and Gearman::Worker; workers are processes of their own.
use strict;
use warnings;
use Gearman::Client;
use Gearman::Task;
use Gearman::Worker;

my $server = "127.0.0.1:$ENV{GEARMAN_PORT}";
my @children;
$SIG{ALRM} = sub { die "took too long" };
alarm 50;

sub check { my ($true, $what) = @_; $true or die "FAILED: $what" }

# Runs a worker in a process of its own, with some functions.
sub start_worker {
    my %functions = @_;
    my $id = fork // die "fork: $!";
    if ($id) { push @children, $id; return $id }
    my $worker = Gearman::Worker->new(job_servers => [$server]);
    $worker->register_function($_ => @{ $functions{$_} }) for keys %functions;
    $worker->work while 1;
}

# A worker that dies runs this, too, and must not end the others.
my $parent = $$;
END { my $code = $?; if ($$ != $parent) { $? = $code; return } kill KILL => @children if @children; waitpid $_, 0 for @children; $? = $code }

my $client = Gearman::Client->new(job_servers => [$server], exceptions => 1);

start_worker(
    reverse => [sub { scalar reverse $_[0]->arg }],
    large   => [sub { "x" x $_[0]->arg }],
    fails   => [sub { undef }],
    reports => [sub { $_[0]->set_status(3, 4); "done" }],
    slow    => [sub { select undef, undef, undef, 0.3; $_[0]->arg }],
);

check(${ $client->do_task(reverse => "hello") } eq "olleh", "a result");
check(${ $client->do_task(reverse => "hello", { uniq => "-" }) } eq "olleh", "a result with the workload as the key");
check(${ $client->do_task(reverse => "high", { priority => "high" }) } eq "hgih", "high priority");
check(length ${ $client->do_task(large => 2_000_000) } == 2_000_000, "a large result");
check(!defined $client->do_task(fails => ""), "a failure has no result");

# Its worker sends a failure after the exception, is told that the job is gone, and ends: nothing else for it.
start_worker(dies => [sub { die "on purpose\n" }]);

my (@status, $exception, $failed);
my $set = $client->new_task_set;
my %results;
$set->add_task(reports => "", { on_status => sub { @status = @_ },
    on_complete => sub { $results{reports} = ${ $_[0] } } });
$set->add_task(dies => "", { on_exception => sub { $exception = $_[0] }, on_fail => sub { $failed = 1 } });
# Equal keys: one job, two tasks that hear of its end.
for my $task (qw(one two)) {
    $set->add_task(slow => $task, { uniq => "key", on_complete => sub { $results{$task} = ${ $_[0] } } });
}
$set->wait(timeout => 20);
check("@status" eq "3 4", "progress");
check($results{reports} eq "done", "a result after progress");
check($exception || $failed, "a worker that dies raises");
check($results{one} eq $results{two}, "equal keys have one result");

# In the background: the status of a job that runs, and of one that ended.
my $handle = $client->dispatch_background(slow => "x") or die "no handle";
my $seen;
for (1 .. 400) {
    my $status = $client->get_status($handle) or last;
    $seen ||= $status->known;
    last unless $status->known;
    select undef, undef, undef, 0.01;
}
check($seen, "a background job is known");
check(!$client->get_status($handle)->known, "it ends");

# A worker that dies in the middle of a job; another one does it.
my $doomed = start_worker(fragile => [sub { kill KILL => $$ }]);
$set = $client->new_task_set;
my $saved;
$set->add_task(fragile => "precious", { on_complete => sub { $saved = ${ $_[0] } } });
waitpid $doomed, 0;
start_worker(fragile => [sub { "saved " . $_[0]->arg }]);
$set->wait(timeout => 20);
check($saved eq "saved precious", "the job of a dead worker");

# A function with a timeout, in seconds: the first attempt takes too long, so that another worker gets the job.
start_worker(hangs => [1, sub { sleep 30; "late" }]);
my $answer;
$set = $client->new_task_set;
$set->add_task(hangs => "x", { on_complete => sub { $answer = ${ $_[0] } } });
select undef, undef, undef, 0.2;
start_worker(hangs => [1, sub { "in time" }]);
$set->wait(timeout => 20);
check($answer eq "in time", "a job that took too long");

# A client that gives up.
check(!defined $client->do_task(nobody => "x", { timeout => 0.3 }), "a task times out");
