'use strict';
// Calls for single items that are made in one turn of the event loop are one batch: a job for each would cost more than the work.

const { setImmediate } = require('node:timers');

const { Turns, onAbort, reasonOf } = require('./door.js');
const { ItemError } = require('./errors.js');

/**
 * @template T, R
 * @typedef {{ item: T, resolve(result: R): void, reject(error: unknown): void, forget(): void, abandon(): void, isOver: boolean }} Call
 */

/**
 * @template T, R
 */
class Gather {
  /** @type {Call<T, R>[]} */
  #calls = [];
  #work;

  /** @param {(items: T[], signal: AbortSignal) => Promise<(item: number) => R>} work */
  constructor(work) {
    this.#work = work;
  }

  /**
   * The result of an item, from the batch of this turn.
   * @param {T} item
   * @param {AbortSignal} [signal]
   * @returns {Promise<R>}
   */
  add(item, signal) {
    return new Promise((resolve, reject) => {
      /** @type {Call<T, R>} */
      const call = { item, resolve, reject, forget() {}, abandon() {}, isOver: false };
      if (signal !== undefined) {
        call.forget = onAbort(signal, () => {
          call.isOver = true;
          reject(reasonOf(signal));
          call.abandon();
        });
      }
      if (this.#calls.push(call) === 1) {
        setImmediate(() => this.flush());
      }
    });
  }

  /** Begins the batch of the calls so far. */
  flush() {
    const calls = this.#calls.splice(0).filter(({ isOver }) => !isOver);
    if (calls.length > 0) {
      this.#run(calls);
    }
  }

  /** @param {Call<T, R>[]} calls */
  async #run(calls) {
    const stop = new AbortController();
    let left = calls.length;
    for (const call of calls) {
      call.abandon = () => {
        left -= 1;
        if (left === 0) {
          stop.abort();
        }
      };
    }
    try {
      const resultOf = await this.#work(calls.map(({ item }) => item), stop.signal);
      await each(calls, (call, item) => {
        call.forget();
        call.resolve(resultOf(item));
      });
    } catch (error) {
      // An item without a result fails its own call, and not the others of its batch.
      const isOfOne = error instanceof ItemError && calls.length > 1;
      await each(calls, (call) => {
        if (isOfOne && !call.isOver) {
          this.#run([call]);
        } else {
          call.forget();
          call.reject(error);
        }
      });
    }
  }
}

/**
 * Calls `work` for each call, in turns with the event loop.
 * @template C
 * @param {C[]} calls
 * @param {(call: C, item: number) => void} work
 */
async function each(calls, work) {
  const turns = new Turns();
  for (const [item, call] of calls.entries()) {
    if (turns.isOver) {
      await turns.next();
    }
    work(call, item);
  }
}

module.exports = { Gather };
