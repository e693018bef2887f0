'use strict';
// Jobs: batches that this thread copies piece by piece, in turns with the event loop, while other threads work on them.

const { setImmediate, setTimeout } = require('node:timers');

const { Turns, halfOf, kindOf, later, resultOf, throwIfAborted } = require('./door.js');
const { ItemError, WindrowError } = require('./errors.js');
const limits = require('./limits.js');

const { bytes: BYTES, items: ITEMS } = limits;

/** Milliseconds between two looks at whether copied units have been worked on. */
const LOOK = 2;

/** A text of more units takes longer to be joined to others than to be copied by a call. */
const SHORT = 128;

/** Units of joined texts, which stay in the nearest cache. */
const JOINED = 1 << 13;

// Used between two turns only, so all jobs of this thread share it.
const slab = Buffer.allocUnsafeSlow(BYTES);
const words = new Uint32Array(slab.buffer, 0, BYTES / 4);
const ends = new Uint32Array(ITEMS);
const none = ends.subarray(0, 0);

/** Bytes of results that are lent by now: see `limits.lent`. */
let lent = 0;

/** Largest number of bytes of UTF-8 for a unit of UTF-16. */
const WIDEST = 3;

/**
 * @template R
 * @typedef {{
 *   push(units: any, ends: Uint32Array): number,
 *   readonly waiting: number,
 *   begin(): void,
 *   finish(callback: (outcome: any) => void): void,
 *   finishHere(copies: boolean): any,
 *   stop(): void,
 * }} Job
 */

/**
 * The items of a call. A list of the caller is read in place until others have a turn: they may change it.
 * @template T
 */
class Items {
  /** @param {Iterable<T>} items */
  constructor(items) {
    this.isKept = !Array.isArray(items);
    /** @type {readonly T[]} */
    this.list = Array.isArray(items) ? items : Array.from(items);
  }

  /** Keeps them as they are now. */
  keep() {
    if (!this.isKept) {
      this.list = this.list.slice();
      this.isKept = true;
    }
  }
}

/**
 * Copies texts into a job, a piece between two yields, which give how many bytes wait.
 *
 * Half of a surrogate pair is an error: it has no form in UTF-8. Ends are counted in units of UTF-16: those of short texts are not known in
 * bytes, since several of them become one string first.
 * @param {Job<any>} job
 * @param {Items<string>} texts
 * @returns {Generator<number, void, void>}
 */
function* copyTexts(job, texts) {
  let item = 0;
  while (item < texts.list.length) {
    const after = copySome(job, texts.list, item);
    if (after > item) {
      item = after;
      yield waiting;
      continue;
    }
    // A long text is copied in parts.
    const text = texts.list[item];
    let begin = 0;
    while ((text.length - begin) * WIDEST > BYTES) {
      const full = begin + Math.floor(BYTES / WIDEST);
      const end = isHighSurrogate(text.charCodeAt(full - 1)) ? full - 1 : full;
      const bytes = copy(text.slice(begin, end), 0, texts.list, item);
      yield job.push(slab.subarray(0, bytes), none);
      begin = end;
    }
    const bytes = copy(text.slice(begin), 0, texts.list, item);
    ends[0] = text.length - begin;
    yield job.push(slab.subarray(0, bytes), ends.subarray(0, 1));
    item++;
  }
}

/** How many bytes waited at the end of `copySome`. */
let waiting = 0;

/**
 * Copies the texts from `item` on that fit into a piece, and returns the index of the first one after them.
 * @param {Job<any>} job
 * @param {readonly string[]} texts
 * @param {number} item
 * @returns {number}
 */
function copySome(job, texts, item) {
  const first = item;
  let [used, units, count, joined] = [0, 0, 0, ''];
  const last = Math.min(texts.length, item + ITEMS);
  for (; item < last; item++) {
    const text = texts[item];
    if (typeof text !== 'string') {
      throw new TypeError(`item ${item} must be a string, not ${kindOf(text)}`);
    }
    const { length } = text;
    if ((joined.length + length) * WIDEST > BYTES - used) {
      break;
    }
    // Two halves in two texts are no pair.
    if (length > SHORT || joined.length > JOINED || isLowSurrogate(text.charCodeAt(0))) {
      if (joined !== '') {
        used += copy(joined, used, texts, first);
        joined = '';
      }
    }
    if (length > SHORT) {
      used += copy(text, used, texts, first);
    } else {
      joined += text;
    }
    units += length;
    ends[count++] = units;
  }
  if (count > 0) {
    used += copy(joined, used, texts, first);
    waiting = job.push(slab.subarray(0, used), ends.subarray(0, count));
  }
  return item;
}

/**
 * Copies a string that consists of texts from `first` on, and returns the number of bytes.
 * @param {string} string
 * @param {number} used
 * @param {readonly string[]} texts
 * @param {number} first
 * @returns {number}
 */
function copy(string, used, texts, first) {
  if (!string.isWellFormed()) {
    const item = texts.findIndex((text, number) => number >= first && !text.isWellFormed());
    throw new ItemError(item, halfOf(texts[item]));
  }
  return slab.write(string, used);
}

/** @param {number} unit */
function isHighSurrogate(unit) {
  return unit >= 0xd800 && unit < 0xdc00;
}

