// Client and worker on one connection, through abraxas, and the text commands.
const assert = require('node:assert');
const Gearman = require('abraxas');

const options = { host: '127.0.0.1', port: Number(process.env.GEARMAN_PORT), defaultEncoding: 'utf8' };

async function until(condition) {
  const started = Date.now();
  while (!(await condition())) {
    assert.ok(Date.now() - started < 20_000, 'never true');
    await new Promise((resolve) => { setTimeout(resolve, 20); });
  }
}

async function main() {
  const gearman = Gearman.Client.connect(options);
  gearman.setClientId('abraxas-worker');
  gearman.registerWorker('upper', (task) => task.payload.toUpperCase());
  gearman.registerWorker('raises', () => { throw new Error('broken'); });
  gearman.registerWorker('reports', (task) => {
    task.warn('careful');
    task.status(0.5);
    task.end('done');
  });

  assert.equal(await gearman.echo('hello'), 'hello');
  assert.equal(await gearman.submitJob('upper', 'hello'), 'HELLO');
  assert.equal(await gearman.submitJob('upper', { priority: 'high' }, 'high'), 'HIGH');
  assert.equal(await gearman.submitJob('upper', { priority: 'low' }, 'low'), 'LOW');
  const texts = Array.from({ length: 50 }, (_, index) => `text ${index}`);
  const results = await Promise.all(texts.map((text) => gearman.submitJob('upper', text)));
  assert.deepEqual(results, texts.map((text) => text.toUpperCase()));

  const news = [];
  const job = gearman.submitJob('reports', 'x');
  job.on('status', (status) => news.push(status));
  job.on('warn', (warning) => news.push(String(warning)));
  assert.equal(await job, 'done');
  assert.equal(news.length, 2, JSON.stringify(news));

  // In the background, with and without a time.
  const statusOf = (handle) => new Promise((resolve, reject) => {
    gearman.getStatus(handle, (error, status) => { if (error) reject(error); else resolve(status); });
  });
  const ran = [];
  gearman.registerWorker('later', (task) => { ran.push(task.payload); return ''; });
  const handle = await gearman.submitJobBg('later', 'background');
  await until(async () => !(await statusOf(handle)).known);
  await gearman.submitJobAt('later', Math.floor(Date.now() / 1000) - 5, 'past');
  await until(() => ran.length === 2);
  assert.deepEqual(ran, ['background', 'past']);
  const waiting = await gearman.submitJobBg('nobody', 'x');
  assert.equal((await statusOf(waiting)).known, 1);

  // A worker whose connection ends in the middle of a job.
  const doomed = Gearman.Client.connect(options);
  const begun = new Promise((resolve) => { doomed.registerWorker('fragile', (task) => { resolve(task); }); });
  const saved = gearman.submitJob('fragile', 'x');
  await begun;
  doomed.disconnect();
  gearman.registerWorker('fragile', () => 'saved');
  assert.equal(await saved, 'saved');

  const [status] = await gearman.status();
  assert.equal(status.nobody.inqueue, 1, JSON.stringify(status));
  const workers = JSON.stringify(await gearman.workers());
  assert.match(workers, /abraxas-worker/);

  // At the end: its worker sends a failure after the exception, and takes the server's complaint for the answer to
  // whatever it asks next.
  await assert.rejects(async () => { await gearman.submitJob('raises', 'x'); }, /broken/);
  gearman.disconnect();
}

setTimeout(() => { throw new Error('took too long'); }, 40_000).unref();
main().then(() => process.exit(0));
