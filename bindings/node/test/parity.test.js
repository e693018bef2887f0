'use strict';
// The ids are those of Hugging Face's `tokenizers` 0.23, for six tokenizers. Texts and files are searched under WINDROW_DATA, or in `shared/data`
// next to the workspace; without them, or without the library's addon, the tests say that they are skipped. WINDROW_STRINGS is the number of
// random strings.

const assert = require('node:assert/strict');
const { existsSync, readFileSync } = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const { Tokenizer } = require('windrow');

const data = process.env.WINDROW_DATA ?? path.join(__dirname, '../../../../shared/data');
const STRINGS = Number(process.env.WINDROW_STRINGS ?? 2000);

/** The library, or why it is missing. */
function load() {
  if (!existsSync(path.join(data, 'text/big.txt'))) {
    return { skip: `no test data in ${data}` };
  }
  try {
    return { hf: require('tokenizers').Tokenizer };
  } catch (error) {
    return { skip: `the package tokenizers cannot be loaded: ${/** @type {Error} */ (error).message}` };
  }
}

const { hf, skip } = /** @type {{ hf?: any, skip?: string }} */ (load());

/** A generator of whole numbers below a bound: the same in each run. */
function numbers(/** @type {number} */ seed) {
  let state = seed;
  return (/** @type {number} */ bound) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
}

/** Parts on which implementations differ. */
const PARTS = [
  ' ', '\n', '\r\n', '\t', '\u00a0', '\u2003', '\u3000', '\ufeff', '\0', 'a', 'A', 'the', " it's", "I'LL", "'ſ", 'ß', 'é', 'e\u0301', 'İ', 'ﬁ', '1', '23', '٣', '²', 'Ⅷ',
  '.', '...', '!?', '—', '日本', '語', '한국어', 'ไทย', 'हिन्दी', 'العربية', '😀', '👨‍👩‍👧', '🇩🇪', '\ufffd', '\u{10ffff}', '\u{1d400}',
  '<|endoftext|>', '<s>', '[MASK]', '<extra_id_0>', '<|im_start|>',
];

/** A string of parts and of single units. Halves of pairs, which have no ids, are U+FFFD. */
function random(/** @type {(bound: number) => number} */ below) {
  let text = '';
  for (let left = below(24); left > 0; left--) {
    const kind = below(4);
    text += kind < 2 ? PARTS[below(PARTS.length)] : String.fromCharCode(kind === 2 ? 32 + below(96) : below(65536));
  }
  return text.toWellFormed();
}

/** The documents of the everyday comparison: pages of English text, and texts of other scripts. */
function documents() {
  const big = readFileSync(path.join(data, 'text/big.txt'), 'utf8');
  const pages = Array.from({ length: 40 }, (_, number) => big.slice(number * 150_000, number * 150_000 + 6500));
  return [...pages, ...big.slice(0, 200_000).split('\n'), ...PARTS, ...PARTS.map((part) => `a ${part} b${part}`), ''];
}

const names = ['gpt2', 'qwen2_5', 'deepseek_v3', 'mistral_nemo', 't5_small', 'bert_base_uncased'];

for (const name of names) {
  test(`${name} has the ids of tokenizers 0.23`, { skip, timeout: 1_800_000 }, async () => {
    const file = path.join(data, `tok/${name}.json`);
    const [ours, theirs] = [await Tokenizer.fromFile(file), hf.fromFile(file)];
    const below = numbers(7);
    const texts = [...documents(), ...Array.from({ length: STRINGS }, () => random(below))];
    for (const options of [undefined, { addSpecialTokens: false }]) {
      const { ids, offsets } = await ours.encodeBatch(texts, options);
      const expected = await theirs.encodeBatch(texts, options);
      assert.equal(expected.length, offsets.length - 1);
      texts.forEach((text, item) => {
        const found = Array.from(ids.subarray(offsets[item], offsets[item + 1]));
        assert.deepEqual(found, expected[item].getIds(), `item ${item}: ${JSON.stringify(text.slice(0, 200))}`);
      });
    }
  });
}
