'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

const { FileError, ItemError, Tokenizer, TokenizerError, WindrowError, encodeFiles, version } = require('windrow');

const gpt2 = Tokenizer.fromTiktokenSync('gpt2');

/** A tokenizer of words, whose template has one special token before a text. */
const WORDS = JSON.stringify({
  version: '1.0',
  added_tokens: [
    { id: 3, content: '<s>', single_word: false, lstrip: false, rstrip: false, normalized: false, special: true },
  ],
  normalizer: null,
  pre_tokenizer: { type: 'Whitespace' },
  post_processor: {
    type: 'TemplateProcessing',
    single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
    pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
    special_tokens: { '<s>': { id: '<s>', ids: [3], tokens: ['<s>'] } },
  },
  decoder: null,
  model: { type: 'WordLevel', vocab: { '[UNK]': 0, one: 1, two: 2, '<s>': 3 }, unk_token: '[UNK]' },
});

test('the ids of a batch are flat', async () => {
  const expected = { ids: Uint32Array.of(15496, 995, 15496), offsets: Float64Array.of(0, 2, 2, 3) };
  const texts = ['Hello world', '', 'Hello'];
  assert.deepEqual(await gpt2.encodeBatch(texts), expected);
  assert.deepEqual(gpt2.encodeBatchSync(texts), expected);
  assert.deepEqual(gpt2.encodeBatchSync(new Set(texts)), expected);
  assert.deepEqual(await gpt2.encodeBatch([]), { ids: new Uint32Array(), offsets: Float64Array.of(0) });
  assert.deepEqual(await gpt2.countBatch(texts), Float64Array.of(2, 0, 1));
  assert.deepEqual(gpt2.countBatchSync(texts), Float64Array.of(2, 0, 1));
});

test('one text is a batch of one', async () => {
  assert.deepEqual(await gpt2.encode('Hello world'), Uint32Array.of(15496, 995));
  assert.deepEqual(gpt2.encodeSync('Hello world'), Uint32Array.of(15496, 995));
  assert.equal(await gpt2.count('Hello world'), 2);
  assert.equal(gpt2.countSync('Hello world'), 2);
  assert.equal(await gpt2.decode([15496, 995]), 'Hello world');
  assert.equal(gpt2.decodeSync(Uint32Array.of(15496, 995)), 'Hello world');
});

test('texts come back', async () => {
  const texts = ['Hello wörld', '', '日本語とEnglish混在', '👨‍👩‍👧 '.repeat(1000)];
  const batch = await gpt2.encodeBatch(texts);
  assert.deepEqual(await gpt2.decodeBatch(batch), texts);
  assert.deepEqual(gpt2.decodeBatchSync(batch), texts);
  assert.deepEqual(await gpt2.decodeBatch([[15496], Uint32Array.of(995), []]), ['Hello', ' world', '']);
});

test('a call sees the texts as they were', async () => {
  const texts = Array.from({ length: 200_000 }, (_, number) => `text ${number}`);
  const expected = gpt2.encodeBatchSync(texts);
  const promise = gpt2.encodeBatch(texts);
  texts.fill('');
  assert.deepEqual(await promise, expected);
});

test('a result stays as it is, small or large', async () => {
  const some = Array.from({ length: 50_000 }, (_, number) => `The text of number ${number} is here.`);
  const first = await gpt2.encodeBatch(some);
  const ids = first.ids.slice();
  const large = await gpt2.encodeBatch(Array(8).fill(some).flat());
  assert.equal(large.ids.length, 8 * ids.length);
  for (let k = 0; k < 8; k++) {
    assert.ok(Buffer.compare(Buffer.from(large.ids.slice(k * ids.length, (k + 1) * ids.length).buffer), Buffer.from(ids.buffer)) === 0);
  }
  assert.deepEqual(first.ids, ids);
});

