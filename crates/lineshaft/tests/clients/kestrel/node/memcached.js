// memcached, against the server that KESTREL_PORT names.
'use strict';
const assert = require('assert');
const { promisify } = require('util');
const Memcached = require('memcached');

function client() {
  const connection = new Memcached(`127.0.0.1:${process.env.KESTREL_PORT}`, {
    poolSize: 1,
    retries: 0,
    timeout: 10000,
  });
  for (const name of ['set', 'get', 'gets', 'del', 'stats', 'version']) {
    connection[name] = promisify(connection[name].bind(connection));
  }
  return connection;
}

async function main() {
  const connection = client();
  const other = client();
  assert.strictEqual(await connection.get('work'), undefined);
  for (const data of ['one', 'two', 'three', 'four', 'äöü']) {
    assert.strictEqual(await connection.set('work', data, 0), true);
  }
  assert.strictEqual(await connection.get('work'), 'one');

  assert.strictEqual(await connection.get('work/open'), 'two');
  assert.strictEqual(await other.get('work/peek'), 'three');
  assert.strictEqual(await connection.get('work/abort'), undefined);
  assert.strictEqual(await connection.get('work/open'), 'two');
  assert.strictEqual(await connection.get('work/close/open'), 'three');
  assert.strictEqual(await connection.get('work/close'), undefined);

  // The end of a connection gives back what it holds, to whoever waits for it.
  assert.strictEqual(await connection.get('work/open'), 'four');
  assert.strictEqual(await other.gets('work'), 'äöü');
  const waiting = other.get('work/t=9000');
  connection.end();
  assert.strictEqual(await waiting, 'four');

  const [numbers] = await other.stats();
  assert.strictEqual(numbers.queue_work_total_items, 5);
  assert.strictEqual(numbers.queue_work_items, 0);
  assert.strictEqual((await other.version())[0].version, '2.4.1');
  assert.strictEqual(await other.set('work', 'five', 60), true);
  assert.strictEqual(await other.del('work'), true);
  assert.strictEqual(await other.get('work/t=50'), undefined);
  other.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
