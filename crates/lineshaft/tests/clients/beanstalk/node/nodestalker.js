// A job's life through nodestalker, which has one command on its way at a time.
const assert = require('node:assert');
const nodestalker = require('nodestalker');

const TUBE = 'clients-nodestalker';
const client = nodestalker.Client(`127.0.0.1:${process.env.BEANSTALK_PORT}`);

function done(command) {
  return new Promise((resolve, reject) => {
    command.onSuccess(resolve);
    command.onError(reject);
  });
}

async function main() {
  await done(client.use(TUBE));
  await done(client.watch(TUBE));
  await done(client.ignore('default'));

  await done(client.put('hello'));
  const job = await done(client.reserve());
  assert.equal(job.data, 'hello');
  await done(client.bury(job.id));
  await done(client.kick(5));
  const again = await done(client.reserve_with_timeout(1));
  assert.equal(again.id, job.id);
  await done(client.deleteJob(again.id));

  await done(client.stats_tube(TUBE));
  await done(client.list_tubes());
  client.disconnect();
}

main();
