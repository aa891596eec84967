// A job's life through beanstalk_client. Its statistics are broken, so they are left out.
const assert = require('node:assert');
const { Client } = require('beanstalk_client');

const TUBE = 'clients-beanstalk-client';

function call(connection, command, ...parameters) {
  return new Promise((resolve, reject) => {
    connection[command](...parameters, (error, ...results) => (error ? reject(error) : resolve(results)));
  });
}

async function wholeLife(connection) {
  await call(connection, 'use', TUBE);
  await call(connection, 'watch', TUBE);
  await call(connection, 'ignore', 'default');

  const [id] = await call(connection, 'put', 0, 0, 30, 'hello');
  const [reservedId, body] = await call(connection, 'reserve');
  assert.equal(reservedId, id);
  assert.equal(body, 'hello');
  await call(connection, 'bury', id, 1);
  await call(connection, 'kick', 5);

  const [again] = await call(connection, 'reserve');
  assert.equal(again, id);
  await call(connection, 'destroy', id);
  // It has no way to hang up.
  process.exit(0);
}

Client.connect(`127.0.0.1:${process.env.BEANSTALK_PORT}`, (error, connection) => {
  assert(!error, error);
  wholeLife(connection).catch((failure) => {
    console.error(failure);
    process.exit(1);
  });
});
