'use strict';
// Many calls at once: their signals, their memory, and what they leave of the event loop.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { getEventListeners } = require('node:events');
const path = require('node:path');
const { test } = require('node:test');
const { promisify } = require('node:util');
const vm = require('node:vm');

const { Tokenizer } = require('windrow');

const gpt2 = Tokenizer.fromTiktokenSync('gpt2');

const texts = Array.from({ length: 10_000 }, (_, number) => `Text ${number} of a chat.`);

/** A signal as older libraries make it. */
function polyfill() {
  /** @type {Set<() => void>} */
  const listeners = new Set();
  const signal = {
    aborted: false,
    addEventListener: (/** @type {string} */ _, /** @type {() => void} */ listener) => listeners.add(listener),
    removeEventListener: (/** @type {string} */ _, /** @type {() => void} */ listener) => listeners.delete(listener),
  };
  const abort = () => {
    signal.aborted = true;
    listeners.forEach((listener) => listener());
  };
  return { signal: /** @type {AbortSignal} */ (/** @type {unknown} */ (signal)), abort, listeners };
}

test('a signal has one listener, however many calls use it', async () => {
  /** @type {Error[]} */
  const warnings = [];
  const warn = (/** @type {Error} */ warning) => warnings.push(warning);
  process.on('warning', warn);
  const { signal } = new AbortController();
  const calls = Array.from({ length: 30 }, (_, number) => (number % 2 ? gpt2.encodeBatch(['a'], { signal }) : gpt2.encode('a', { signal })));
  assert.equal(getEventListeners(signal, 'abort').length, 1);
  await Promise.all(calls);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', warn);
  assert.deepEqual(warnings, []);
});

test('an abort ends all calls of its signal, and no others', async () => {
  const controllers = [new AbortController(), new AbortController()];
  const calls = Array.from({ length: 40 }, (_, number) => gpt2.encode(texts[number], { signal: controllers[number % 2].signal }));
  const batches = controllers.map(({ signal }) => gpt2.encodeBatch(texts, { signal }));
  const reason = new Error('no longer needed');
  controllers[0].abort(reason);
  for (const [number, outcome] of (await Promise.allSettled([...calls, ...batches])).entries()) {
    assert.ok(number % 2 ? outcome.status === 'fulfilled' : outcome.status === 'rejected' && outcome.reason === reason, String(number));
  }
  // A signal whose calls are over may be used again.
  assert.deepEqual(await gpt2.encode(texts[1], { signal: controllers[1].signal }), gpt2.encodeSync(texts[1]));
});

test('signals of other realms and of polyfills', async () => {
  const { signal, abort, listeners } = polyfill();
  assert.deepEqual(await gpt2.encode('a', { signal }), gpt2.encodeSync('a'));
  await gpt2.encodeBatch(['a'], { signal });
  assert.equal(listeners.size, 0);
  const call = gpt2.encodeBatch(texts, { signal });
  abort();
  await assert.rejects(call, { name: 'AbortError' });
  await assert.rejects(gpt2.encode('a', { signal }), { name: 'AbortError' });
  // The prototypes of the other realm are others.
  const other = vm.runInNewContext('Object.setPrototypeOf({ aborted: true, reason: 7, addEventListener() {} }, {})');
  await assert.rejects(gpt2.encode('a', { signal: other }), (error) => error === 7);
  const least = /** @type {any} */ ({ aborted: false, addEventListener() {} });
  assert.deepEqual(await gpt2.encode('a', { signal: least }), gpt2.encodeSync('a'));
});

test('an iterable that aborts ends its call', async () => {
  const controller = new AbortController();
  const aborts = function* () {
    yield 'a';
    controller.abort();
  };
  await assert.rejects(gpt2.encodeBatch(aborts(), { signal: controller.signal }), { name: 'AbortError' });
});

test('an item without a result fails its own call', async () => {
  const calls = Array.from({ length: 50 }, (_, number) => gpt2.decode([number % 7 === 3 ? 60_000 : 64]));
  await Promise.all(
    calls.map((call, number) =>
      number % 7 === 3 ? assert.rejects(call, { name: 'ItemError', item: 0, message: /^item 0: id 60000/ }) : call.then((text) => assert.equal(text, 'a')),
    ),
  );
});

test('ids that change after the call', async () => {
  const ids = Uint32Array.of(15496, 995);
  const call = gpt2.decode(ids);
  ids.fill(64);
  assert.equal(await call, 'Hello world');
});

const root = JSON.stringify(path.join(__dirname, '..'));

/** Output of a program. @param {string} text */
async function printed(text) {
  const program = `const { Tokenizer } = require(${root});\n(async () => {${text}})();`;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', program], { timeout: 300_000, maxBuffer: 1 << 24 });
  return stdout.trim();
}

test('thousands of calls at once are right', async () => {
  const { ids, offsets } = gpt2.encodeBatchSync(texts);
  const all = await Promise.all(texts.map((text) => gpt2.encode(text)));
  assert.deepEqual(all, texts.map((_, item) => ids.slice(offsets[item], offsets[item + 1])));
  assert.deepEqual(await Promise.all(texts.map((text) => gpt2.count(text))), all.map(({ length }) => length));
  assert.deepEqual(await Promise.all(all.map((ids) => gpt2.decode(ids))), texts);
});

test('thousands of calls at once leave the event loop to others', async () => {
  // In a process by itself: the test runner follows each promise.
  const longest = await printed(`
    const gpt2 = Tokenizer.fromTiktokenSync('gpt2');
    const texts = Array.from({ length: 10_000 }, (_, number) => 'Text ' + number + ' of a chat.');
    const rounds = [];
    for (let round = 0; round < 8; round++) {
      let [last, longest, runs] = [performance.now(), 0, true];
      const look = () => {
        const now = performance.now();
        [longest, last] = [Math.max(longest, now - last), now];
        runs && setImmediate(look);
      };
      setImmediate(look);
      await Promise.all(texts.map((text) => gpt2.encode(text)));
      runs = false;
      rounds.push(Math.round(longest));
    }
    console.log(JSON.stringify(rounds));`);
  // The first rounds compile. A job for each call took 300 ms.
  assert.ok(Math.min(...JSON.parse(longest)) < 100, `longest turns of ${longest} ms`);
});

test('tokenizers that are loaded again share their memory', async () => {
  const text = 'for (let n = 0; n < 24; n++) await Tokenizer.fromTiktoken("o200k_base"); console.log(process.memoryUsage.rss() >> 20);';
  const megabytes = Number(await printed(text));
  assert.ok(megabytes < 300, `${megabytes} MB`);
});

test('tokenizers that are not used any more are collected', async () => {
  const megabytes = Number(await printed(`
    const vocab = Object.fromEntries(Array.from({ length: 100_000 }, (_, id) => ['word' + id, id]));
    const json = JSON.stringify({ model: { type: 'WordLevel', unk_token: 'word0', vocab } });
    await Tokenizer.fromString(json);
    const before = process.memoryUsage.rss();
    let growth = 0;
    for (let load = 0; load < 30; load++) {
      await Tokenizer.fromString(json);
      growth = Math.max(growth, process.memoryUsage.rss() - before);
    }
    console.log(growth >> 20);`));
  // All of them have 500 MB.
  assert.ok(megabytes < 250, `${megabytes} MB`);
});
