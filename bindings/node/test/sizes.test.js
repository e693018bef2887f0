'use strict';
// Batches beyond each size at which calls do something else, which are small here.

const limits = require('../lib/limits.js');

Object.assign(limits, { bytes: 1 << 9, items: 1 << 4, waiting: 1 << 11, lent: 1 << 10, decodedBytes: 1 << 8, decodedItems: 1 << 3, small: 1 << 6 });

const assert = require('node:assert/strict');
const { test } = require('node:test');

const { Tokenizer } = require('windrow');

const gpt2 = Tokenizer.fromTiktokenSync('gpt2');

/** Texts of many lengths, up to ten pieces, with characters of all widths. */
const texts = Array.from({ length: 400 }, (_, number) => 'a é語😀 text '.repeat(number % 40 === 0 ? 300 : number % 23));

const idsOfEach = texts.map((text) => gpt2.encodeSync(text));

test('texts beyond each size', async () => {
  const ids = Uint32Array.from(idsOfEach.flatMap((ids) => Array.from(ids)));
  for (const batch of [await gpt2.encodeBatch(texts), gpt2.encodeBatchSync(texts)]) {
    assert.deepEqual(batch.ids, ids);
    assert.deepEqual(Array.from(batch.offsets), idsOfEach.reduce((ends, { length }) => [...ends, ends[ends.length - 1] + length], [0]));
  }
  const counts = Float64Array.from(idsOfEach, ({ length }) => length);
  assert.deepEqual(await gpt2.countBatch(texts), counts);
  assert.deepEqual(gpt2.countBatchSync(texts), counts);
});

test('ids beyond each size', async () => {
  const batch = gpt2.encodeBatchSync(texts);
  for (const items of [batch, idsOfEach, idsOfEach.map((ids) => Array.from(ids))]) {
    assert.deepEqual(await gpt2.decodeBatch(items), texts);
    assert.deepEqual(gpt2.decodeBatchSync(items), texts);
  }
  const long = texts.join('');
  const ids = gpt2.encodeSync(long);
  assert.equal(await gpt2.decode(ids), long);
  assert.equal(gpt2.decodeSync(ids), long);
});

test('single items beyond the size of a gathered one', async () => {
  assert.deepEqual(await Promise.all(texts.map((text) => gpt2.encode(text))), idsOfEach);
  assert.deepEqual(await Promise.all(texts.map((text) => gpt2.count(text))), idsOfEach.map(({ length }) => length));
  assert.deepEqual(await Promise.all(idsOfEach.map((ids) => gpt2.decode(ids))), texts);
});

test('an error after some waiting', async () => {
  const many = [...texts, ...texts, ...texts];
  await assert.rejects(gpt2.encodeBatch([...many, '\ud800']), { item: many.length });
  await assert.rejects(gpt2.countBatch([...many, /** @type {any} */ (7)]), { name: 'TypeError', message: `item ${many.length} must be a string, not a number` });
  await assert.rejects(gpt2.decodeBatch([...idsOfEach, ...idsOfEach, [60_000]]), { item: 2 * texts.length });
  const controller = new AbortController();
  const { signal } = controller;
  const calls = [gpt2.encodeBatch(many, { signal }), gpt2.decodeBatch(idsOfEach, { signal })];
  controller.abort();
  await Promise.all(calls.map((call) => assert.rejects(call, { name: 'AbortError' })));
});
