// A job's whole life through the npm package beanstalkd.
const assert = require('node:assert');
const Beanstalkd = require('beanstalkd');

const TUBE = 'clients-npm-beanstalkd';

async function main() {
  const client = new (Beanstalkd.default || Beanstalkd)(
    '127.0.0.1',
    Number(process.env.BEANSTALK_PORT),
  );
  await client.connect();
  await client.use(TUBE);
  await client.watch(TUBE);
  await client.ignore('default');

  const id = await client.put(10, 0, 30, 'hello');
  const [reservedId, body] = await client.reserveWithTimeout(1);
  assert.equal(reservedId, id);
  assert.equal(body.toString(), 'hello');
  await client.touch(id);
  await client.release(id, 5, 60);
  const [delayedId] = await client.peekDelayed();
  assert.equal(delayedId, id);
  await client.kickJob(id);

  await client.reserve();
  await client.bury(id, 3);
  const [buriedId] = await client.peekBuried();
  assert.equal(buriedId, id);
  await client.kickJob(id);

  await client.reserve();
  const ofJob = await client.statsJob(id);
  assert.equal(ofJob.kicks, 2);
  await client.pauseTube(TUBE, 0);
  await client.destroy(id);
  await assert.rejects(client.reserveWithTimeout(0), (error) => /TIMED_OUT/.test(error.message || error));

  const ofTube = await client.statsTube(TUBE);
  assert.equal(ofTube.name, TUBE);
  assert((await client.listTubes()).includes('default'));
  client.quit();
}

main();
