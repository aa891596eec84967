// Client and worker on one connection, through node-gearman.
const assert = require('node:assert');
const Gearman = require('node-gearman');

const port = Number(process.env.GEARMAN_PORT);

function outcome(job) {
  return new Promise((resolve, reject) => {
    const parts = [];
    job.on('data', (data) => parts.push(data.toString()));
    job.on('end', () => resolve(parts));
    job.on('error', reject);
    job.on('timeout', reject);
  });
}

async function main() {
  const gearman = new Gearman('127.0.0.1', port);
  gearman.registerWorker('reverse', (payload, worker) => {
    worker.end(payload.toString().split('').reverse().join(''));
  });
  gearman.registerWorker('parts', (payload, worker) => {
    worker.write('one');
    worker.write('two');
    worker.end('three');
  });
  gearman.registerWorker('fails', (payload, worker) => worker.error());

  assert.deepEqual(await outcome(gearman.submitJob('reverse', 'hello')), ['olleh']);
  assert.deepEqual(await outcome(gearman.submitJob('parts', 'x')), ['one', 'two', 'three']);
  await assert.rejects(outcome(gearman.submitJob('fails', 'x')), /Job failed/);
  for (const priority of ['high', 'low']) {
    assert.deepEqual(await outcome(gearman.submitJob('reverse', 'ab', false, { priority })), ['ba']);
  }
  const texts = Array.from({ length: 100 }, (_, index) => `text ${index}`);
  const reversed = texts.map((text) => [text.split('').reverse().join('')]);
  assert.deepEqual(await Promise.all(texts.map((text) => outcome(gearman.submitJob('reverse', text)))), reversed);

  // In the background: what it does is its only trace. The library ends its workload with a NUL byte.
  const ran = new Promise((resolve) => {
    gearman.registerWorker('later', (payload, worker) => {
      worker.end();
      resolve(payload.toString());
    });
  });
  gearman.submitJob('later', 'background', false, { background: true });
  assert.equal(await ran, 'background\0');

  // A worker whose connection ends in the middle of a job: the next one gets it.
  const doomed = new Gearman('127.0.0.1', port);
  doomed.registerWorker('fragile', () => doomed.close());
  const saved = outcome(gearman.submitJob('fragile', 'x'));
  await new Promise((resolve) => { doomed.on('close', resolve); });
  gearman.registerWorker('fragile', (payload, worker) => worker.end('saved'));
  assert.deepEqual(await saved, ['saved']);

  const nobody = gearman.submitJob('nobody', 'x');
  nobody.setTimeout(200);
  await assert.rejects(outcome(nobody), /Timeout exceeded/);
  gearman.close();
}

setTimeout(() => { throw new Error('took too long'); }, 40_000).unref();
main();
