'use strict';
// Environments that begin and end. WINDROW_STARTS=1000 runs the long form.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { once } = require('node:events');
const { test } = require('node:test');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');

const STARTS = Number(process.env.WINDROW_STARTS ?? 12);

/** How many ids each text of the batch has. */
const IDS = 801;

/** A program, whose path to the package is that of this one. */
const program = (/** @type {string} */ text) => `const { Tokenizer } = require(${JSON.stringify(require.resolve('windrow'))});\n${text}`;

const BATCH = `
  const gpt2 = Tokenizer.fromTiktokenSync('gpt2');
  const texts = Array(2000).fill('Hello world, this is a text. '.repeat(100));
`;

const run = (/** @type {string} */ text) => promisify(execFile)(process.execPath, ['-e', program(text)], { timeout: 60_000 });

test('workers start, encode and exit', { timeout: 600_000 }, async () => {
  const texts = { done: `gpt2.encodeBatch(texts.slice(0, 20)).then(({ ids }) => parentPort.postMessage(ids.length));`, middle: `gpt2.encodeBatch(texts); setTimeout(() => process.exit(0), 5);` };
  for (const [name, text] of Object.entries(texts)) {
    for (let start = 0; start < STARTS; start++) {
      const worker = new Worker(program(`const { parentPort } = require('node:worker_threads');${BATCH}${text}`), { eval: true });
      /** @type {unknown[]} */
      const messages = [];
      worker.on('message', (message) => messages.push(message));
      const [code] = await once(worker, 'exit');
      assert.equal(code, 0);
      assert.deepEqual(messages, name === 'done' ? [20 * IDS] : []);
    }
  }
});

test('a worker is terminated in the middle of a batch', { timeout: 600_000 }, async () => {
  for (let start = 0; start < STARTS; start++) {
    const text = `${BATCH} gpt2.encodeBatch(texts); require('node:worker_threads').parentPort.postMessage(0);`;
    const worker = new Worker(program(text), { eval: true });
    await once(worker, 'message');
    await worker.terminate();
  }
});

test('only workers use the package, one after the other', { timeout: 600_000 }, async () => {
  // Each time the last environment ends, and with it the pool.
  const inner = program(`${BATCH} gpt2.encodeBatch(texts.slice(0, 50)).then(({ ids }) => require('node:worker_threads').parentPort.postMessage(ids.length));`);
  const outer = `
    const { Worker } = require('node:worker_threads');
    const { once } = require('node:events');
    (async () => {
      for (let start = 0; start < ${STARTS}; start++) {
        const worker = new Worker(${JSON.stringify(inner)}, { eval: true });
        // Both may come in one turn of the event loop, so neither is waited for after the other.
        const [[ids]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]);
        if (ids !== 50 * ${IDS}) throw new Error(String(ids));
      }
      console.log('done');
    })();
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', outer], { timeout: 600_000 });
  assert.equal(stdout, 'done\n');
});

test('a process exits in the middle of a batch', { timeout: 600_000 }, async () => {
  let late = 0;
  for (let start = 0; start < STARTS; start++) {
    const { stdout, stderr } = await run(`${BATCH} gpt2.encodeBatch(texts).then(() => console.log('too late')); setTimeout(() => process.exit(0), ${start % 20});`);
    // With other processes on the machine the batch may end before the timer fires.
    assert.ok(stderr === '' && (stdout === '' || stdout === 'too late\n'), stdout + stderr);
    late += stdout === '' ? 0 : 1;
  }
  assert.ok(late <= STARTS / 4, `${late} of ${STARTS} batches had ended`);
});

test('a process ends by itself when its batches are done', async () => {
  const { stdout } = await run(`${BATCH} gpt2.encodeBatch(texts).then(({ ids }) => console.log(ids.length));`);
  assert.equal(stdout, `${2000 * IDS}\n`);
});

test('an error that nobody catches ends a process as usual', async () => {
  await assert.rejects(run(`${BATCH} gpt2.encodeBatch([1]);`), (/** @type {any} */ error) => {
    assert.equal(error.code, 1);
    assert.match(error.stderr, /TypeError: item 0 must be a string, not a number/);
    return true;
  });
});
