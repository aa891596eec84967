#!/usr/bin/perl
# Single jobs through Gearman::Client and Gearman::Worker with TLS; the worker is a process of its own. Sets of
# tasks are left out: waiting for one, the client looks at the socket only, and misses an answer that came in one
# record with another.
use strict;
use warnings;
use Gearman::Client;
use Gearman::Worker;

my $folder = $ENV{GEARMAN_TLS};
my $server = {
    host => "127.0.0.1", port => $ENV{GEARMAN_PORT}, use_ssl => 1,
    ca_file => "$folder/authority.pem", cert_file => "$folder/client.pem", key_file => "$folder/client.key",
};
$SIG{ALRM} = sub { die "took too long" };
alarm 50;

sub check { my ($true, $what) = @_; $true or die "FAILED: $what" }

my $id = fork // die "fork: $!";
if (!$id) {
    my $worker = Gearman::Worker->new(job_servers => [$server]);
    $worker->register_function(reverse => sub { scalar reverse $_[0]->arg });
    $worker->register_function(large => sub { "x" x $_[0]->arg });
    $worker->register_function(size => sub { length $_[0]->arg });
    $worker->work while 1;
}
END { my $code = $?; if ($id) { kill KILL => $id; waitpid $id, 0 } $? = $code }

my $client = Gearman::Client->new(job_servers => [$server]);
check(${ $client->do_task(reverse => "hello") } eq "olleh", "a result");
check(${ $client->do_task(size => "x" x 2_000_000) } == 2_000_000, "a large workload");
check(length ${ $client->do_task(large => 2_000_000) } == 2_000_000, "a large result");

my $handle = $client->dispatch_background(nobody => "x") or die "no handle";
check($client->get_status($handle)->known, "a background job is known");
