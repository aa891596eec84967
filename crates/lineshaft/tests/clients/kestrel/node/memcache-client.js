// memcache-client, against the server that KESTREL_PORT names. It looks for the key that it sent among
// the replies, which an option is no part of, so open reads go by send().
'use strict';
const assert = require('assert');
const { MemcacheClient } = require('memcache-client');

function client() {
  const server = { server: `127.0.0.1:${process.env.KESTREL_PORT}`, maxConnections: 1 };
  return new MemcacheClient({ server, cmdTimeout: 20000 });
}

async function get(connection, key) {
  const found = await connection.get(key);
  return found && found.value;
}

async function read(connection, queue, options) {
  const found = (await connection.send(`get ${queue}${options}\r\n`))[queue];
  return found && found.value;
}

async function main() {
  const connection = client();
  const other = client();
  assert.strictEqual(await get(connection, 'work'), undefined);
  for (const data of ['one', 'two', 'three', 'four']) {
    assert.deepStrictEqual(await connection.set('work', data, { lifetime: 60 }), ['STORED']);
  }
  assert.strictEqual(await get(connection, 'work'), 'one');

  assert.strictEqual(await read(connection, 'work', '/open'), 'two');
  assert.strictEqual(await read(other, 'work', '/peek'), 'three');
  assert.strictEqual(await read(connection, 'work', '/abort'), undefined);
  assert.strictEqual(await read(connection, 'work', '/open'), 'two');
  assert.strictEqual(await read(connection, 'work', '/close/open'), 'three');
  assert.strictEqual(await read(connection, 'work', '/close'), undefined);

  // The end of a connection gives back what it holds, to whoever waits for it.
  assert.strictEqual(await read(connection, 'work', '/open'), 'four');
  const waiting = read(other, 'work', '/t=15000');
  connection.shutdown();
  assert.strictEqual(await waiting, 'four');

  const numbers = new Map((await other.cmd('stats')).STAT);
  assert.strictEqual(numbers.get('queue_work_total_items'), '4');
  assert.strictEqual(numbers.get('queue_work_items'), '0');
  assert.deepStrictEqual(await other.version(), ['VERSION', '2.4.1']);
  assert.deepStrictEqual(await other.set('work', 'five'), ['STORED']);
  assert.deepStrictEqual(await other.delete('work'), ['DELETED']);
  assert.strictEqual(await get(other, 'work'), undefined);
  other.shutdown();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
