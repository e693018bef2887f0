'use strict';
// The door: every call of the addon that works comes through here. Failures become errors in one place, and so do aborts.

const { FileError, InputError, ItemError, TokenizerError, WindrowError } = require('./errors.js');

/**
 * After so long the thread of the event loop does something else, in milliseconds. A frame of a screen takes 16.
 */
const SHARE = 4;

/**
 * @typedef {{ failure: string, message: string, item?: number }} Failure
 */

/**
 * @template R
 * @typedef {R | Failure} Outcome
 */

/**
 * The error of a failure.
 * @param {Failure} failure
 * @returns {Error}
 */
function errorOf({ failure, message, item }) {
  switch (failure) {
    case 'item':
      return new ItemError(/** @type {number} */ (item), message);
    case 'memory':
      return new ItemError(/** @type {number} */ (item), message, 'ERR_WINDROW_MEMORY');
    case 'tokenizer':
      return new TokenizerError(message, 'ERR_WINDROW_TOKENIZER');
    case 'input':
      return new InputError(message, 'ERR_WINDROW_INPUT');
    case 'missing':
      return new FileError(message, 'ENOENT');
    case 'file':
      return new FileError(message, 'EIO');
    case 'fault':
      return new WindrowError(message, 'ERR_WINDROW_FAULT');
    default:
      return new WindrowError(message);
  }
}

/**
 * The result of an outcome.
 * @template R
 * @param {Outcome<R>} outcome
 * @returns {R}
 */
function resultOf(outcome) {
  const failure = /** @type {any} */ (outcome)?.failure;
  if (failure !== undefined) {
    throw errorOf(/** @type {Failure} */ (outcome));
  }
  return /** @type {R} */ (outcome);
}

/**
 * The result of a call that takes a callback. An abort ends the wait at once, and what `stop` ends soon after.
 * @template R
 * @param {(callback: (outcome: Outcome<R>) => void) => unknown} call
 * @param {AbortSignal} [signal]
 * @param {() => void} [stop]
 * @returns {Promise<R>}
 */
function later(call, signal, stop) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      stop?.();
      reject(/** @type {AbortSignal} */ (signal).reason);
    };
    call((outcome) => {
      signal?.removeEventListener('abort', abort);
      try {
        resolve(resultOf(outcome));
      } catch (error) {
        reject(error);
      }
    });
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** Lets the event loop go on, once this thread has had its share. */
class Turns {
  #begin = performance.now();

  /** Whether it is the turn of others. */
  get isOver() {
    return performance.now() - this.#begin > SHARE;
  }

  /** Whether half of it is over. */
  get isHalfOver() {
    return performance.now() - this.#begin > SHARE / 2;
  }

  /** Comes back when the others had their turn. */
  async next() {
    await new Promise((resolve) => setImmediate(resolve));
    this.#begin = performance.now();
  }
}

/**
 * The signal of options, if it is one and has not been aborted.
 * @param {{ signal?: AbortSignal | undefined }} options
 * @returns {AbortSignal | undefined}
 */
function signalOf({ signal }) {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new TypeError(`signal must be an AbortSignal, not ${kindOf(signal)}`);
  }
  signal?.throwIfAborted();
  return signal;
}

/**
 * What a value is, for messages.
 * @param {unknown} value
 * @returns {string}
 */
function kindOf(value) {
  if (value === null || value === undefined) {
    return String(value);
  }
  return typeof value === 'object' ? (value.constructor?.name ?? 'an object') : `a ${typeof value}`;
}

module.exports = { Turns, kindOf, later, resultOf, signalOf };
