<?php
// PHP's memcached extension, which is libmemcached, against the server that KESTREL_PORT names.
declare(strict_types=1);

function expect(mixed $wanted, mixed $got): void
{
    if ($wanted !== $got) {
        throw new RuntimeException('wanted ' . var_export($wanted, true) . ', got ' . var_export($got, true));
    }
}

function client(): Memcached
{
    $connection = new Memcached();
    $connection->setOption(Memcached::OPT_BINARY_PROTOCOL, false);
    $connection->setOption(Memcached::OPT_COMPRESSION, false);
    $connection->setOption(Memcached::OPT_RECV_TIMEOUT, 20000000);
    $connection->setOption(Memcached::OPT_POLL_TIMEOUT, 20000);
    $connection->addServer('127.0.0.1', (int) getenv('KESTREL_PORT'));
    return $connection;
}

$connection = client();
$other = client();
expect(false, $connection->get('work'));
expect(Memcached::RES_NOTFOUND, $connection->getResultCode());
foreach (['one', 'two', 'three', 'four', "\r\n\0\xff"] as $data) {
    expect(true, $connection->set('work', $data, 60));
}
expect('one', $connection->get('work'));

expect('two', $connection->get('work/open'));
expect('three', $other->get('work/peek'));
expect(false, $connection->get('work/abort'));
expect('two', $connection->get('work/open'));
expect('three', $connection->get('work/close/open'));
expect(false, $connection->get('work/close'));

// The end of a connection gives back what it holds.
expect('four', $connection->get('work/open'));
expect("\r\n\0\xff", $other->get('work'));
$connection->quit();
expect('four', $other->get('work/t=15000'));

$numbers = array_values($other->getStats())[0];
expect(5, (int) $numbers['total_items']);
expect(0, (int) $numbers['curr_items']);
expect(['2.4.1'], array_values($other->getVersion()));
expect(true, $other->set('work', 'five'));
expect(true, $other->delete('work'));
expect(false, $other->get('work'));
$other->quit();