test('texts of all lengths are copied whole', async () => {
  // The parts of long texts have some 170,000 units, and may not cut a pair.
  for (const unit of ['ab', 'ä', '語', '😀', 'a😀']) {
    for (const length of [1, 87_381, 174_762, 174_763, 600_000]) {
      const text = unit.repeat(length / unit.length + 1);
      const batch = await gpt2.encodeBatch(['x', text, 'y']);
      assert.deepEqual(batch, gpt2.encodeBatchSync(['x', text, 'y']));
      assert.ok((await gpt2.decodeBatch(batch))[1] === text, `${unit} ${length}`);
    }
  }
});

test('ids of all numbers are copied whole', async () => {
  const text = 'Hello world, this is a text. ';
  const ids = gpt2.encodeSync(text);
  const long = Uint32Array.from({ length: 40_000 * ids.length }, (_, k) => ids[k % ids.length]);
  const many = Array.from({ length: 40_000 }, (_, k) => ids.subarray(0, k % 5));
  const starts = [0, 1, 2, 3, 4].map((length) => gpt2.decodeSync(ids.subarray(0, length)));
  const short = many.map((_, k) => starts[k % 5]);
  const expected = [...short, text.repeat(40_000), '', text.repeat(40_000), ...short];
  const batch = [...many, long, [], long, ...many];
  assert.deepEqual(await gpt2.decodeBatch(batch), expected);
  assert.deepEqual(gpt2.decodeBatchSync(batch), expected);
});

test('half of a surrogate pair is an error that says where it is', async () => {
  const long = 'a😀'.repeat(100_000);
  for (const [texts, item, index] of /** @type {const} */ ([
    [['a\ud800b'], 0, 1],
    [['', 'ab', '\udc00'], 2, 0],
    [['a', '\udc00\ud800'], 1, 0],
    // Two halves in two texts are no pair.
    [['\ud83d', '\ude00'], 0, 0],
    [['😀', 'x'.repeat(200) + '\ud83d', '\ude00'], 1, 200],
    [['a', long, `${long}\ud83d${long}`], 2, long.length],
    [[...Array(20_000).fill('a'), '\ud83d\ud83d\ude00'], 20_000, 0],
  ])) {
    const message = `item ${item}: half of a surrogate pair at index ${index} (hint: text.toWellFormed() puts U+FFFD there)`;
    const error = { name: 'ItemError', item, code: 'ERR_WINDROW_ITEM', message };
    await assert.rejects(gpt2.encodeBatch(texts), error);
    await assert.rejects(gpt2.countBatch(texts), error);
    assert.throws(() => gpt2.encodeBatchSync(texts), error);
    assert.throws(() => gpt2.countBatchSync(texts), error);
    assert.ok(gpt2.encodeBatchSync(texts.map((text) => text.toWellFormed())).ids.length > 0);
  }
  await assert.rejects(gpt2.encode('a\ud800'), { name: 'ItemError', item: 0 });
  await assert.rejects(gpt2.count('a\ud800'), { name: 'ItemError', item: 0 });
  await assert.rejects(Tokenizer.fromString('{"\ud800"}'), { name: 'TypeError', message: /^json has half of a surrogate pair at index 2/ });
});

test('one text has one answer', async () => {
  const words = await Tokenizer.fromString(WORDS);
  const [text, around, plain] = ['one two', [3, 1, 2], [1, 2]];
  for (const [options, ids] of /** @type {const} */ ([
    [undefined, around],
    [null, around],
    [{}, around],
    [{ addSpecialTokens: null }, around],
    [{ addSpecialTokens: true }, around],
    [{ addSpecialTokens: false }, plain],
  ])) {
    const expected = Uint32Array.from(ids);
    assert.deepEqual(await words.encode(text, options), expected);
    assert.deepEqual(words.encodeSync(text, options), expected);
    assert.deepEqual((await words.encodeBatch([text], options)).ids, expected);
    assert.deepEqual(words.encodeBatchSync([text], options).ids, expected);
    assert.equal(await words.count(text, options), ids.length);
    assert.equal(words.countSync(text, options), ids.length);
    assert.deepEqual(await words.countBatch([text], options), Float64Array.of(ids.length));
    assert.deepEqual(words.countBatchSync([text], options), Float64Array.of(ids.length));
  }
});

