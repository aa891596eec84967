// A job's whole life through fivebeans.
const assert = require('node:assert');
const { client: Client } = require('fivebeans');

const TUBE = 'clients-fivebeans';
const client = new Client('127.0.0.1', Number(process.env.BEANSTALK_PORT));

// The library calls back with an error and any number of results.
function call(command, ...parameters) {
  return new Promise((resolve, reject) => {
    client[command](...parameters, (error, ...results) => (error ? reject(error) : resolve(results)));
  });
}

async function wholeLife() {
  await call('use', TUBE);
  await call('watch', TUBE);
  await call('ignore', 'default');

  const [id] = await call('put', 10, 0, 30, 'hello');
  const [reservedId, body] = await call('reserve_with_timeout', 1);
  assert.equal(reservedId, id);
  assert.equal(body.toString(), 'hello');
  await call('touch', id);
  await call('release', id, 5, 60);
  const [delayedId] = await call('peek_delayed');
  assert.equal(delayedId, id);
  await call('kick_job', id);

  await call('reserve');
  await call('bury', id, 3);
  const [kicked] = await call('kick', 10);
  assert.equal(kicked, 1);

  await call('reserve');
  const [ofJob] = await call('stats_job', id);
  assert.equal(ofJob.state, 'reserved');
  assert.equal(ofJob.kicks, 2);
  await call('pause_tube', TUBE, 0);
  await call('destroy', id);
  await assert.rejects(call('reserve_with_timeout', 0), (error) => error === 'TIMED_OUT');

  const [ofTube] = await call('stats_tube', TUBE);
  assert.equal(ofTube.name, TUBE);
  const [tubes] = await call('list_tubes');
  assert(tubes.includes('default'));
  const [ofServer] = await call('stats');
  assert.equal(ofServer['max-job-size'], 65535);
  client.end();
}

client.on('error', (error) => {
  throw error;
});
client.on('connect', wholeLife);
client.connect();
