// memcache-plus, against the server that KESTREL_PORT names.
'use strict';
const assert = require('assert');
const Memcached = require('memcache-plus');

function client() {
  return new Memcached({ hosts: [`127.0.0.1:${process.env.KESTREL_PORT}`], netTimeout: 20000 });
}

async function main() {
  const connection = client();
  const other = client();
  assert.strictEqual(await connection.get('work'), null);
  for (const data of ['one', 'two', 'three', 'four']) {
    await connection.set('work', data, 60);
  }
  assert.strictEqual(await connection.get('work'), 'one');

  assert.strictEqual(await connection.get('work/open'), 'two');
  assert.strictEqual(await other.get('work/peek'), 'three');
  assert.strictEqual(await connection.get('work/abort'), null);
  assert.strictEqual(await connection.get('work/open'), 'two');
  assert.strictEqual(await connection.get('work/close/open'), 'three');
  assert.strictEqual(await connection.get('work/close'), null);

  // The end of a connection gives back what it holds, to whoever waits for it.
  assert.strictEqual(await connection.get('work/open'), 'four');
  const waiting = other.get('work/t=15000');
  await connection.disconnect();
  assert.strictEqual(await waiting, 'four');

  assert.strictEqual(await other.version(), '2.4.1');
  await other.set('work', 'five');
  assert.strictEqual(await other.delete('work'), true);
  assert.strictEqual(await other.get('work'), null);
  await other.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
