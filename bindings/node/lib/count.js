'use strict';

const { kindOf, later, optionsOf, signalOf, throwIfAborted } = require('./door.js');
const { InputError } = require('./errors.js');
const { loadedOf, plainOf, snakeOf } = require('./files.js');
const native = require('./native.js');
const { iterableOf, nativeOf, pathOf } = require('./tokenizer.js');
const { inOptions } = require('./words.js');

/**
 * What `countFiles` has found: the object of `windrow count --json`, and the notes of the command.
 * @typedef {object} Counts
 * @property {string} tokenizer
 * @property {{ path: string, bytes: number, tokens: number }[]} files
 * @property {{ files: number, bytes: number, tokens: number }} total
 * @property {string[]} binary Binary files of folders, which are skipped.
 * @property {string[]} errors Why files have no count.
 * @property {string[]} notes
 */

/**
 * @typedef {object} CountFilesOptions
 * @property {import('./tokenizer.js').Tokenizer | string | URL | null} [tokenizer] A tokenizer, a tiktoken name, or the path to a file. Default:
 * `o200k_base`.
 * @property {'fail' | 'skip' | null} [onError] What to do about a file that has no count: `fail` throws, once the others are counted, an error whose
 * `counts` are theirs. Default: `fail`.
 * @property {boolean | null} [raw] Counts the bytes of each file as they lie, as one text.
 * @property {number | null} [top] Lists only this number of files, those with the most tokens.
 * @property {AbortSignal | null} [signal] Ends the run.
 */

/**
 * The options of the command `windrow count`, and those of a call.
 * @typedef {Pick<import('./options.js').RunOptions, 'allText' | 'ext' | 'field' | 'hidden' | 'inputFormat' | 'join' | 'lines' | 'memory' | 'noIgnore'
 * | 'specialInText' | 'threads'> & CountFilesOptions} CountOptions
 */

const NAMES = ['allText', 'ext', 'field', 'hidden', 'inputFormat', 'join', 'lines', 'memory', 'noIgnore', 'raw', 'specialInText', 'threads', 'top'];

/**
 * Counts the tokens of files and folders, as `windrow count` does: what `encodeFiles` would write.
 * @param {string | URL | Iterable<string | URL>} inputs Files, folders or patterns.
 * @param {CountOptions | null} [options]
 * @returns {Promise<Counts>}
 */
async function countFiles(inputs, options) {
  const known = /** @type {any} */ (optionsOf(options, 'countFiles', [...NAMES, 'onError', 'signal', 'tokenizer']));
  const signal = signalOf(known);
  const onError = known.onError ?? 'fail';
  if (onError !== 'fail' && onError !== 'skip') {
    throw new TypeError(`onError must be 'fail' or 'skip', not ${typeof onError === 'string' ? `'${onError}'` : kindOf(onError)}`);
  }
  const paths = Array.from(typeof inputs === 'string' || inputs instanceof URL ? [inputs] : iterableOf(inputs, 'inputs', 'paths'), (input) => pathOf(input, 'inputs'));
  const given = NAMES.filter((name) => (known[name] ?? null) !== null).map((name) => [snakeOf(name), plainOf(known[name], name)]);
  const spec = JSON.stringify({ ...Object.fromEntries(given), inputs: paths });
  const loaded = await loadedOf(known.tokenizer ?? 'o200k_base', !known.specialInText);
  throwIfAborted(signal);
  /** @type {any} */
  let job;
  const { summary, notes } = /** @type {any} */ (
    await later(
      (callback) => {
        job = new native.CountFilesJob(spec, nativeOf(loaded), callback);
      },
      signal,
      () => job.stop(),
    )
  );
  const counts = { ...JSON.parse(summary), notes: notes.map(inOptions) };
  counts.errors = counts.errors.map(inOptions);
  if (counts.errors.length > 0 && onError === 'fail') {
    throw Object.assign(new InputError(counts.errors[0], 'ERR_WINDROW_INPUT'), { counts });
  }
  return counts;
}

module.exports = { countFiles };
