// A job's whole life through jackd, and commands that it pipelines.
const assert = require('node:assert');
const Jackd = require('jackd');

const TUBE = 'clients-jackd';

async function main() {
  const client = new (Jackd.default || Jackd)();
  await client.connect({ host: '127.0.0.1', port: Number(process.env.BEANSTALK_PORT) });
  await client.use(TUBE);
  await client.watch(TUBE);
  await client.ignore('default');

  const id = await client.put('hello', { priority: 5, ttr: 30 });
  const job = await client.reserveWithTimeout(1);
  assert.equal(String(job.id), String(id));
  assert.equal(job.payload.toString(), 'hello');
  await client.touch(id);
  await client.release(id, { delay: 60 });
  assert.equal(String((await client.peekDelayed()).id), String(id));
  await client.kickJob(id);

  await client.reserve();
  await client.bury(id);
  assert.equal(await client.kick(3), 1);

  await client.reserve();
  assert.match(String(await client.statsJob(id)), /kicks: 2/);
  assert.match(String(await client.statsTube(TUBE)), new RegExp(`name: "?${TUBE}"?\n`));
  await client.delete(id);
  await assert.rejects(client.reserveWithTimeout(0), /TIMED_OUT/);
  assert.match(JSON.stringify(await client.listTubes()), /default/);

  const bodies = Array.from({ length: 100 }, (_, index) => `pipelined ${index}`);
  const ids = await Promise.all(bodies.map((body) => client.put(body)));
  assert.equal(new Set(ids.map(String)).size, bodies.length);
  await Promise.all(ids.map((pipelinedId) => client.delete(pipelinedId)));
  await client.disconnect();
}

main();