test('special tokens', async () => {
  const words = await Tokenizer.fromString(WORDS);
  assert.deepEqual(words.encodeSync('<s> one'), Uint32Array.of(3, 3, 1));
  assert.equal(words.decodeSync([3, 1, 2]), 'one two');
  assert.equal(words.decodeSync([3, 1, 2], { skipSpecialTokens: false }), '<s> one two');
  const text = '<|endoftext|>';
  assert.deepEqual(gpt2.encodeSync(text), Uint32Array.of(50256));
  assert.ok(Tokenizer.fromTiktokenSync('gpt2', { encodeSpecialTokens: true }).encodeSync(text).length > 1);
});

test('padding and truncation of a file are not applied', async () => {
  const file = { ...JSON.parse(WORDS), truncation: { direction: 'Right', max_length: 2, strategy: 'LongestFirst', stride: 0 } };
  const padding = { strategy: { Fixed: 8 }, direction: 'Right', pad_to_multiple_of: null, pad_id: 0, pad_type_id: 0, pad_token: '[UNK]' };
  const words = await Tokenizer.fromString(JSON.stringify({ ...file, padding }));
  assert.deepEqual(words.encodeSync('one two one'), Uint32Array.of(3, 1, 2, 1));
});

test('a batch of any number of items decodes', async () => {
  const items = 300_000;
  const offsets = Float64Array.from({ length: items + 1 }, (_, item) => item);
  const short = { ids: new Uint32Array(items).fill(64), offsets };
  const empty = { ids: new Uint32Array(), offsets: new Float64Array(1_000_001) };
  for (const texts of [await gpt2.decodeBatch(short), gpt2.decodeBatchSync(short)]) {
    assert.ok(texts.length === items && texts.every((text) => text === 'a'));
  }
  for (const texts of [await gpt2.decodeBatch(empty), gpt2.decodeBatchSync(empty)]) {
    assert.ok(texts.length === 1_000_000 && texts.every((text) => text === ''));
  }
});

test('a batch that was disposed of is an error wherever it is used', async () => {
  const disposed = { name: 'WindrowError', code: 'ERR_WINDROW_DISPOSED', message: /was disposed of\nhint: / };
  const batch = await gpt2.encodeBatch(['Hello world', 'Hello']);
  const some = batch.ids.subarray(0, 2);
  batch[Symbol.dispose]();
  for (const ids of [batch.ids, some]) {
    await assert.rejects(gpt2.decode(ids), disposed);
    assert.throws(() => gpt2.decodeSync(ids), disposed);
    await assert.rejects(gpt2.decodeBatch([[15496], ids]), disposed);
    assert.throws(() => gpt2.decodeBatchSync([ids]), disposed);
  }
  await assert.rejects(gpt2.decodeBatch(batch), disposed);
  assert.throws(() => gpt2.decodeBatchSync(batch), disposed);
  // That of no texts is another thing, and so are empty ids.
  assert.deepEqual(await gpt2.decodeBatch(await gpt2.encodeBatch([])), []);
  assert.deepEqual(await gpt2.decodeBatch([new Uint32Array()]), ['']);
  assert.equal(await gpt2.decode([]), '');
});

test('a batch that is disposed of while it is decoded is an error, or decodes as a whole', async () => {
  const texts = Array(100_000).fill('Hello world, this is a text. ');
  for (const wait of [0, 1, 5]) {
    for (const list of [false, true]) {
      const batch = await gpt2.encodeBatch(texts);
      const { ids, offsets } = batch;
      const items = list ? Array.from(texts.keys(), (item) => ids.subarray(offsets[item], offsets[item + 1])) : batch;
      const call = gpt2.decodeBatch(items).catch((error) => error);
      await new Promise((resolve) => setTimeout(resolve, wait));
      batch[Symbol.dispose]();
      const outcome = await call;
      assert.ok(outcome.code === 'ERR_WINDROW_DISPOSED' || outcome.length === texts.length, String(outcome));
    }
  }
});

