'use strict';
// What else the thread of the event loop can do while a batch runs.

const assert = require('node:assert/strict');
const { monitorEventLoopDelay } = require('node:perf_hooks');
const { test } = require('node:test');

const { Tokenizer } = require('windrow');

const gpt2 = Tokenizer.fromTiktokenSync('gpt2');

/** English enough, in documents of 6.5 KB: some 30 MB. */
const documents = Array.from({ length: 4600 }, (_, number) =>
  `The ${number}th document has words, numbers like ${number * 7919} and some punctuation. `.repeat(90).slice(0, 6500),
);

test('the event loop goes on', async () => {
  for (const work of [
    () => gpt2.encodeBatch(documents),
    () => gpt2.encodeBatch([documents.join('')]),
    () => gpt2.countBatch(documents),
    async () => gpt2.decodeBatch(await gpt2.encodeBatch(documents)),
  ]) {
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    await work();
    delay.disable();
    // `bench/node` measures it on a quiet machine. This finds work on the wrong thread, also while other processes run.
    assert.ok(delay.percentile(95) < 20e6, `95th percentile of ${delay.percentile(95) / 1e6} ms`);
  }
});

test('an abort ends a batch', async () => {
  for (const work of [
    (/** @type {AbortSignal} */ signal) => gpt2.encodeBatch([...documents, ...documents, ...documents], { signal }),
    (/** @type {AbortSignal} */ signal) => gpt2.encode(documents.join(''), { signal }),
  ]) {
    const controller = new AbortController();
    const reason = new Error('no longer needed');
    let aborted = 0;
    setTimeout(() => {
      aborted = performance.now();
      controller.abort(reason);
    }, 30);
    await assert.rejects(work(controller.signal), reason);
    const took = performance.now() - aborted;
    assert.ok(aborted > 0 && took < 100, `${took} ms`);
  }
});

test('an aborted signal begins nothing', async () => {
  const signal = AbortSignal.abort();
  await assert.rejects(gpt2.encodeBatch(['a'], { signal }), { name: 'AbortError' });
  await assert.rejects(gpt2.decodeBatch([[1]], { signal }), { name: 'AbortError' });
});

test('calls run side by side, and a signal that is not used any more is let go', async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const calls = Array.from({ length: 300 }, (_, number) => gpt2.encodeBatch(documents.slice(number, number + 3), { signal }));
  const batches = await Promise.all(calls);
  batches.forEach((batch, number) => assert.deepEqual(batch, gpt2.encodeBatchSync(documents.slice(number, number + 3))));
  controller.abort();
});

test('memory of results is given back', async () => {
  const some = documents.slice(0, 1000);
  /** @type {number[]} */
  const resident = [];
  for (let batch = 0; batch < 50; batch++) {
    await gpt2.encodeBatch(some);
    resident.push(process.memoryUsage.rss());
  }
  const growth = resident[49] / resident[4];
  assert.ok(growth < 1.25, `from the fifth batch to the fiftieth the process grew by a factor of ${growth}`);
});

test('a batch gives its memory back', async () => {
  for (const count of [50, 4600]) {
    // Both a result that is copied and one that is lent.
    const texts = documents.slice(0, count);
    for (const batch of [await gpt2.encodeBatch(texts), gpt2.encodeBatchSync(texts)]) {
      const [some, { buffer }] = [batch.ids.subarray(0, 2), batch.ids];
      assert.equal(some.length, 2);
      assert.deepEqual(Object.keys(batch), ['ids', 'offsets']);
      batch[Symbol.dispose]();
      assert.deepEqual([batch.ids.length, batch.offsets.length, some.length, buffer.byteLength], [0, 0, 0, 0]);
      batch[Symbol.dispose]();
    }
  }
});

test('memory of batches that are given back is flat', { skip: process.platform !== 'linux' }, async () => {
  const texts = documents.slice(0, 100);
  const resident = [];
  for (let number = 1; number <= 50; number++) {
    (await gpt2.encodeBatch(texts))[Symbol.dispose]();
    resident.push(process.memoryUsage.rss());
  }
  assert.ok(resident[49] <= 1.05 * resident[4], `${resident[4]} bytes after five batches, ${resident[49]} after 50`);
});

test('a loop without turns of the event loop gives memory back, too', () => {
  const before = process.memoryUsage.rss();
  let bytes = 0;
  for (let batch = 0; batch < 60; batch++) {
    bytes += gpt2.encodeBatchSync(documents).ids.byteLength;
  }
  const growth = process.memoryUsage.rss() - before;
  assert.ok(growth < bytes / 4, `${growth} bytes for results of ${bytes}`);
});
