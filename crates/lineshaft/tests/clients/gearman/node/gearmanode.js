// Jobs of every kind through gearmanode, whose workers sleep before they grab for the first time.
const assert = require('node:assert');
const gearmanode = require('gearmanode');

gearmanode.Client.logger.silent = true;
const options = { host: '127.0.0.1', port: Number(process.env.GEARMAN_PORT) };

// All that a job tells until its end, or until `last`.
function news(job, last = ['complete', 'failed', 'exception']) {
  return new Promise((resolve) => {
    const heard = [];
    for (const event of ['created', 'status', 'workData', 'warning', 'complete', 'failed', 'exception']) {
      job.on(event, (data) => {
        const text = event === 'complete' ? job.response : data;
        heard.push(text === undefined ? event : `${event} ${typeof text === 'object' && !Buffer.isBuffer(text)
          ? `${text.percent_done_num}/${text.percent_done_den}` : text}`);
        if (last.includes(event)) resolve(heard);
      });
    }
  });
}

async function main() {
  const worker = gearmanode.worker(options);
  worker.setWorkerId('gearmanode-worker');
  worker.addFunction('reverse', (job) => {
    job.sendWorkData(job.payload);
    job.workComplete(job.payload.toString().split('').reverse().join(''));
  });
  worker.addFunction('reports', (job) => {
    job.reportStatus(3, 4);
    job.reportWarning('careful');
    job.workComplete('done');
  });
  worker.addFunction('fails', (job) => job.reportError());

  const client = gearmanode.client(options);
  for (const priority of ['NORMAL', 'HIGH', 'LOW']) {
    const job = client.submitJob('reverse', 'hello', { priority });
    assert.deepEqual(await news(job), ['created', 'workData hello', 'complete olleh']);
  }
  assert.deepEqual(await news(client.submitJob('reports', 'x')),
    ['created', 'status 3/4', 'warning careful', 'complete done']);
  assert.deepEqual(await news(client.submitJob('fails', 'x')), ['created', 'failed']);

  // Many at once: after each job the worker goes to sleep and must be woken at once.
  const many = Array.from({ length: 50 }, (_, index) => client.submitJob('reverse', `text ${index}`));
  const heard = await Promise.all(many.map((job) => news(job)));
  heard.forEach((lines, index) => {
    assert.equal(lines.at(-1), `complete ${`text ${index}`.split('').reverse().join('')}`);
  });

  // In the background, with a status to ask for.
  for (const priority of ['NORMAL', 'HIGH', 'LOW']) {
    const job = client.submitJob('nobody', 'x', { background: true, priority });
    await news(job, ['created']);
    const answer = new Promise((resolve) => { job.on('status', resolve); });
    job.getStatus();
    const status = await answer;
    assert.ok(status.known && !status.running, JSON.stringify(status));
  }

  // A worker that goes in the middle of a job; another one gets it.
  const doomed = gearmanode.worker(options);
  doomed.addFunction('fragile', () => doomed.close());
  const fragile = news(client.submitJob('fragile', 'precious'));
  await new Promise((resolve) => { doomed.on('close', resolve); });
  worker.addFunction('fragile', (job) => job.workComplete('saved'));
  assert.equal((await fragile).at(-1), 'complete saved');
  client.close();
  worker.close();
}

setTimeout(() => { throw new Error('took too long'); }, 40_000).unref();
main().then(() => process.exit(0));