test('a tokenizer that was disposed of is an error wherever it is used', async () => {
  const disposed = { name: 'WindrowError', code: 'ERR_WINDROW_DISPOSED', message: /^the tokenizer was disposed of\nhint: / };
  const words = /** @type {any} */ (await Tokenizer.fromString(WORDS));
  const call = words.encodeBatch(Array(1000).fill('one two'));
  const gathered = words.encode('one two');
  words[Symbol.dispose]();
  words[Symbol.dispose]();
  assert.equal((await call).ids.length, 3000);
  assert.deepEqual(await gathered, Uint32Array.of(3, 1, 2));
  for (const [method, argument] of /** @type {const} */ ([['encode', 'a'], ['count', 'a'], ['encodeBatch', ['a']], ['countBatch', ['a']], ['decode', [1]], ['decodeBatch', [[1]]]])) {
    await assert.rejects(words[method](argument), disposed);
    assert.throws(() => words[`${method}Sync`](argument), disposed);
  }
  for (const property of ['name', 'vocabSize', 'delegated']) {
    assert.throws(() => words[property], disposed);
  }
  assert.throws(() => words.explain(), disposed);
  assert.throws(() => words.tokenToId('a'), disposed);
  assert.throws(() => words.idToToken(1), disposed);
  await assert.rejects(encodeFiles('a', 'b', { tokenizer: words }), disposed);
});

test('a tokenizer says what it is', () => {
  assert.equal(gpt2.name, 'r50k_base');
  assert.equal(gpt2.vocabSize, 50257);
  assert.equal(gpt2.delegated, null);
  assert.equal(gpt2.tokenToId('Hello'), 15496);
  assert.equal(gpt2.tokenToId('no such token'), null);
  assert.equal(gpt2.idToToken(15496), 'Hello');
  assert.equal(gpt2.idToToken(60_000), null);
  assert.match(gpt2.explain(), /^engine: windrow-bpe/);
  assert.match(version, /^\d+\.\d+\.\d+$/);
});

test('files are read', async (context) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'windrow-'));
  context.after(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'tokenizer.json');
  writeFileSync(file, WORDS);
  for (const place of [file, folder, pathToFileURL(file)]) {
    assert.deepEqual((await Tokenizer.fromFile(place)).encodeSync('two one'), Uint32Array.of(3, 2, 1));
  }
  assert.equal(Tokenizer.fromFileSync(file).name, file);
  const missing = path.join(folder, 'missing.json');
  await assert.rejects(Tokenizer.fromFile(missing), (error) => {
    assert.ok(error instanceof FileError && error instanceof WindrowError && error instanceof Error);
    assert.equal(error.code, 'ENOENT');
    assert.ok(error.message.includes(missing));
    return true;
  });
});

test('what is no tokenizer is refused', async () => {
  await assert.rejects(Tokenizer.fromString('{'), { name: 'TokenizerError', code: 'ERR_WINDROW_TOKENIZER' });
  assert.throws(() => Tokenizer.fromTiktokenSync('none_base'), TokenizerError);
  assert.throws(() => Tokenizer.fromTiktokenSync('./gpt2'), /is not the name of a vocabulary\nhint: /);
  assert.throws(() => new (/** @type {any} */ (Tokenizer))({}), /create a Tokenizer with Tokenizer\.fromFile/);
});

test('an item without a result is named', async () => {
  await assert.rejects(gpt2.decodeBatch([[1], [2], [1, 60_000]]), (error) => {
    assert.ok(error instanceof ItemError);
    assert.deepEqual([error.item, error.code, error.name], [2, 'ERR_WINDROW_ITEM', 'ItemError']);
    assert.match(error.message, /^item 2: id 60000, at index 1, has no token/);
    return true;
  });
});