/** @param {number} unit */
function isLowSurrogate(unit) {
  return unit >= 0xdc00 && unit < 0xe000;
}

/**
 * Copies ids into a job, likewise.
 * @param {Job<any>} job
 * @param {Iterable<Uint32Array>} items
 * @returns {Generator<number, void, void>}
 */
function* copyIds(job, items) {
  let [used, count, item] = [0, 0, 0];
  for (const ids of items) {
    const { length } = ids;
    if (length > words.length - used || count === ITEMS) {
      yield job.push(words.subarray(0, used), ends.subarray(0, count));
      [used, count] = [0, 0];
    }
    let begin = 0;
    for (; length - begin > words.length; begin += words.length) {
      yield job.push(ids.subarray(begin, begin + words.length), none);
    }
    if (ids.length < length) {
      // Others had a turn.
      throw disposed(`item ${item}`);
    }
    words.set(begin === 0 ? ids : ids.subarray(begin), used);
    used += length - begin;
    ends[count++] = used;
    item++;
  }
  yield job.push(words.subarray(0, used), ends.subarray(0, count));
}

/** @param {string} name */
function disposed(name) {
  return new WindrowError(`${name} was disposed of\nhint: use it before its block ends, or load or encode it again`, 'ERR_WINDROW_DISPOSED');
}

/** @param {ArrayBufferLike} buffer */
function isDetached(buffer) {
  try {
    new Uint8Array(buffer);
    return false;
  } catch {
    return true;
  }
}

/**
 * The result of a job, here and now.
 * @template R
 * @param {Job<R>} job
 * @param {Generator<number, void, void>} copies
 * @returns {R}
 */
function runHere(job, copies) {
  for (const _ of copies);
  const result = resultOf(job.finishHere(lent > limits.lent));
  const bytes = bytesOf(result);
  if (lent === 0 && bytes > 0) {
    setImmediate(() => {
      lent = 0;
    }).unref();
  }
  lent += bytes;
  return result;
}

/**
 * Bytes of a result outside the heap.
 * @param {any} result
 * @returns {number}
 */
function bytesOf(result) {
  return (result.byteLength ?? 0) + (result.ids?.byteLength ?? 0) + (result.offsets?.byteLength ?? 0);
}

/**
 * Copies into a job on other threads. It begins once there is more than a piece and the copy takes long: they work meanwhile.
 * @param {Job<any>} job
 * @param {Generator<number, void, void>} copies
 * @param {AbortSignal} [signal]
 * @param {Items<any>} [items] What is copied, if others may change it.
 */
async function copyAll(job, copies, signal, items) {
  const turns = new Turns();
  try {
    for (let waiting of copies) {
      if (waiting > BYTES && turns.isHalfOver) {
        job.begin();
      }
      if (turns.isOver || waiting > limits.waiting) {
        job.begin();
        items?.keep();
        await turns.next();
        throwIfAborted(signal);
      }
      while (waiting > limits.waiting) {
        await new Promise((resolve) => setTimeout(resolve, LOOK));
        throwIfAborted(signal);
        waiting = job.waiting;
      }
    }
  } catch (error) {
    job.stop();
    throw error;
  }
}

/**
 * The result of a job on other threads.
 * @template R
 * @param {Job<R>} job
 * @param {Generator<number, void, void>} copies
 * @param {AbortSignal} [signal]
 * @param {Items<any>} [items] What is copied, if others may change it.
 * @returns {Promise<R>}
 */
async function run(job, copies, signal, items) {
  await copyAll(job, copies, signal, items);
  return later((callback) => job.finish(callback), signal, () => job.stop());
}

/** Texts of a stream that are copied together, at most. */
const TOGETHER = 1024;

/**
 * The result of a job on texts, which may come from a stream.
 * @template R
 * @param {Job<R>} job
 * @param {Iterable<string> | AsyncIterable<string>} texts
 * @param {AbortSignal} [signal]
 * @returns {Promise<R>}
 */
async function runTexts(job, texts, signal) {
  if (Symbol.iterator in texts) {
    const items = new Items(texts);
    return run(job, copyTexts(job, items), signal, items);
  }
  let before = 0;
  /** @type {string[]} */
  let some = [];
  let units = 0;
  const copyThem = async () => {
    const items = new Items(some);
    try {
      await copyAll(job, copyTexts(job, items), signal);
    } catch (error) {
      throw error instanceof ItemError ? new ItemError(before + error.item, error.reason, error.code) : error;
    }
    before += some.length;
    [some, units] = [[], 0];
  };
  try {
    for await (const text of texts) {
      throwIfAborted(signal);
      if (typeof text !== 'string') {
        const hint = ArrayBuffer.isView(text) ? ' (hint: decode a stream of bytes with setEncoding or a TextDecoderStream)' : '';
        throw new TypeError(`item ${before + some.length} must be a string, not ${kindOf(text)}${hint}`);
      }
      some.push(text);
      units += text.length;
      if (some.length === TOGETHER || units * WIDEST > BYTES) {
        await copyThem();
        job.begin();
      }
    }
    await copyThem();
  } catch (error) {
    job.stop();
    throw error;
  }
  return later((callback) => job.finish(callback), signal, () => job.stop());
}

module.exports = { Items, copyIds, copyTexts, disposed, isDetached, run, runHere, runTexts };
